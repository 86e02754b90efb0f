//! The part of a file that a caller wants, and how it is found.

use std::{io, ops::Range};

use lmcp_core::{Cx, ToolError, ToolResult};

use crate::{
    files::{
        charset,
        text::{Encoding, Endings, Piece, certain_start},
    },
    room::Room,
};

use super::{
    Args, FileRead, Next,
    bytes::Form,
    page::{Numbers, Page},
    source::Source,
    survey::{self, Survey, WHOLE_BYTES},
};

/// A part of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slice {
    begin: Begin,
    /// The most lines or bytes; bytes if `begin` is in bytes.
    limit: u64,
    line_numbers: bool,
}

#[derive(Clone, Copy, Debug)]
enum Begin {
    /// The number of a line, counted from 1.
    Line(u64),
    LastLines(u64),
    Byte(u64),
    LastBytes(u64),
}

/// The position at which a part begins.
struct Start {
    offset: u64,
    /// The number of the line at the offset.
    line: Option<u64>,
    /// The same number or, if it is unknown, the number counted from the end.
    number: i64,
    /// Whether the caller wants more lines than the search from the end can find.
    is_short: bool,
}

impl Slice {
    pub(super) fn from_args(args: &Args) -> ToolResult<Self> {
        // There is no line 0. Some callers have to send a value for every argument, and so send line 0, or byte 0
        // beside lines.
        let offset = args.offset.filter(|line| *line != 0);
        let by_lines = offset.is_some() || args.limit.is_some() || args.line_numbers;
        let is_said = |byte: &i64| *byte != 0 || !by_lines && args.offset.is_none();
        let byte_offset = args.byte_offset.filter(is_said);
        let by_bytes = byte_offset.is_some() || args.byte_limit.is_some();
        if by_lines && args.form != Form::Text {
            return Err(ToolError::new("bytes have no lines")
                .hint("pass `byte_offset` and `byte_limit` with `form`"));
        }
        if by_lines && by_bytes {
            return Err(
                ToolError::new("a part of a file is given by lines or by bytes, not both")
                    .hint("pass `offset` and `limit`, or `byte_offset` and `byte_limit`"),
            );
        }
        let (from, limit) = if by_bytes {
            (byte_offset.unwrap_or(0), args.byte_limit)
        } else {
            (offset.unwrap_or(1), args.limit)
        };
        let distance = from.unsigned_abs();
        let begin = match (by_bytes, from < 0) {
            (false, false) => Begin::Line(distance.max(1)),
            (false, true) => Begin::LastLines(distance),
            (true, false) => Begin::Byte(distance),
            (true, true) => Begin::LastBytes(distance),
        };
        Ok(Self {
            begin,
            limit: limit.unwrap_or(u64::MAX),
            line_numbers: args.line_numbers,
        })
    }

    /// Returns whether the caller asked for lines.
    pub(super) fn is_by_lines(&self) -> bool {
        matches!(self.begin, Begin::Line(_) | Begin::LastLines(_))
    }

    /// Returns where this part of a file of so many bytes begins, and how many bytes it has at most.
    pub(super) fn by_bytes(&self, size: u64) -> (u64, u64) {
        match self.begin {
            Begin::Byte(offset) => (offset.min(size), self.limit),
            Begin::LastBytes(bytes) => (size.saturating_sub(bytes), self.limit),
            Begin::Line(_) | Begin::LastLines(_) => (0, u64::MAX),
        }
    }

