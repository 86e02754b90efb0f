//! The screen of a job's terminal: the recorded output is played to a terminal in memory, of which nothing is kept.

use std::{
    io,
    time::{Duration, Instant},
};

use avt::Terminal;
use lmcp_core::Cx;
use rustix::time::{ClockId, clock_gettime};

use super::{protocol::Size, spool::Record};

/// The most bytes at the end of the output that are played. Programs that draw a screen draw all of it again now and
/// then.
const MOST_PLAYED: u64 = 512 * 1024;
/// The bytes that are played between two looks at the time. The worst such piece takes some milliseconds.
const PIECE: usize = 64;
/// The longest time that drawing may take a processor. An ordinary screen takes a few milliseconds.
const MOST_TIME: Duration = Duration::from_secs(1);
/// A larger terminal is shown as one of this size.
const MOST: Size = Size {
    rows: 300,
    cols: 500,
};

/// The screen of a terminal at one time.
pub(super) struct Screen {
    /// The rows without the blanks at their ends, and without the empty rows at the end.
    pub(super) text: String,
    /// The position of the next letter, counted from 1.
    pub(super) row: usize,
    pub(super) col: usize,
    /// The length of the output when the screen looked like this.
    pub(super) bytes: u64,
}

/// Returns the memory that drawing a screen takes at most: the terminal has two screens, and the output is held twice.
pub(super) fn bytes_needed(size: Size) -> usize {
    let (cols, rows) = clamped(size);
    2 * cols * rows * size_of::<avt::Cell>() + 3 * MOST_PLAYED as usize
}

fn clamped(size: Size) -> (usize, usize) {
    let cols = usize::from(size.cols.clamp(1, MOST.cols));
    let rows = usize::from(size.rows.clamp(1, MOST.rows));
    (cols, rows)
}

/// Returns how long this thread had a processor.
fn worked() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or(MOST_TIME)
}

/// Returns the screen after all output so far. It is drawn on a thread that does nothing else. `None`: the call was cancelled, or a few bytes of output ask for so
/// much drawing that it takes too long.
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
        // A thread that gives way to others may have waited for most of the time.
        if cx.is_cancelled() || Instant::now() > until && worked() > MOST_TIME {
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
