//! The position at which a search goes on: after a line of a file, in the order of the search. The server keeps
//! nothing.

use std::fmt::Write;

use lmcp_core::{ToolError, ToolResult};

/// A place in the results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cursor {
    pub(super) after: Position,
    /// The number of results before the position.
    pub(super) seen: u64,
}

/// How far a search has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Position {
    /// The file, relative to the folder that is searched; empty if a file itself is searched.
    pub(super) path: Vec<u8>,
    /// The last line that was searched; `None` stands for the whole file.
    pub(super) line: Option<u64>,
}

impl Cursor {
    /// Reads what [`Cursor::write`] wrote.
    pub(super) fn read(text: &str, fingerprint: u32) -> ToolResult<Self> {
        let (search, cursor) = parse(text).ok_or_else(|| {
            ToolError::new(format!("`{text}` is not a cursor"))
                .hint("pass the `next_cursor` of an earlier answer as it is")
        })?;
        if search != fingerprint {
            return Err(ToolError::new("this cursor belongs to another search")
                .hint("repeat all other arguments as they were, or leave the cursor out"));
        }
        Ok(cursor)
    }

    /// Returns the cursor as text: the search, results so far, the line, the path. Bytes that could be misread are
    /// written as `%41`.
    pub(super) fn write(&self, fingerprint: u32) -> String {
        let line = self.after.line.unwrap_or(0);
        let mut text = format!("{fingerprint:08x}.{}.{line}.", self.seen);
        for chunk in self.after.path.utf8_chunks() {
            for character in chunk.valid().chars() {
                match character {
                    '%' | '\0'..='\u{20}' | '\u{7f}' | '"' | '\\' => {
                        let _ = write!(text, "%{:02x}", u32::from(character));
                    }
                    _ => text.push(character),
                }
            }
            for byte in chunk.invalid() {
                let _ = write!(text, "%{byte:02x}");
            }
        }
        text
    }

    /// Returns the names of the folders on the way to the file, and of the file.
    pub(super) fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.after.path.split(|byte| *byte == b'/')
    }
}

fn parse(text: &str) -> Option<(u32, Cursor)> {
    let mut parts = text.splitn(4, '.');
    let search = u32::from_str_radix(parts.next()?, 16).ok()?;
    let seen = parts.next()?.parse().ok()?;
    let line: u64 = parts.next()?.parse().ok()?;
    let mut path = Vec::new();
    let mut pieces = parts.next()?.split('%');
    path.extend_from_slice(pieces.next()?.as_bytes());
    for piece in pieces {
        let (hex, rest) = (piece.get(..2)?, piece.get(2..)?);
        path.push(u8::from_str_radix(hex, 16).ok()?);
        path.extend_from_slice(rest.as_bytes());
    }
    let line = Some(line).filter(|line| *line > 0);
    let after = Position { path, line };
    Some((search, Cursor { after, seen }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read_again(path: Vec<u8>, line in proptest::option::of(1_u64..), seen: u64, search: u32) {
            let cursor = Cursor { after: Position { path, line }, seen };
            prop_assert_eq!(Cursor::read(&cursor.write(search), search).unwrap(), cursor);
        }

        #[test]
        fn nothing_that_is_said_breaks_the_reader(text: String) {
            let _ = parse(&text);
        }
    }

    #[test]
    fn a_cursor_of_another_search_is_refused() {
        let cursor = Cursor {
            after: Position {
                path: b"a".to_vec(),
                line: None,
            },
            seen: 1,
        };
        let err = Cursor::read(&cursor.write(1), 2).unwrap_err();
        assert!(err.to_string().contains("another search"));
    }
}