    /// Reads this part, and fills in the facts about it.
    pub(super) fn fill(
        &self,
        read: &mut FileRead,
        source: &mut Source,
        (mark, mark_length): (Encoding, usize),
        room: &Room,
        cx: &Cx,
    ) -> io::Result<()> {
        let survey = match source.size() {
            0..=WHOLE_BYTES => Some(Survey::of(
                source,
                (mark, mark_length),
                self.wanted_line(),
                cx,
            )?),
            _ => None,
        };
        let guess = survey.as_ref().map_or(mark, |survey| survey.encoding);
        let start = self.start(source, guess, survey.as_ref(), cx)?;
        let size = source.size();
        let raw = self.bytes_from(source, start.offset, guess, room)?;
        // A byte order mark is no text.
        let skipped = if start.offset == 0 {
            mark_length.min(raw.len())
        } else {
            0
        };
        let raw = &raw[skipped..];
        let (encoding, endings) = match &survey {
            Some(survey) => (survey.encoding, survey.endings),
            None => look_at(raw, mark),
        };
        let page = Page::of(raw, encoding, &self.room(room), self.numbers(&start));

        let shown = &raw[..page.bytes];
        let ends_line = encoding.line_ends(shown).next_back() == Some(page.bytes);
        let end = start.offset + (skipped + page.bytes) as u64;
        read.encoding = Some(encoding);
        read.bom = Some(mark_length > 0);
        read.line_endings = Some(endings.kind());
        read.total_lines = survey.as_ref().map(|survey| survey.lines);
        read.hash = survey.map(|survey| survey.hash);
        say_where(read, &start, &page, end..size, ends_line);
        say_what_is_odd(read, &start, &page, end..size);
        read.content = Some(page.text);
        Ok(())
    }

    /// Returns the line whose beginning is searched for while lines are counted.
    fn wanted_line(&self) -> u64 {
        match self.begin {
            Begin::Line(line) => line,
            Begin::LastLines(_) | Begin::Byte(_) | Begin::LastBytes(_) => 1,
        }
    }

    fn start(
        &self,
        source: &mut Source,
        encoding: Encoding,
        survey: Option<&Survey>,
        cx: &Cx,
    ) -> io::Result<Start> {
        let start = match self.begin {
            Begin::Line(line) => Start {
                offset: match survey {
                    Some(survey) => survey.line_start,
                    None => survey::find_line(source, encoding, line, cx)?,
                },
                line: Some(line),
                number: i64::try_from(line).unwrap_or(i64::MAX),
                is_short: false,
            },
            Begin::LastLines(lines) => {
                let (offset, found) = survey::find_last_lines(source, encoding, lines, cx)?;
                if found == 0 && source.size() > 0 {
                    // No line begins near the end: the last bytes are of more use than nothing.
                    let back = source.size().saturating_sub(ONE_LINE_BYTES);
                    let offset = align(source, back, encoding)?;
                    return Ok(Start {
                        is_short: true,
                        ..Start::at(offset)
                    });
                }
                let line = survey.map(|survey| survey.lines + 1 - found.min(survey.lines));
                let from_end = i64::try_from(found).map_or(i64::MIN, |found| -found);
                Start {
                    offset,
                    line,
                    number: line
                        .and_then(|line| i64::try_from(line).ok())
                        .unwrap_or(from_end),
                    is_short: found < lines && offset > 0,
                }
            }
            Begin::Byte(offset) => Start::at(align(source, offset.min(source.size()), encoding)?),
            Begin::LastBytes(bytes) => {
                let offset = source.size().saturating_sub(bytes);
                Start::at(align(source, offset, encoding)?)
            }
        };
        Ok(start)
    }

    /// Returns the bytes from which the page is made: a little more than fit, and whole characters.
    fn bytes_from<'a>(
        &self,
        source: &'a mut Source,
        start: u64,
        encoding: Encoding,
        room: &Room,
    ) -> io::Result<&'a [u8]> {
        // In JSON a character takes at least half the bytes that it has in UTF-16, and never less than in the other
        // encodings. Eight bytes more are read to see that something does not fit: else a line would seem to end
        // where these bytes do.
        let most = (room.bytes * encoding.unit() + 8) as u64;
        let wanted = match self.begin {
            Begin::Byte(_) | Begin::LastBytes(_) => self.limit.min(most),
            Begin::Line(_) | Begin::LastLines(_) => most,
        };
        let size = source.size();
        let end = start.saturating_add(wanted).min(size);
        let raw = source.between(start, end)?;
        let whole = if end < size {
            encoding.whole(raw)
        } else {
            raw.len()
        };
        if whole > 0 || raw.is_empty() {
            return Ok(&source.between(start, end)?[..whole]);
        }
        // The caller asked for less than a character, which is not split.
        let raw = source.between(start, start + 4)?;
        let first = encoding
            .pieces(raw)
            .next()
            .map_or(raw.len(), |(_, length)| length);
        Ok(&source.between(start, start + 4)?[..first])
    }

    fn room(&self, room: &Room) -> Room {
        match self.begin {
            Begin::Byte(_) | Begin::LastBytes(_) => *room,
            Begin::Line(_) | Begin::LastLines(_) => Room {
                lines: usize::try_from(self.limit)
                    .unwrap_or(usize::MAX)
                    .min(room.lines),
                ..*room
            },
        }
    }

    fn numbers(&self, start: &Start) -> Numbers {
        if self.line_numbers {
            Numbers::From(start.number)
        } else {
            Numbers::No
        }
    }
}

