//! The part of a command's output that a client can take, as a person would see it: all of it, or its beginning and its
//! end.

use std::{io, path::Path};

use super::{
    plain,
    protocol::Extent,
    spool::{Record, Stream},
};
use crate::room::Room;

/// Output, ready to be shown.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    /// Both streams: as they came if the output is whole, else one after the other.
    pub(crate) both: String,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// How many bytes are left out.
    pub(crate) omitted: u64,
}

/// The longest output that is cleaned to find out whether it fits: with overwritten lines it may take much less room.
pub(super) const MOST_CLEANED: usize = 4 * 1024 * 1024;

/// Bytes shown of output that is too long for one answer: a third of them from its beginning, the others from its end.
pub(super) const EXCERPT_BYTES: usize = 12 * 1024;

/// Turns the bytes that were written into the text that is shown.
pub(crate) type Clean = fn(&[u8]) -> String;

/// Returns the way to clean the output of a command with a terminal, or without.
pub(crate) fn way(has_terminal: bool) -> Clean {
    if has_terminal {
        plain::terminal_text
    } else {
        plain::text
    }
}

/// Returns a command's output: all of it if there is room, else a little of the beginning and the end of each stream. No
/// model reads on in output that is too long for one answer; the end tells how the command went, and the rest can be
/// searched.
pub(crate) fn output(
    (dir, extent): (&Path, Extent),
    clean: Clean,
    room: &Room,
    note: impl Fn(u64) -> String,
) -> io::Result<Shown> {
    let record = Record::open(dir, extent)?;
    if let Some(shown) = whole(&record, clean, room)? {
        return Ok(shown);
    }
    let room = &Room {
        bytes: room.bytes.min(EXCERPT_BYTES),
        ..*room
    };
    let stdout_bytes = record.stream_len(Stream::Stdout)?;
    let stderr_bytes = record.stream_len(Stream::Stderr)?;
    let (stdout, stdout_omitted) = excerpt(
        &record,
        Stream::Stdout,
        clean,
        &beside(room, stderr_bytes),
        &note,
    )?;
    let (stderr, stderr_omitted) = excerpt(
        &record,
        Stream::Stderr,
        clean,
        &beside(room, stdout_bytes),
        &note,
    )?;
    let both = if stderr.is_empty() {
        stdout.clone()
    } else if stdout.is_empty() {
        stderr.clone()
    } else {
        let gap = if stdout.ends_with('\n') { "" } else { "\n" };
        format!("[stdout]\n{stdout}{gap}[stderr]\n{stderr}")
    };
    Ok(Shown {
        both,
        stdout,
        stderr,
        omitted: stdout_omitted + stderr_omitted,
    })
}

/// Returns the whole output, if it fits.
fn whole(record: &Record, clean: Clean, room: &Room) -> io::Result<Option<Shown>> {
    let total = record.len()?;
    if !record.is_whole() || total > MOST_CLEANED as u64 {
        return Ok(None);
    }
    let bytes = record.read(0, room.bytes.saturating_add(1))?;
    let bytes = if bytes.len() as u64 == total {
        bytes
    } else if plain::is_plain(&bytes) {
        return Ok(None);
    } else {
        record.read(0, MOST_CLEANED)?
    };
    let both = clean(&bytes);
    let fits = fit_head(room, both.as_bytes()) == both.len();
    Ok(fits.then(|| Shown {
        both,
        stdout: clean(&record.only(Stream::Stdout, 0, &bytes)),
        stderr: clean(&record.only(Stream::Stderr, 0, &bytes)),
        omitted: 0,
    }))
}

/// Returns the room of one stream: half, or what the other stream does not need.
fn beside(room: &Room, other_bytes: u64) -> Room {
    let other = usize::try_from(other_bytes).unwrap_or(usize::MAX);
    let half = room.share(2);
    Room {
        // In JSON the other stream takes at most twice its length, if it is ordinary text.
        bytes: room
            .bytes
            .saturating_sub(other.saturating_mul(2))
            .max(half.bytes),
        lines: if other == 0 { room.lines } else { half.lines },
        ..*room
    }
}

/// Returns the beginning and the end of one stream, and how many bytes lie between them.
fn excerpt(
    record: &Record,
    stream: Stream,
    clean: Clean,
    room: &Room,
    note: &impl Fn(u64) -> String,
) -> io::Result<(String, u64)> {
    let total = record.stream_len(stream)?;
    let whole = record.stream_head(stream, room.bytes.saturating_add(1))?;
    if whole.len() as u64 == total && fit_head(room, &whole) == whole.len() {
        return Ok((clean(&whole), 0));
    }
    let third = room.share(3);
    let two_thirds = Room {
        bytes: room.bytes - third.bytes,
        lines: (room.lines - third.lines).max(1),
        ..*room
    };
    let head = whole.get(..fit_head(&third, &whole)).unwrap_or_default();
    let rest = usize::try_from(total - head.len() as u64).unwrap_or(usize::MAX);
    let tail = record.stream_tail(stream, two_thirds.bytes.min(rest))?;
    let tail = tail.get(fit_tail(&two_thirds, &tail)..).unwrap_or_default();
    let omitted = total - head.len() as u64 - tail.len() as u64;
    if omitted == 0 {
        return Ok((clean(&[head, tail].concat()), 0));
    }
    let mut text = clean(head);
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(&note(omitted));
    text.push('\n');
    text.push_str(&clean(tail));
    Ok((text, omitted))
}

