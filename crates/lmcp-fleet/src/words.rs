//! Words of hosts among lines of ours, which they must not look like. No I/O.

use lmcp_wire::hidden::is_hidden;

/// Writes what a host said. A line of it that could be one of ours is told from them by a space before it, also where characters
/// that nobody sees stand before it.
pub(crate) fn quote(said: &str, out: &mut String) {
    // Not at `\n` alone: people and models see other line ends as such, too.
    let mut is_start = true;
    for letter in said.chars().map(still) {
        if is_start && OURS.contains(&letter) {
            out.push(' ');
        }
        out.push(letter);
        let is_unseen = is_hidden(letter) && !letter.is_whitespace();
        is_start = ENDS.contains(&letter) || is_start && is_unseen;
    }
    out.push('\n');
}

/// Each line of what a host says of itself, behind the name of the host.
pub(crate) fn marked(host: &str, said: &str) -> String {
    let lines = said.split(ENDS).filter(|line| !line.is_empty());
    let lines =
        lines.map(|line| format!("{host}: {}", line.chars().map(still).collect::<String>()));
    lines.collect::<Vec<_>>().join("\n")
}

/// A character that moves nothing: one that drives a terminal, or turns the order of letters around, is replaced.
fn still(letter: char) -> char {
    let turns = matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let drives = letter.is_control() && letter != '\t' && !ENDS.contains(&letter);
    match turns || drives {
        true => '\u{fffd}',
        false => letter,
    }
}

/// What lines of ours begin with.
pub(crate) const OURS: [char; 2] = ['=', '['];

/// What ends a line, for some who read it.
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