/// Fills in the position of a page in the file, and where to go on. `rest` is the range after the page.
fn say_where(read: &mut FileRead, start: &Start, page: &Page, rest: Range<u64>, ends_line: bool) {
    read.byte_start = Some(start.offset);
    read.byte_end = Some(rest.start);
    read.remaining_bytes = Some(rest.end.saturating_sub(rest.start));
    if let Some(first) = start.line.filter(|_| page.bytes > 0) {
        let last = first + page.line_ends - u64::from(ends_line);
        read.first_line = Some(first);
        read.last_line = Some(last);
        read.remaining_lines = read.total_lines.map(|total| total.saturating_sub(last));
    }
    if !rest.is_empty() {
        read.next = Some(match read.last_line {
            Some(last) if ends_line => Next::Offset(last + 1),
            _ => Next::ByteOffset(rest.start),
        });
    }
}

fn say_what_is_odd(read: &mut FileRead, start: &Start, page: &Page, rest: Range<u64>) {
    if page.odd_bytes > 0 {
        let name = read.encoding.map_or("text", Encoding::name);
        let count = page.odd_bytes;
        read.add_note(&format!(
            "{count} bytes that are not {name} are shown as \\xNN or \\uNNNN"
        ));
    }
    if start.is_short {
        read.add_note("the lines before begin more than 64 MiB from the end, read them by bytes");
    }
    if rest.start == start.offset && rest.end > 0 {
        read.add_note("the file ends before the part that was asked for");
    }
}

impl Start {
    /// Returns a start at a byte whose line is not known.
    fn at(offset: u64) -> Self {
        Self {
            offset,
            line: None,
            number: 1,
            is_short: false,
        }
    }
}

/// Returns the encoding and line endings that a part suggests, for a file too large to read as a whole.
fn look_at(raw: &[u8], mark: Encoding) -> (Encoding, Endings) {
    let encoding = match mark {
        Encoding::Utf8 => charset::of(raw).0,
        mark => mark,
    };
    let mut endings = Endings::default();
    endings.add(encoding, raw);
    (encoding, endings)
}

/// Returns the beginning of the character that a byte belongs to.
fn align(source: &mut Source, offset: u64, encoding: Encoding) -> io::Result<u64> {
    let back = match encoding {
        Encoding::Windows1252 => 0,
        Encoding::Utf8 => 3,
        Encoding::Utf16Le | Encoding::Utf16Be => 2,
        Encoding::Other(_) => UNBROKEN_BYTES,
    };
    // Characters of UTF-16 are counted from the beginning of the file.
    let offset = offset - offset % encoding.unit() as u64;
    let from = offset.saturating_sub(back);
    let around = source.between(from, offset + 4)?;
    let inside = usize::try_from(offset - from)
        .unwrap_or_default()
        .min(around.len());
    if let Encoding::Other(_) = encoding {
        let mut at = certain_start(&around[..inside]);
        for (_, length) in encoding.pieces(&around[at..]) {
            if at + length > inside {
                break;
            }
            at += length;
        }
        return Ok(from + at as u64);
    }
    for before in (1..=inside).rev().filter(|it| it % encoding.unit() == 0) {
        let character = &around[inside - before..];
        let first = encoding.pieces(character).next();
        // The character begins before the byte and ends after it.
        if let Some((Piece::Character(_), length)) = first
            && length > before
        {
            return Ok(offset - before as u64);
        }
    }
    Ok(offset)
}

/// How far back to search for a byte that is no part of a longer character: a blank, say.
const UNBROKEN_BYTES: u64 = 1024;

/// How many bytes are shown of a file whose last line begins far from its end.
const ONE_LINE_BYTES: u64 = 4096;
