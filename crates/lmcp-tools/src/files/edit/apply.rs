//! Applies one edit to the bytes of one file, or says why that is not possible.

use std::{fmt::Write as _, num::NonZeroU32};

use lmcp_core::{ToolError, ToolResult};

use super::{
    lines,
    matching::{self, Kind, Match},
    near,
    replacement::{self, Ends},
};
use crate::memory::Memory;

/// One edit as the caller asked for it.
#[derive(Debug)]
pub(super) struct Wish<'a> {
    /// Which of several edits this is, for messages; empty for a single one.
    which: String,
    old: &'a str,
    new: &'a str,
    count: Count,
}

/// How often the old text may occur.
#[derive(Clone, Copy, Debug)]
enum Count {
    Once,
    Exactly(usize),
    Any,
}

/// A file after an edit.
#[derive(Debug)]
pub(super) struct Edited {
    pub(super) bytes: Vec<u8>,
    pub(super) replacements: usize,
    /// The widest tolerance that was needed.
    pub(super) kind: Kind,
    /// Whether one text occurred in several places.
    pub(super) is_spread: bool,
}

impl<'a> Wish<'a> {
    pub(super) fn new(
        which: String,
        old: &'a str,
        new: &'a str,
        replace_all: bool,
        expected: Option<NonZeroU32>,
    ) -> Self {
        let count = match expected {
            Some(count) => Count::Exactly(count.get() as usize),
            None if replace_all => Count::Any,
            None => Count::Once,
        };
        Self {
            which,
            old,
            new,
            count,
        }
    }

    /// Fails if the edit is wrong whatever the file holds.
    pub(super) fn check(&self) -> ToolResult<()> {
        if self.old.is_empty() {
            return Err(self
                .error("`old_string` is empty")
                .hint("to make a file or replace all of it use write_file"));
        }
        if self.old == self.new {
            return Err(self.error("`new_string` is the same as `old_string`"));
        }
        Ok(())
    }

    /// Applies the edit. Reserves the memory that it needs besides a second file of the same
    /// length.
    pub(super) fn apply(
        &self,
        file: &[u8],
        fuzzy: bool,
        path: &str,
        memory: &mut Memory,
    ) -> ToolResult<Edited> {
        let (old, new) = (self.old.as_bytes(), self.new.as_bytes());
        // A text with more lines than the file cannot occur in it.
        if lines::count(old) <= lines::count(file) {
            memory.need(old.len() + 2 * lines::count(old) * PIECE_BYTES)?;
        }
        let mut found = matching::find(file, old, MOST_MATCHES + 1);
        if found.is_empty() && fuzzy {
            found = matching::find_tolerantly(file, old, MOST_MATCHES + 1);
        }
        self.expect_count(file, &found, path)?;
        if !self.new.is_ascii() && std::str::from_utf8(file).is_err() {
            return Err(self
                .error(format!("`{path}` is not UTF-8, and `new_string` has characters that its encoding may write otherwise"))
                .hint("use plain ASCII in `new_string`, or convert the file first"));
        }
        memory.need(found.capacity() * size_of::<Match>())?;
        memory.need(lines::count(new) * PIECE_BYTES)?;
        let bytes = self.replace(file, &found, new, memory)?;
        // The next edit, and the diff, handle each line.
        let lines = lines::count(&bytes).saturating_sub(lines::count(file));
        memory.need(lines.saturating_mul(LINE_BYTES).min(LINES_BYTES))?;
        if bytes == file {
            return Err(self
                .error("the edit changes nothing: both texts are the same but for line endings, which are kept")
                .hint("to change line endings write the whole file with write_file"));
        }
        let kind = found
            .iter()
            .map(|found| found.kind)
            .max()
            .unwrap_or(Kind::Exact);
        Ok(Edited {
            bytes,
            replacements: found.len(),
            kind,
            is_spread: found.len() > 1,
        })
    }

