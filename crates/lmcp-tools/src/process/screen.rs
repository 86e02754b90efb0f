//! What a job's terminal shows: its recorded output, played to a terminal that nobody looks at. Nothing of it is kept.

use std::io;

use avt::Terminal;

use super::{spool::Record, words::Size};

/// So much of the end of the output is played; programs that draw draw all of it again now and then.
const MOST_PLAYED: u64 = 1024 * 1024;
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

/// The screen as it is after all output so far.
pub(super) fn render(record: &Record, hole: Option<(u64, u64)>, size: Size) -> io::Result<Screen> {
    let bytes = record.len()?;
    let kept = hole.map_or(0, |(_, end)| end);
    let from = bytes.saturating_sub(MOST_PLAYED).max(kept);
    let played = record.read(from, usize::try_from(bytes - from).unwrap_or(usize::MAX))?;
    let cols = usize::from(size.cols.clamp(1, MOST.cols));
    let rows = usize::from(size.rows.clamp(1, MOST.rows));
    let mut terminal = Terminal::new(cols, rows).map_err(io::Error::other)?;
    terminal.feed(&*String::from_utf8_lossy(&played));
    let lines = terminal.screen().visible_lines().map(|line| line.text());
    let mut text = lines.fold(String::new(), |mut text, line| {
        text.push_str(line.trim_end());
        text.push('\n');
        text
    });
    text.truncate(text.trim_end().len());
    let cursor = terminal.cursor();
    Ok(Screen {
        text,
        row: cursor.row + 1,
        col: cursor.col + 1,
        bytes,
    })
}
