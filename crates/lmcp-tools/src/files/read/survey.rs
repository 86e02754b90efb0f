//! The facts about a file that take a look at all of it, for files that are small enough to read whole for every
//! answer.

use std::io;

use lmcp_core::Cx;

use crate::files::{
    charset::Guess,
    hash,
    text::{Encoding, Endings, Evidence},
};

use super::source::{At, Source};

/// The largest file that is read as a whole: its lines are counted, its content is hashed.
pub(super) const WHOLE_BYTES: u64 = 16 * 1024 * 1024;

/// The facts about a file.
#[derive(Debug)]
pub(super) struct Survey {
    pub(super) encoding: Encoding,
    pub(super) endings: Endings,
    /// The number of lines. The last line counts even if nothing ends it.
    pub(super) lines: u64,
    pub(super) hash: String,
    /// The offset at which the requested line begins; the end of the file if it has fewer lines.
    pub(super) line_start: u64,
}

impl Survey {
    /// Reads the whole file, and finds where a line begins, counted from 1.
    pub(super) fn of(
        source: &mut Source,
        (mark, mark_length): (Encoding, usize),
        line: u64,
        cx: &Cx,
    ) -> io::Result<Self> {
        let mut endings = Endings::default();
        let mut evidence = Evidence::default();
        let mut hash = hash::Hasher::new();
        let (mut line_start, mut ends_open) = ((line <= 1).then_some(0), false);
        source.walk(0, cx, |offset, chunk, at| {
            let taken = match at {
                At::End => chunk.len(),
                At::Middle => mark.whole(chunk),
            };
            let chunk = &chunk[..taken];
            hash.add(chunk);
            if mark_length == 0 {
                evidence.add(chunk);
            }
            let before = endings.lines_ended() as u64;
            endings.add(mark, chunk);
            let after = endings.lines_ended() as u64;
            if line_start.is_none() && after + 1 >= line {
                let nth = usize::try_from(line - before - 2).unwrap_or(usize::MAX);
                line_start = mark
                    .line_ends(chunk)
                    .nth(nth)
                    .map(|end| offset + end as u64);
            }
            let is_text = offset + taken as u64 > mark_length as u64;
            ends_open = is_text && mark.line_ends(chunk).next_back() != Some(taken);
            Some(taken)
        })?;
        Ok(Self {
            encoding: if mark_length > 0 || evidence.is_utf8() {
                mark
            } else {
                guess(source, cx)?
            },
            endings,
            lines: endings.lines_ended() as u64 + u64::from(ends_open),
            hash: hash.finish(),
            line_start: line_start.unwrap_or(source.size()),
        })
    }
}

/// Guesses the encoding of a file that has no mark and is not UTF-8.
fn guess(source: &mut Source, cx: &Cx) -> io::Result<Encoding> {
    let mut guess = Guess::new();
    source.walk(0, cx, |_, chunk, _| guess.add(chunk).then_some(chunk.len()))?;
    Ok(guess.encoding())
}

/// Finds where a line begins, counted from 1, in a file too large to read as a whole.
pub(super) fn find_line(
    source: &mut Source,
    encoding: Encoding,
    line: u64,
    cx: &Cx,
) -> io::Result<u64> {
    let mut before = 1;
    let mut found = (line <= 1).then_some(0);
    source.walk(0, cx, |offset, chunk, _| {
        if found.is_some() {
            return None;
        }
        for end in encoding.line_ends(chunk) {
            before += 1;
            if before == line {
                found = Some(offset + end as u64);
                return None;
            }
        }
        Some(chunk.len())
    })?;
    Ok(found.unwrap_or(source.size()))
}

/// Finds where the last lines begin, and how many they are: fewer than asked for if the file has fewer, or if the
/// next one begins too far away.
pub(super) fn find_last_lines(
    source: &mut Source,
    encoding: Encoding,
    lines: u64,
    cx: &Cx,
) -> io::Result<(u64, u64)> {
    let size = source.size();
    let (mut start, mut found, mut end) = (size, 0, size);
    while end > 0 && found < lines {
        super::source::stop_if_cancelled(cx)?;
        if size - end > LOOK_BACK_BYTES {
            return Ok((start, found));
        }
        // An odd byte at the very end would split the units of UTF-16.
        end -= end % encoding.unit() as u64;
        let chunk = source.until(end)?;
        let begin = end - chunk.len() as u64;
        for line_end in encoding.line_ends(chunk).rev() {
            let at = begin + line_end as u64;
            // The newline at the end of the file ends the last line, and begins none.
            if at < size && found < lines {
                start = at;
                found += 1;
            }
        }
        end = begin;
    }
    // The first line has no newline before it.
    if found < lines && size > 0 {
        return Ok((0, found + 1));
    }
    Ok((start, found))
}

/// How far from the end the beginning of a line is searched for: a file may be one line of many gigabytes.
const LOOK_BACK_BYTES: u64 = 64 * 1024 * 1024;
