//! Words of hosts among our own lines: they must not look like our lines. No I/O.

use lmcp_wire::hidden::is_hidden;
use unicode_width::UnicodeWidthChar as _;

/// Writes the text of a host. A space marks each line that could be one of ours, also if invisible characters or marks
/// without a width stand before it.
pub(crate) fn quote(said: &str, out: &mut String) {
    // Line ends other than `\n` count, because people and models see them as line ends, too.
    let mut is_start = true;
    for letter in said.chars().map(still) {
        if is_start && OURS.contains(&letter) {
            out.push(' ');
        }
        out.push(letter);
        let is_unseen = is_hidden(letter) && !letter.is_whitespace() || letter.width() == Some(0);
        is_start = ENDS.contains(&letter) || is_start && is_unseen;
    }
    out.push('\n');
}

/// Returns each line of a host's text, after the name of the host.
pub(crate) fn marked(host: &str, said: &str) -> String {
    let lines = said.split(ENDS).filter(|line| !line.is_empty());
    let lines =
        lines.map(|line| format!("{host}: {}", line.chars().map(still).collect::<String>()));
    lines.collect::<Vec<_>>().join("\n")
}

/// Replaces a character that controls a terminal or changes the direction of text.
fn still(letter: char) -> char {
    let turns = matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let drives = letter.is_control() && letter != '\t' && !ENDS.contains(&letter);
    match turns || drives {
        true => '\u{fffd}',
        false => letter,
    }
}

/// The first characters of our own lines.
pub(crate) const OURS: [char; 2] = ['=', '['];

/// The characters that end a line for some readers.
pub(crate) const ENDS: [char; 7] = [
    '\n', '\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}',
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_that_a_host_says_of_itself_has_its_name() {
        assert_eq!(
            marked("a", "one\r\nb: done\u{2028}\x1b[2J"),
            "a: one\na: b: done\na: \u{fffd}[2J"
        );
    }
}