    fn replace(
        &self,
        file: &[u8],
        found: &[Match],
        new: &[u8],
        memory: &mut Memory,
    ) -> ToolResult<Vec<u8>> {
        // Only one replacement at a time is in memory beside the file.
        memory.need(2 * new.len())?;
        let mut bytes = Vec::with_capacity(file.len() + new.len());
        let mut ends = Ends::of(file);
        let mut from = 0;
        for one in found {
            let before = &file[from..one.range.start];
            let replacement = replacement::bytes(&mut ends, one, self.old.as_bytes(), new);
            let room = bytes.capacity() - bytes.len();
            // The rest of the file must fit, too.
            let wanted = before.len() + replacement.len() + file.len() - one.range.end;
            if wanted > room {
                let more = (wanted - room).max(bytes.capacity() / 4);
                memory.need(more)?;
                bytes.reserve_exact(room + more);
            }
            bytes.extend_from_slice(before);
            bytes.extend(replacement);
            from = one.range.end;
            if bytes.len() as u64 > MOST_BYTES {
                return Err(self
                    .error(format!("the file would be larger than {MOST_BYTES} bytes"))
                    .hint("replace fewer places, or put the text into another file"));
            }
        }
        bytes.extend_from_slice(&file[from..]);
        Ok(bytes)
    }

    fn expect_count(&self, file: &[u8], found: &[Match], path: &str) -> ToolResult<()> {
        let times = match found.len() {
            1 => "once".to_owned(),
            number => format!("{number} times"),
        };
        match (found.len(), self.count) {
            (0, _) => Err(self.not_found(file, path)),
            (number, _) if number > MOST_MATCHES => Err(self
                .error(format!(
                    "`old_string` occurs more than {MOST_MATCHES} times in `{path}`; nothing was written"
                ))
                .hint("make `old_string` longer, so that it occurs less often")),
            (1, Count::Once) | (_, Count::Any) => Ok(()),
            (number, Count::Exactly(expected)) if number == expected => Ok(()),
            (_, Count::Exactly(expected)) => Err(self.error(format!(
                "`old_string` occurs {times} in `{path}`, not {expected}; nothing was written{}",
                places(file, found)
            ))),
            (_, Count::Once) => Err(self
                .error(format!(
                    "`old_string` occurs {times} in `{path}`; nothing was written{}",
                    places(file, found)
                ))
                .hint("add lines around it until it is the only one, or pass `replace_all: true`")),
        }
    }

    fn not_found(&self, file: &[u8], path: &str) -> ToolError {
        let old = self.old.as_bytes();
        let error = |more: String| {
            self.error(format!(
                "`old_string` is not in `{path}`; nothing was written{more}"
            ))
        };
        if std::str::from_utf8(file).is_err() && !self.old.is_ascii() {
            return error(String::new())
                .hint("the file is not UTF-8; use plain ASCII in `old_string`");
        }
        let error = error(near::describe(file, old));
        let tolerated = matching::find_tolerantly(file, old, 2);
        match &tolerated[..] {
            [one] => {
                let differs = match one.kind {
                    Kind::Indentation => "indentation",
                    Kind::Exact | Kind::LineEndings | Kind::TrailingBlanks => {
                        "blanks at the ends of lines"
                    }
                };
                let line = lines::number(file, one.range.start);
                error.hint(format!(
                    "line {line} differs only in {differs}; `fuzzy: true` would take it"
                ))
            }
            _ => error.hint("copy the text from the file as read_file shows it"),
        }
    }

    fn error(&self, words: impl AsRef<str>) -> ToolError {
        ToolError::new(format!("{}{}", self.which, words.as_ref()))
    }
}

/// Returns where the matches are: the first few, with their lines.
fn places(file: &[u8], found: &[Match]) -> String {
    let mut told = String::new();
    for one in found.iter().take(SHOWN) {
        let start = memchr::memrchr(b'\n', &file[..one.range.start]).map_or(0, |at| at + 1);
        let rest = &file[start..];
        let line = &rest[..memchr::memchr(b'\n', rest).unwrap_or(rest.len())];
        let line = String::from_utf8_lossy(&line[..line.len().min(4 * SHOWN_CHARS)]);
        let shown: String = line.trim_end().chars().take(SHOWN_CHARS).collect();
        let number = lines::number(file, one.range.start);
        // Writing to a string cannot fail.
        let _ = write!(told, "\nline {number}: {shown}");
    }
    if found.len() > SHOWN {
        let _ = write!(told, "\nand {} more", found.len() - SHOWN);
    }
    told
}

/// The largest file that is edited, and the largest that an edit makes.
pub(in crate::files) const MOST_BYTES: u64 = 32 << 20;
/// The memory for a line while edits are made, at most, and for all lines of a file.
pub(super) const LINE_BYTES: usize = 48;
pub(super) const LINES_BYTES: usize = 10 << 20;
/// The memory for a line of the two texts of an edit: its position and its ending.
const PIECE_BYTES: usize = 64;
const MOST_MATCHES: usize = 100_000;
const SHOWN: usize = 10;
const SHOWN_CHARS: usize = 120;
