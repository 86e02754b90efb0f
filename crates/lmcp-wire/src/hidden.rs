//! Characters that people cannot see. Models read them, and terminals obey some of them, unnoticed by the user.
//!
//! Use this for foreign text inside of the program's own text. A text that is shown by itself must keep the characters that
//! many languages and emoji need.

/// Replaces every character that is invisible, or that moves others, by its number.
///
/// ```
/// use lmcp::wire::hidden::unhidden;
///
/// assert_eq!(unhidden("a\u{200b}b\r"), r"a\u{200b}b\u{d}");
/// ```
pub fn unhidden(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for char in text.chars() {
        match is_hidden(char) {
            true => shown.extend(char.escape_unicode()),
            false => shown.push(char),
        }
    }
    shown
}

/// Whether a character is a control character, has no width, is a blank other than the space, or has no meaning for most
/// readers.
pub fn is_hidden(char: char) -> bool {
    let is_blank = char.is_whitespace() && char != ' ';
    let is_no_character = u32::from(char) & 0xfffe == 0xfffe;
    char.is_control() || is_blank || is_no_character || is_unseen(char)
}

fn is_unseen(char: char) -> bool {
    matches!(
        char,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{2800}'
            | '\u{3164}'
            | '\u{e000}'..='\u{f8ff}'
            | '\u{fdd0}'..='\u{fdef}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffc}'
            | '\u{13430}'..='\u{1343f}'
            | '\u{16fe4}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d159}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
            | '\u{f0000}'..='\u{10ffff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hidden_is_shown_as_its_number() {
        for (text, shown) in [
            (
                "a\u{200b}b\u{e0041}\u{202e}c",
                r"a\u{200b}b\u{e0041}\u{202e}c",
            ),
            ("a\x1b[31m\rb\nc\u{9b}", r"a\u{1b}[31m\u{d}b\u{a}c\u{9b}"),
            (
                "a\u{a0}b\u{2003}\u{3000}\u{2800}c\u{e000}\u{10ffff}",
                r"a\u{a0}b\u{2003}\u{3000}\u{2800}c\u{e000}\u{10ffff}",
            ),
            ("größer, 大きい: ½ € 👍", "größer, 大きい: ½ € 👍"),
        ] {
            assert_eq!(unhidden(text), shown);
        }
    }
}
