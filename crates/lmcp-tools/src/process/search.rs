//! Searches for patterns in a job's output: in new output, and in all of it.

use std::{io, time::Instant};

use lmcp_core::Cx;
use regex::bytes::Regex;
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    pattern::Pattern,
    plain, show,
    spool::{Record, step_over},
};
use crate::room::Room;

/// The number of bytes that are read at once.
const CHUNK: usize = 256 * 1024;
/// The longest match: it may span this many bytes, in however many parts they came.
const LONGEST_MATCH: usize = 64 * 1024;
/// How many bytes of a line are searched again that was incomplete at the last reading.
const BEGUN_LINE: u64 = 4 * 1024;
/// The most bytes of a line without an end that are searched together.
const LONGEST_LINE: usize = 64 * 1024;
/// The most bytes of a matching line that are shown.
const SHOWN_LINE: usize = 512;

/// Waits for a pattern. A match may span lines, and may begin in output that was searched before.
#[derive(Debug)]
pub(super) struct Watch {
    pattern: Pattern,
    offset: u64,
    /// A match must end after this position.
    seen: u64,
    /// The last bytes that were searched.
    rest: Vec<u8>,
}

impl Watch {
    pub(super) fn new(pattern: Pattern, offset: u64) -> Self {
        Self {
            pattern,
            offset,
            seen: offset,
            rest: Vec::new(),
        }
    }

    /// Returns the position at which the next search begins.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Watches for matches after this position. A match may begin earlier, in the line that is
    /// incomplete there.
    pub(super) fn after(pattern: Pattern, seen: u64) -> Self {
        Self {
            seen,
            ..Self::new(pattern, seen.saturating_sub(BEGUN_LINE))
        }
    }

    /// Searches the new output, including prompts without an end of line, and returns the match.
    /// Stops at a given time, and skips output that is no longer kept.
    pub(super) fn look(
        &mut self,
        record: &Record,
        hole: Option<(u64, u64)>,
        until: Instant,
    ) -> io::Result<Option<String>> {
        loop {
            let (offset, most) = step_over(hole, self.offset);
            self.offset = offset;
            let new = record.read(offset, CHUNK.min(most))?;
            if new.is_empty() {
                return Ok(None);
            }
            self.offset += new.len() as u64;
            self.rest.extend_from_slice(&new);
            if let Some(found) = self.find() {
                return Ok(Some(found));
            }
            let old = self.rest.len().saturating_sub(LONGEST_MATCH);
            self.rest.drain(..old);
            if Instant::now() > until {
                return Ok(None);
            }
        }
    }
}

impl Watch {
    /// Returns the match in the bytes that were read last, that ends in the new part. Searches the
    /// bytes as they came and as they are shown.
    fn find(&self) -> Option<String> {
        let seen = (self.seen + self.rest.len() as u64).saturating_sub(self.offset);
        let seen = usize::try_from(seen).map_or(self.rest.len(), |at| at.min(self.rest.len()));
        let new = self.rest.get(seen..).unwrap_or_default();
        let old = self.rest.get(..seen).unwrap_or_default();
        let line = old.iter().rposition(|byte| *byte == b'\n');
        let begun = line.map_or(0, |end| end + 1);
        let looked_at = self.rest.get(begun..).unwrap_or_default();
        let mut found = self.pattern.find_iter(looked_at);
        let raw = found.find(|found| begun + found.end() > seen);
        if let Some(found) = raw {
            return Some(show::lossy(found.as_bytes()));
        }
        if plain::is_plain(new) {
            return None;
        }
        let plain = plain::terminal_text(new);
        let found = self.pattern.find(plain.as_bytes())?;
        Some(show::lossy(found.as_bytes()))
    }
}

/// A line that matches.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct MatchingLine {
    /// Where the line begins, in bytes of the whole output.
    offset: u64,
    /// The line, or the beginning of it.
    line: String,
}

/// Returns the lines that match, as many as there is room for, and the position at which to go on.
pub(super) fn lines(
    record: &Record,
    regex: &Regex,
    mut offset: u64,
    hole: Option<(u64, u64)>,
    room: &Room,
    cx: &Cx,
) -> io::Result<(Vec<MatchingLine>, u64)> {
    let (mut found, mut cost) = (Vec::new(), 0);
    let mut rest: Vec<u8> = Vec::new();
    loop {
        // A line ends where the kept part ends; the search goes on behind the hole.
        let most = match hole {
            Some((start, _)) if offset < start => {
                usize::try_from(start - offset).unwrap_or(usize::MAX)
            }
            _ => usize::MAX,
        };
        let new = record.read(offset, CHUNK.min(most))?;
        let mut start = offset - rest.len() as u64;
        offset += new.len() as u64;
        let at_hole = hole.is_some_and(|(hole, _)| hole == offset);
        let over = new.is_empty() || at_hole;
        rest.extend_from_slice(&new);
        let mut used = 0;
        for line in rest.split_inclusive(|byte| *byte == b'\n') {
            let ended = line.ends_with(b"\n") || over || line.len() > LONGEST_LINE;
            if !ended {
                break;
            }
            let text = line.strip_suffix(b"\n").unwrap_or(line);
            let plain = plain::text(text);
            if regex.is_match(text) || regex.is_match(plain.as_bytes()) {
                let shown = plain.get(..plain.floor_char_boundary(SHOWN_LINE));
                let shown = shown.unwrap_or(&plain);
                cost += shown.len() + 32;
                if cost > room.bytes || found.len() >= room.lines {
                    return Ok((found, start));
                }
                found.push(MatchingLine {
                    offset: start,
                    line: shown.trim_end().to_owned(),
                });
            }
            start += line.len() as u64;
            used += line.len();
            if cx.is_cancelled() {
                return Ok((found, start));
            }
        }
        rest.drain(..used);
        match hole {
            Some((_, after)) if at_hole => offset = after,
            _ if over || cx.is_cancelled() => return Ok((found, offset)),
            _ => {}
        }
    }
}

/// Returns the lines as text.
pub(super) fn render(lines: &[MatchingLine]) -> String {
    let lines: Vec<_> = lines
        .iter()
        .map(|found| format!("{}: {}", found.offset, found.line))
        .collect();
    lines.join("\n")
}
