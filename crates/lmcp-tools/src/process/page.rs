//! A part of a job's output: from an offset, from the end, the new part, or the lines that match.

use std::{io, path::Path};

use lmcp_core::{Cx, ToolError, ToolResult};
use regex::bytes::Regex;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    protocol::{Extent, Size},
    screen,
    search::{self, MatchingLine},
    show::{self, Clean},
    spool::{Record, Stream, step_over},
    store::Job,
};
use crate::{giving_way::giving_way, memory::Memory, room::Room};

/// Of which stream.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Which {
    #[default]
    Both,
    Stdout,
    Stderr,
}

/// The part of an output that a caller wants.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) from: From,
    pub(super) limit: usize,
    pub(super) stream: Which,
    pub(super) clean: Clean,
    pub(super) room: Room,
}

/// Where the page begins.
#[derive(Debug)]
pub(super) enum From {
    Offset(u64),
    /// At so many bytes before the end.
    Tail(u64),
    /// At the beginning; or a little before the end, if there is no room for the whole output.
    End,
    /// After this offset; or later, if there is room only for the end of that part.
    New(u64),
}

/// A page that was read.
pub(super) struct Read {
    pub(super) text: String,
    pub(super) lines: Option<Vec<MatchingLine>>,
    pub(super) offset: u64,
    pub(super) next: u64,
    pub(super) total: u64,
    pub(super) dropped: u64,
    /// The size and the cursor, if the text is a terminal's screen.
    pub(super) screen: Option<String>,
}

impl Page {
    /// Returns the page with all that a job without a terminal wrote after an offset, or with the
    /// end of that.
    pub(super) fn since(offset: u64, room: Room) -> Self {
        Self {
            from: From::New(offset),
            limit: usize::MAX,
            stream: Which::Both,
            clean: show::way(false),
            room,
        }
    }

    /// Returns whether the page holds one stream alone.
    pub(super) fn is_of_one_stream(&self) -> bool {
        !matches!(self.stream, Which::Both)
    }

    pub(super) fn read(
        &self,
        dir: &Path,
        search: Option<&Regex>,
        extent: Extent,
        cx: &Cx,
    ) -> ToolResult<Read> {
        let hole = extent.dropped;
        let failed = |err: io::Error| ToolError::new("the output cannot be read").source(err);
        let record = Record::open(dir, extent).map_err(failed)?;
        let total = record.len().map_err(failed)?;
        let most = self.limit.min(self.room.bytes) as u64;
        let wanted = match self.from {
            From::Offset(offset) => offset.min(total),
            // Reads no more than there is room for, and of that the end.
            From::Tail(bytes) => total.saturating_sub(bytes.min(most)),
            From::End if total <= most => 0,
            From::End => total - most.min(show::EXCERPT_BYTES as u64),
            From::New(offset) => offset.max(total.saturating_sub(most)).min(total),
        };
        // Bytes that are no longer kept are skipped and counted.
        let (offset, most) = step_over(hole, wanted);
        let dropped = offset - wanted;
        if let Some(regex) = search {
            let hole = hole.filter(|(start, _)| *start >= offset);
            let (lines, next) =
                search::lines(&record, regex, offset, hole, &self.room, cx).map_err(failed)?;
            let stepped = hole.filter(|(_, end)| *end <= next);
            let dropped = dropped + stepped.map_or(0, |(start, end)| end - start);
            return Ok(Read {
                text: search::render(&lines),
                lines: Some(lines),
                offset: wanted,
                next,
                total,
                dropped,
                screen: None,
            });
        }
        let mut bytes = record
            .read(offset, self.limit.min(self.room.bytes).min(most))
            .map_err(failed)?;
        let at_start = match self.from {
            From::Offset(_) => 0,
            From::Tail(_) | From::End | From::New(_) => show::fit_tail(&self.room, &bytes),
        };
        let kept = bytes.split_off(at_start);
        let offset = offset + at_start as u64;
        let end = show::fit_head(&self.room, &kept);
        let end = if end == kept.len() && offset + (end as u64) < total {
            show::whole_characters(&kept)
        } else {
            end
        };
        let kept = kept.get(..end).unwrap_or_default();
        let mut next = offset + end as u64;
        if let Some((start, after)) = hole
            && next == start
        {
            next = after;
        }
        let text = match self.stream {
            Which::Both => (self.clean)(kept),
            Which::Stdout => (self.clean)(&record.only(Stream::Stdout, offset, kept)),
            Which::Stderr => (self.clean)(&record.only(Stream::Stderr, offset, kept)),
        };
        Ok(Read {
            text,
            lines: None,
            offset,
            next,
            total,
            dropped: dropped + (next - offset - end as u64),
            screen: None,
        })
    }

    /// Reads the screen of the job's terminal instead.
    pub(super) fn screen(
        &self,
        job: &Job,
        extent: Extent,
        cx: &Cx,
        memory: &mut Memory,
    ) -> ToolResult<Read> {
        let failed = |err: io::Error| ToolError::new("the output cannot be read").source(err);
        let record = Record::open(&job.dir, extent).map_err(failed)?;
        let size = job.size();
        memory.need(screen::bytes_needed(size))?;
        let draw = || screen::render(&record, extent.dropped, size, cx);
        let screen = giving_way(draw).flatten().map_err(failed)?;
        let Some(mut screen) = screen else {
            return Err(
                ToolError::new("the screen of this job takes too long to draw")
                    .hint("`view: text` shows what was written instead"),
            );
        };
        let fits = show::fit_head(&self.room, screen.text.as_bytes());
        screen.text.truncate(fits);
        let Size { rows, cols } = size;
        let (row, col) = (screen.row, screen.col);
        let words =
            format!("screen of {rows} rows and {cols} columns, cursor in row {row}, column {col}");
        Ok(Read {
            text: screen.text,
            lines: None,
            offset: screen.bytes,
            next: screen.bytes,
            total: screen.bytes,
            dropped: 0,
            screen: Some(words),
        })
    }
}
