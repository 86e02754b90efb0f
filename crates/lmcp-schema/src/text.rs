//! Small pieces of text: values and lists, cut to a length that a model reads.

use std::{fmt, io};

use serde_json::Value;

/// The name of a value's type.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Writes a value as JSON, cut to [`MAX_SHOWN`] characters.
pub(crate) fn shown(value: &Value) -> String {
    let mut head = Head(Vec::new());
    // `Head` stops the writer by refusing more bytes. There is no other error.
    let _ = serde_json::to_writer(&mut head, value);
    shorten(&String::from_utf8_lossy(&head.0), MAX_SHOWN)
}

/// A value that is written as [`shown`] does, but only when it is displayed.
pub(crate) struct Shown<'a>(pub(crate) &'a Value);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(self.0))
    }
}

/// Writes a value as JSON, with its type in front unless it is `null`.
pub(crate) fn shown_with_kind(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        _ => format!("{} {}", kind(value), shown(value)),
    }
}

/// Returns at most `limit` characters of a text. An ellipsis stands for the rest.
pub(crate) fn shorten(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        None => text.to_owned(),
        Some(_) => text.chars().take(limit - 1).chain(['…']).collect(),
    }
}

/// Writes a list as `a, b or c`.
pub(crate) fn either(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [head @ .., last] => format!("{} or {last}", head.join(", ")),
    }
}

/// Writes a list as `a, b, c`. If it is longer than [`MAX_LIST`] characters, the number of the other names follows.
pub(crate) fn list(names: &[String]) -> String {
    let mut text = String::new();
    for (index, name) in names.iter().enumerate() {
        if index > 0 && text.chars().count() + name.chars().count() > MAX_LIST {
            return format!("{text} and {} more", names.len() - index);
        }
        text.push_str(if index > 0 { ", " } else { "" });
        text.push_str(name);
    }
    text
}

/// Takes the first bytes and refuses the rest, so that showing sixty characters does not write a megabyte.
struct Head(Vec<u8>);

impl io::Write for Head {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() > MAX_HEAD {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let taken = &bytes[..bytes.len().min(MAX_HEAD)];
        self.0.extend_from_slice(taken);
        Ok(taken.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The most characters of a value in a message, enough to recognise it.
pub(crate) const MAX_SHOWN: usize = 60;
/// The most characters of a list in a message: two or three lines of a message must fit into 400.
pub(crate) const MAX_LIST: usize = 120;
/// More bytes than any [`MAX_SHOWN`] characters have, so a character cut in two is never shown.
const MAX_HEAD: usize = 4 * (MAX_SHOWN + 1);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_long_value_is_cut_between_characters() {
        for long in [
            json!("ä€😀".repeat(1000)),
            json!(vec![12345; 1000]),
            json!({ "k".repeat(500): 1 }),
        ] {
            let text = shown(&long);
            assert_eq!(text.chars().count(), MAX_SHOWN, "{text}");
            assert!(text.ends_with('…') && !text.contains('\u{fffd}'), "{text}");
        }
        assert_eq!(shown(&json!("x".repeat(58))).chars().count(), MAX_SHOWN);
        assert_eq!(shown(&json!({ "a": [1, null] })), r#"{"a":[1,null]}"#);
    }

    #[test]
    fn a_long_list_says_how_much_is_left() {
        let names: Vec<_> = (0..100).map(|n| format!("`name{n}`")).collect();
        let text = list(&names);
        assert!(
            text.ends_with(" more") && text.chars().count() < MAX_LIST + 20,
            "{text}"
        );
        assert_eq!(list(&["a".to_owned(), "b".to_owned()]), "a, b");
        assert_eq!(either(&["a", "b", "c"]), "a, b or c");
    }
}
