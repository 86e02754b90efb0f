//! The mismatches of a value, in words that a model can act on.

use std::fmt;

use serde_json::Value;

use crate::{node::Types, pointer, text};

/// One mismatch of a value with its schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The JSON pointer of the place in the value; empty for the whole value.
    pub path: String,
    /// The sentence about the mismatch. It contains the path.
    pub message: String,
    pub(crate) kind: Kind,
}

/// The facts that `explain` needs to sum up the alternatives of an `anyOf`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Type(Types),
    /// The values that are allowed, and the value that came.
    Values(Vec<String>, String),
    Other,
}

impl Mismatch {
    /// "`/path` {sentence}"
    pub(crate) fn says(at: &Path<'_>, sentence: impl fmt::Display) -> Self {
        let path = at.pointer();
        let message = format!("{} {sentence}", place(&path));
        Self {
            path,
            message,
            kind: Kind::Other,
        }
    }

    /// Replaces the sentence of this mismatch.
    pub(crate) fn say(&mut self, sentence: impl fmt::Display) {
        self.message = format!("{} {sentence}", place(&self.path));
        self.kind = Kind::Other;
    }

    /// "`/path`: expected {expected}, got {got}"
    pub(crate) fn expected(
        at: &Path<'_>,
        expected: impl fmt::Display,
        got: impl fmt::Display,
    ) -> Self {
        let path = at.pointer();
        let message = format!("{}: expected {expected}, got {got}", place(&path));
        Self {
            path,
            message,
            kind: Kind::Other,
        }
    }

    pub(crate) fn of_type(at: &Path<'_>, types: Types, got: &Value) -> Self {
        let mismatch = Self::expected(at, types, text::shown_with_kind(got));
        Self {
            kind: Kind::Type(types),
            ..mismatch
        }
    }

    pub(crate) fn of_values(path: String, values: Vec<String>, got: String) -> Self {
        let one_of = if values.len() == 1 { "" } else { "one of " };
        let list = text::list(&values);
        let message = format!("{}: expected {one_of}{list}, got {got}", place(&path));
        Self {
            path,
            message,
            kind: Kind::Values(values, got),
        }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// The mismatches of a value, at most ten. Displayed as one line each, with at most 400 characters together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatches(pub(crate) Vec<Mismatch>);

impl Mismatches {
    /// Returns the mismatches one by one.
    pub fn iter(&self) -> std::slice::Iter<'_, Mismatch> {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a Mismatches {
    type Item = &'a Mismatch;
    type IntoIter = std::slice::Iter<'a, Mismatch>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Mismatches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = MAX_TEXT;
        for (index, mismatch) in self.0.iter().enumerate() {
            let after = self.0.len() - index - 1;
            let room = left - if after == 0 { 0 } else { MAX_TAIL };
            let length = mismatch.message.chars().count() + 1;
            if index == 0 {
                f.write_str(&text::shorten(&mismatch.message, room))?;
            } else if length <= room {
                write!(f, "\n{mismatch}")?;
            } else {
                return write!(f, "\nand {} more", after + 1);
            }
            left -= length.min(room);
        }
        Ok(())
    }
}

impl std::error::Error for Mismatches {}

/// The path from the root to a value, kept on the stack. Only a mismatch turns it into text.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Path<'a> {
    Root,
    Key(&'a Self, &'a str),
    Index(&'a Self, usize),
}

impl Path<'_> {
    pub(crate) fn pointer(&self) -> String {
        match self {
            Self::Root => String::new(),
            Self::Key(parent, key) => {
                let mut pointer = parent.pointer();
                pointer::push(&mut pointer, key);
                pointer
            }
            Self::Index(parent, index) => format!("{}/{index}", parent.pointer()),
        }
    }
}

fn place(path: &str) -> String {
    let path = if path.is_empty() { "/" } else { path };
    format!("`{}`", text::shorten(path, MAX_PATH))
}

/// The most characters of the whole text: a model should not have to read more about one wrong call.
const MAX_TEXT: usize = 400;
/// The characters of `\nand 10 more`.
const MAX_TAIL: usize = 12;
/// The most characters of a path in a sentence. A longer path is cut, so that the sentence stays readable.
const MAX_PATH: usize = 120;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_bounded_and_says_what_was_left_out() {
        let one = |n: usize| Mismatch::says(&Path::Key(&Path::Root, &"k".repeat(n)), "is required");
        for (many, tail) in [
            (vec![one(1); 3], "is required"),
            (vec![one(60); 10], "more"),
            (vec![one(500); 2], "and 0 more"),
            (vec![one(500)], "is required"),
        ] {
            let text = Mismatches(many).to_string();
            assert!(text.chars().count() <= MAX_TEXT, "{text}");
            assert!(text.ends_with(tail) || tail == "and 0 more", "{text}");
        }
    }

    #[test]
    fn paths_are_json_pointers() {
        let path = Path::Index(&Path::Key(&Path::Key(&Path::Root, "a/b"), "c~d"), 3);
        assert_eq!(path.pointer(), "/a~1b/c~0d/3");
        assert_eq!(
            Mismatch::says(&Path::Root, "is not allowed").message,
            "`/` is not allowed"
        );
    }
}
