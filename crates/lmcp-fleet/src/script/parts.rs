//! The output of a call, cut into the parts that its script announced. A mark that nobody can guess stands before each part.

use std::str::FromStr;

use lmcp_core::Reservation;
use memchr::memmem::Finder;

use crate::limits::SHELL_PARTS;

/// The output of a call, and its exit code.
#[derive(Debug)]
pub(super) struct Answer {
    /// The exit code of the script: 0 means success.
    pub(super) code: i32,
    bytes: Vec<u8>,
    /// `\nMARK- `: the text before the words of a part.
    mark: String,
    /// The memory that the output takes.
    _counted: Option<Reservation>,
}

/// A part: the words that announced it, and the bytes after them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part<'a> {
    words: &'a str,
    pub(super) bytes: &'a [u8],
}

impl Answer {
    pub(super) fn new(code: i32, bytes: Vec<u8>, mark: &str) -> Self {
        Self {
            code,
            bytes,
            mark: format!("\n{mark}- "),
            _counted: None,
        }
    }

    /// Adds the memory that the output takes.
    pub(super) fn counted(mut self, counted: Option<Reservation>) -> Self {
        self._counted = counted;
        self
    }

    /// Returns the length of the output in bytes.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the parts, in order. Bytes before the first part belong to no part.
    pub(super) fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        let finder = Finder::new(&self.mark);
        let starts: Vec<usize> = finder.find_iter(&self.bytes).take(SHELL_PARTS).collect();
        let ends: Vec<usize> = starts.iter().skip(1).copied().collect();
        let ends = ends.into_iter().chain([self.bytes.len()]);
        starts.into_iter().zip(ends).filter_map(|(start, end)| {
            let whole = self.bytes.get(start + self.mark.len()..end)?;
            let line = memchr::memchr(b'\n', whole).unwrap_or(whole.len());
            Some(Part {
                words: std::str::from_utf8(whole.get(..line)?).ok()?,
                bytes: whole.get(line + 1..).unwrap_or_default(),
            })
        })
    }

    /// Returns the first part with this name.
    pub(super) fn part(&self, name: &str) -> Option<Part<'_>> {
        self.parts().find(|part| part.name() == name)
    }
}

impl<'a> Part<'a> {
    /// Returns the first word of the part.
    pub(super) fn name(&self) -> &'a str {
        self.words.split(' ').next().unwrap_or_default()
    }

    /// Returns the word at this place.
    pub(super) fn word(&self, at: usize) -> &'a str {
        self.words.split(' ').nth(at).unwrap_or_default()
    }

    /// Returns the word at this place, as a number.
    pub(super) fn number<T: FromStr>(&self, at: usize) -> Option<T> {
        self.word(at).parse().ok()
    }

    /// Returns the value of a word `key=value`, unless it is empty.
    pub(super) fn value(&self, key: &str) -> Option<&'a str> {
        let mut words = self.words.split(' ');
        words
            .find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
            .filter(|value| !value.is_empty())
    }

    /// Returns the value of a word `key=value`, as a number.
    pub(super) fn count<T: FromStr>(&self, key: &str) -> Option<T> {
        self.value(key)?.parse().ok()
    }

    /// Returns whether a word is `key=yes`.
    pub(super) fn says(&self, key: &str) -> bool {
        self.value(key) == Some("yes")
    }

    /// Returns the bytes of the part, without the line end that its writer added.
    pub(super) fn line(&self) -> &'a [u8] {
        self.bytes.strip_suffix(b"\n").unwrap_or(self.bytes)
    }

    /// Returns the bytes of the part, as text.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(self.line()).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_what_stands_between_marks() {
        let written = b"noise\nM- job id=a out=3 left=\nabc\n\nM- data\n\0\nM -\n".to_vec();
        let answer = Answer::new(0, written, "M");
        let parts: Vec<_> = answer.parts().collect();
        assert_eq!(parts.len(), 2);
        assert_eq!((parts[0].name(), parts[0].bytes), ("job", &b"abc\n"[..]));
        assert_eq!(parts[0].count("out"), Some(3));
        assert_eq!(parts[0].value("left"), None);
        assert_eq!(parts[1].bytes, b"\0\nM -\n");
        assert!(answer.part("none").is_none());
    }
}