/// Returns the bytes as text. Bytes that are no text are shown as U+FFFD.
pub(crate) fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns how many bytes at the beginning fit: whole lines if there is one, else whole characters.
pub(crate) fn fit_head(room: &Room, bytes: &[u8]) -> usize {
    let costs = Costs::of(bytes);
    let (mut cost, mut lines, mut line_end) = (0, 0, 0);
    for (at, byte) in bytes.iter().enumerate() {
        cost += costs.of_byte(*byte);
        if cost > room.bytes || lines >= room.lines {
            return if line_end > 0 {
                line_end
            } else {
                boundary_before(bytes, at)
            };
        }
        if *byte == b'\n' {
            lines += 1;
            line_end = at + 1;
        }
    }
    bytes.len()
}

/// Returns the position from which on the rest of the bytes fits.
pub(crate) fn fit_tail(room: &Room, bytes: &[u8]) -> usize {
    let costs = Costs::of(bytes);
    let (mut cost, mut lines, mut line_start) = (0, 0, bytes.len());
    for (at, byte) in bytes.iter().enumerate().rev() {
        if *byte == b'\n' && at + 1 < bytes.len() {
            lines += 1;
            line_start = at + 1;
        }
        cost += costs.of_byte(*byte);
        if cost > room.bytes || lines >= room.lines {
            return if line_start < bytes.len() {
                line_start
            } else {
                boundary_after(bytes, at + 1)
            };
        }
    }
    boundary_after(bytes, 0)
}

/// How many bytes of a JSON string a byte takes.
struct Costs {
    /// The cost of a byte above 0x7f: if the bytes are no text, each may become a character of three bytes.
    high: usize,
}

impl Costs {
    fn of(bytes: &[u8]) -> Self {
        // The bytes may begin or end inside a character, which alone does not make them something else than text.
        let valid = match std::str::from_utf8(bytes) {
            Ok(_) => true,
            Err(err) => err.error_len().is_none(),
        };
        Self {
            high: if valid { 1 } else { 3 },
        }
    }

    fn of_byte(&self, byte: u8) -> usize {
        match byte {
            b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 2,
            0..=0x1f => 6,
            0x80.. => self.high,
            _ => 1,
        }
    }
}

/// Returns the number of bytes without an incomplete character at the end.
pub(crate) fn whole_characters(bytes: &[u8]) -> usize {
    let start = boundary_before(bytes, bytes.len().saturating_sub(1));
    let begun = bytes.get(start..).unwrap_or_default();
    match std::str::from_utf8(begun) {
        Err(err) if err.error_len().is_none() && start > 0 => start,
        _ => bytes.len(),
    }
}

fn is_continuation(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

/// Returns the nearest position before `at` that is not inside a character: at most three bytes back.
fn boundary_before(bytes: &[u8], at: usize) -> usize {
    let inside = |at: usize| bytes.get(at).is_some_and(|byte| is_continuation(*byte));
    let back = (0..=at.min(3)).find(|back| !inside(at - back));
    at - back.unwrap_or(0)
}

fn boundary_after(bytes: &[u8], at: usize) -> usize {
    let inside = |at: usize| bytes.get(at).is_some_and(|byte| is_continuation(*byte));
    let ahead = (0..=3).find(|ahead| !inside(at + ahead));
    (at + ahead.unwrap_or(0)).min(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(bytes: usize, lines: usize) -> Room {
        Room {
            bytes,
            lines,
            ..Room::UNKNOWN
        }
    }

    #[test]
    fn the_beginning_fits_in_whole_lines_or_characters() {
        assert_eq!(fit_head(&room(10, 9), b"abc\ndefghijkl"), 4);
        assert_eq!(fit_head(&room(10, 9), "aaaaaaaaa\u{e9}".as_bytes()), 9);
        assert_eq!(fit_head(&room(100, 2), b"a\nb\nc\n"), 4);
        assert_eq!(fit_head(&room(6, 9), b"\xff\xff\xff"), 2);
    }

    #[test]
    fn the_end_fits_likewise() {
        assert_eq!(fit_tail(&room(6, 9), b"abcdefgh\nxyz"), 9);
        assert_eq!(fit_tail(&room(1, 9), "a\u{e9}".as_bytes()), 3);
        assert_eq!(fit_tail(&room(100, 2), b"a\nb\nc\n"), 2);
    }
}
