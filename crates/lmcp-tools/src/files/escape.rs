//! Names in text: each takes one line, whatever characters it has.

use std::borrow::Cow;

/// Returns a name without line breaks and other control characters: they are written as `\n` or
/// `\u{1b}`.
pub(super) fn escaped(name: &str) -> Cow<'_, str> {
    if !name.contains(char::is_control) {
        return name.into();
    }
    let mut shown = String::with_capacity(name.len() + 8);
    for character in name.chars() {
        if character.is_control() {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_written_out() {
        assert_eq!(escaped("a\nb\u{1b}[31m\u{85}é"), "a\\nb\\u{1b}[31m\\u{85}é");
        assert!(matches!(escaped("日本 a\\b"), Cow::Borrowed(_)));
    }
}
