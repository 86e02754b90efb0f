//! Words of servers as people judge by them: nothing in them is hidden, and they stay on their line. What a tool answers is shown by
//! `visible` instead, for letters of many languages and emoji need some of these characters.

/// Shows every character that is not to be seen, or that moves others, as its number. A model reads such characters, and a person
/// would not know.
pub(crate) fn unhidden(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for char in text.chars() {
        match char.is_control() || is_hidden(char) {
            true => shown.extend(char.escape_unicode()),
            false => shown.push(char),
        }
    }
    shown
}

/// Has it no width, a blank one, or does it turn the order of letters around?
fn is_hidden(char: char) -> bool {
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
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
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
            ("größer, 大きい: ½ €", "größer, 大きい: ½ €"),
        ] {
            assert_eq!(unhidden(text), shown);
        }
    }
}
