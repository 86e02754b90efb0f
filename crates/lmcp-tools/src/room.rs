//! The room in one result, from what the engine knows of each client (`Cx::presentation`).

use lmcp_core::{Cx, Presentation};

/// The room in one result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// Bytes of payload: file contents, output, matches. Counted as in JSON, with quotes and escapes.
    pub(crate) bytes: usize,
    /// Lines of payload.
    pub(crate) lines: usize,
    /// Whether the payload also belongs into `structuredContent`. It is always in the text.
    pub(crate) in_structured: bool,
}

impl Room {
    /// A room for tests.
    #[cfg(test)]
    pub(crate) const UNKNOWN: Self = Self {
        bytes: 24 * 1024,
        lines: 2000,
        in_structured: true,
    };

    /// Returns the room in the client that sent this request.
    pub(crate) fn of(cx: &Cx) -> Self {
        let Presentation {
            bytes,
            lines,
            structured,
            ..
        } = cx.presentation();
        Self {
            bytes,
            lines,
            in_structured: structured,
        }
    }

    /// Returns the payload for `structuredContent`, if it belongs there.
    pub(crate) fn structured_copy(&self, payload: &str) -> Option<String> {
        self.in_structured.then(|| payload.to_owned())
    }

    /// Returns how many bytes at the beginning of a text fit: whole characters, and whole lines unless the first is
    /// too long.
    pub(crate) fn fit(&self, text: &str) -> usize {
        let (mut cost, mut lines, mut line_end) = (0, 0, 0);
        for (at, character) in text.char_indices() {
            cost += json_length(character);
            if cost > self.bytes || lines >= self.lines {
                return if line_end > 0 { line_end } else { at };
            }
            if character == '\n' {
                lines += 1;
                line_end = at + 1;
            }
        }
        text.len()
    }

    /// Returns a part of this room.
    pub(crate) fn share(&self, parts: usize) -> Self {
        let parts = parts.max(1);
        Self {
            bytes: self.bytes / parts,
            lines: (self.lines / parts).max(1),
            ..*self
        }
    }
}

/// Returns how many bytes a character takes in a JSON string.
pub(crate) fn json_length(character: char) -> usize {
    match character {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        _ => character.len_utf8(),
    }
}

/// Returns how many bytes a text takes in a JSON string.
pub(crate) fn json_length_of(text: &str) -> usize {
    text.chars().map(json_length).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Room = Room {
        bytes: 10,
        lines: 3,
        in_structured: false,
    };

    #[test]
    fn whole_lines_fit_or_the_beginning_of_one() {
        assert_eq!(SMALL.fit("abc"), 3);
        assert_eq!(SMALL.fit("abc\ndefghijkl"), 4);
        assert_eq!(SMALL.fit("abcdefghijklmn"), 10);
        assert_eq!(SMALL.fit("a\nb\nc\nd\n"), 6);
    }

    #[test]
    fn characters_stay_whole_and_count_as_json_writes_them() {
        assert_eq!(SMALL.fit("aaaaaaaaaé"), 9);
        assert_eq!(SMALL.fit("\u{1}\u{1}"), 1);
    }
}
