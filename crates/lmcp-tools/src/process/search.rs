//! Looking for patterns in a job's output: in what comes, and in what is there.

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

/// Read at once.
const CHUNK: usize = 256 * 1024;
/// What matches may be spread over so much, however it came.
const LONGEST_MATCH: usize = 64 * 1024;
/// Of a line that was read when it had only begun, so much is looked at again.
const BEGUN_LINE: u64 = 4 * 1024;
/// Of a line that does not end, so much is looked at together.
const LONGEST_LINE: usize = 64 * 1024;
/// Of a matching line, so much is shown.
const SHOWN_LINE: usize = 512;

/// Waits for a pattern, which may span lines, and what came before with what came after.
#[derive(Debug)]
pub(super) struct Watch {
    pattern: Pattern,
    offset: u64,
    /// What matches must not end before this.
    seen: u64,
    /// The end of what was looked at.
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

    /// From where on it looks next.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// For what comes after this, together with the beginning of the line that it goes on.
    pub(super) fn after(pattern: Pattern, seen: u64) -> Self {
        Self {
            seen,
            ..Self::new(pattern, seen.saturating_sub(BEGUN_LINE))
        }
    }

    /// What matches in what is new, prompts without an end of line among it.
    /// Not longer than until a time, and not in what is no longer kept.
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
    /// What matches in what was looked at last and is new, as it came or as it is shown.
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

/// Lines that match, as many as there is room for, and where to go on.
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
        // Where the kept part ends, so does the line; the search goes on behind the hole.
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

/// As text.
pub(super) fn render(lines: &[MatchingLine]) -> String {
    let lines: Vec<_> = lines
        .iter()
        .map(|found| format!("{}: {}", found.offset, found.line))
        .collect();
    lines.join("\n")
}
