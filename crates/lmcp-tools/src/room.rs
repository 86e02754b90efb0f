//! How much a client can take in one result, and where it looks for it.
//!
//! Clients differ: some show their model only `structuredContent`, some only the text, and each has a limit past which
//! it cuts, silently and in the middle. So what is large goes where the client looks, once, and within its limit; a
//! client that nobody knows gets it in both places, each half as large.

use lmcp_core::Cx;

/// What fits into one result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// Bytes of payload: file contents, output, matches. As JSON writes them, quotes and escapes counted.
    pub(crate) bytes: usize,
    /// Lines of payload.
    pub(crate) lines: usize,
    /// Does the payload belong into the text?
    pub(crate) in_text: bool,
    /// Does it belong into `structuredContent`?
    pub(crate) in_structured: bool,
}

/// Clients whose ways are known, by the beginning of the name they give themselves.
const KNOWN: &[(&str, Room)] = &[
    // Warns at 10,000 tokens, cuts at 25,000; shows its model `structuredContent` alone.
    ("claude-code", Room::structured(32 * 1024, 2000)),
    // Cuts at 10 KB or 256 lines; shows `structuredContent` alone.
    ("codex", Room::structured(9 * 1024, 240)),
    // Cuts at 50 KB or 2000 lines; shows the text unless there is none.
    ("opencode", Room::text(48 * 1024, 1900)),
    ("gemini-cli", Room::text(40 * 1024, 2000)),
];

impl Room {
    const fn structured(bytes: usize, lines: usize) -> Self {
        Self {
            bytes,
            lines,
            in_text: false,
            in_structured: true,
        }
    }

    const fn text(bytes: usize, lines: usize) -> Self {
        Self {
            bytes,
            lines,
            in_text: true,
            in_structured: false,
        }
    }

    /// For a client that nobody knows.
    pub(crate) const UNKNOWN: Self = Self {
        bytes: 24 * 1024,
        lines: 2000,
        in_text: true,
        in_structured: true,
    };

    /// The room in the client that sent this request. What a client says of itself decides nothing but this.
    pub(crate) fn of(cx: &Cx) -> Self {
        let name = cx.client_info().map(|info| info.name).unwrap_or_default();
        Self::by_name(&name)
    }

    fn by_name(name: &str) -> Self {
        let known = KNOWN.iter().find(|(known, _)| name.starts_with(known));
        known.map_or(Self::UNKNOWN, |(_, room)| *room)
    }

    /// The payload for `structuredContent`, if it belongs there.
    pub(crate) fn structured_copy(&self, payload: &str) -> Option<String> {
        self.in_structured.then(|| payload.to_owned())
    }

    /// How many bytes at the beginning of a text fit: whole characters, and whole lines unless the first is too long.
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

    /// This room, divided.
    pub(crate) fn share(&self, parts: usize) -> Self {
        let parts = parts.max(1);
        Self {
            bytes: self.bytes / parts,
            lines: (self.lines / parts).max(1),
            ..*self
        }
    }
}

/// How many bytes a character takes in a JSON string.
pub(crate) fn json_length(character: char) -> usize {
    match character {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        _ => character.len_utf8(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Room = Room::text(10, 3);

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

    #[test]
    fn known_clients_get_it_where_they_look() {
        assert!(!Room::by_name("claude-code").in_text);
        assert!(!Room::by_name("opencode").in_structured);
        let unknown = Room::by_name("somebody");
        assert!(unknown.in_text && unknown.in_structured);
    }
}
