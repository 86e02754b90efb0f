//! What a job's terminal shows: its recorded output, played to a terminal that nobody looks at. Nothing of it is kept.

use std::{
    io,
    time::{Duration, Instant},
};

use avt::Terminal;
use lmcp_core::Cx;

use super::{protocol::Size, spool::Record};

/// So much of the end of the output is played; programs that draw draw all of it again now and then.
const MOST_PLAYED: u64 = 512 * 1024;
/// So many bytes are played between two looks at the time: the worst of them take some milliseconds.
const PIECE: usize = 64;
/// Drawing takes no longer. An ordinary screen takes a few milliseconds.
const MOST_TIME: Duration = Duration::from_secs(1);
/// A larger terminal is shown as one of this size.
const MOST: Size = Size {
    rows: 300,
    cols: 500,
};

/// A terminal at one time.
pub(super) struct Screen {
    /// Its rows without the blanks at their ends, and without empty rows at its end.
    pub(super) text: String,
    /// Where the next letter goes, counted from 1.
    pub(super) row: usize,
    pub(super) col: usize,
    /// How much output was written when it looked like this.
    pub(super) bytes: u64,
}

/// The memory that drawing a screen takes at most: the terminal has two, and the output is held twice.
pub(super) fn bytes_needed(size: Size) -> usize {
    let (cols, rows) = clamped(size);
    2 * cols * rows * size_of::<avt::Cell>() + 3 * MOST_PLAYED as usize
}

fn clamped(size: Size) -> (usize, usize) {
    let cols = usize::from(size.cols.clamp(1, MOST.cols));
    let rows = usize::from(size.rows.clamp(1, MOST.rows));
    (cols, rows)
}

/// The screen as it is after all output so far. `None`: nobody waits for it any more, or a few bytes of it ask for so
/// much that it takes too long.
pub(super) fn render(
    record: &Record,
    hole: Option<(u64, u64)>,
    size: Size,
    cx: &Cx,
) -> io::Result<Option<Screen>> {
    let bytes = record.len()?;
    let kept = hole.map_or(0, |(_, end)| end);
    let from = bytes.saturating_sub(MOST_PLAYED).max(kept);
    let played = record.read(from, usize::try_from(bytes - from).unwrap_or(usize::MAX))?;
    let (cols, rows) = clamped(size);
    let mut terminal = Terminal::new(cols, rows).map_err(io::Error::other)?;
    let text = String::from_utf8_lossy(&played);
    let (mut rest, until) = (&*text, Instant::now() + MOST_TIME);
    while !rest.is_empty() {
        let (piece, left) = rest.split_at(rest.ceil_char_boundary(PIECE.min(rest.len())));
        terminal.feed(piece);
        rest = left;
        if cx.is_cancelled() || Instant::now() > until {
            return Ok(None);
        }
    }
    let lines = terminal.screen().visible_lines().map(|line| line.text());
    let mut text = lines.fold(String::new(), |mut text, line| {
        text.push_str(line.trim_end());
        text.push('\n');
        text
    });
    text.truncate(text.trim_end().len());
    let cursor = terminal.cursor();
    Ok(Some(Screen {
        text,
        row: cursor.row + 1,
        col: cursor.col + 1,
        bytes,
    }))
}
