//! A command's output on disk: the bytes of both streams in one file as they came, and beside it a list of where the
//! stream changes.
//!
//! Offsets are those of the whole output for ever: when there is too much, the middle is given back to the file system as
//! a hole. A reader needs nothing but the two files.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{FileExt as _, OpenOptionsExt as _},
    path::Path,
};

use rustix::fs::{FallocateFlags, fallocate};

use super::dir;

/// The bytes.
pub(crate) const OUTPUT: &str = "output";
/// Where the stream changes.
const MARKS: &str = "marks";
/// More changes than this are not told apart any more: a megabyte of them.
const MOST_MARKS: usize = 128 * 1024;
/// Holes are made in steps, so that not every write makes one.
const STEP: u64 = 1024 * 1024;

/// Which of a command's outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

/// The writing end; one per command, in its guard.
#[derive(Debug)]
pub(crate) struct Spool {
    output: File,
    marks: File,
    mark_count: usize,
    last: Option<Stream>,
    bytes: u64,
    limit: u64,
    hole: Hole,
}

/// What was not kept, from the first offset to before the second.
type Hole = Option<(u64, u64)>;

impl Spool {
    /// Begins a record in this folder.
    pub(crate) fn create(dir: &Path, limit: u64) -> io::Result<Self> {
        let open = |name: &str| {
            let mut options = OpenOptions::new();
            options.write(true).create_new(true).mode(0o600);
            options.open(dir.join(name))
        };
        Ok(Self {
            output: open(OUTPUT)?,
            marks: open(MARKS)?,
            mark_count: 0,
            last: None,
            bytes: 0,
            limit: limit.max(4 * STEP),
            hole: None,
        })
    }

    /// The file of bytes. Its lock says that the record still grows.
    pub(crate) fn output(&self) -> &File {
        &self.output
    }

    /// All output so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What of it is no longer there.
    pub(crate) fn dropped(&self) -> Hole {
        self.hole
    }

    /// Records some more.
    pub(crate) fn write(&mut self, stream: Stream, bytes: &[u8]) -> io::Result<()> {
        if self.last != Some(stream) && self.mark_count < MOST_MARKS {
            let mark = self.bytes << 1 | u64::from(stream == Stream::Stderr);
            self.marks.write_all(&mark.to_le_bytes())?;
            self.mark_count += 1;
            self.last = Some(stream);
        }
        self.output.write_all_at(bytes, self.bytes)?;
        self.bytes += bytes.len() as u64;
        self.make_hole()
    }

    /// Keeps a quarter of the limit from the beginning, and the rest of it from the end.
    fn make_hole(&mut self) -> io::Result<()> {
        let start = self.limit / 4;
        let end = self.bytes.saturating_sub(self.limit - start) / STEP * STEP;
        let done = self.hole.map_or(start, |(_, end)| end);
        if end <= done {
            return Ok(());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&self.output, flags, done, end - done)?;
        self.hole = Some((start, end));
        Ok(())
    }
}

/// The reading end, while the record grows or long after.
#[derive(Debug)]
pub(crate) struct Record {
    output: File,
    /// Offsets at which a stream begins, in order.
    marks: Vec<(u64, Stream)>,
}

impl Record {
    pub(crate) fn open(dir: &Path) -> io::Result<Self> {
        let path = dir.join(OUTPUT);
        let output = dir::insist(&path, || File::open(&path))?;
        let mut bytes = Vec::new();
        let most = MOST_MARKS as u64 * 8;
        let path = dir.join(MARKS);
        dir::insist(&path, || File::open(&path))?
            .take(most)
            .read_to_end(&mut bytes)?;
        let marks = bytes.as_chunks().0.iter().map(|mark| {
            let mark = u64::from_le_bytes(*mark);
            let stream = if mark & 1 == 1 {
                Stream::Stderr
            } else {
                Stream::Stdout
            };
            (mark >> 1, stream)
        });
        let marks = marks.collect();
        Ok(Self { output, marks })
    }

    /// All output so far.
    pub(crate) fn len(&self) -> io::Result<u64> {
        Ok(self.output.metadata()?.len())
    }

    /// Both streams, from an offset. Fewer bytes than asked for only at the end.
    pub(crate) fn read(&self, offset: u64, most: usize) -> io::Result<Vec<u8>> {
        let there = self.len()?.saturating_sub(offset);
        let mut bytes = vec![0; usize::try_from(there).unwrap_or(usize::MAX).min(most)];
        let mut filled = 0;
        while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.output.read_at(rest, offset + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
                Err(err) => return Err(err),
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }

    /// Of some bytes that were read at an offset, those of one stream.
    pub(crate) fn only(&self, stream: Stream, offset: u64, bytes: &[u8]) -> Vec<u8> {
        let end = offset + bytes.len() as u64;
        let parts = self.parts(stream, end).filter_map(|(from, to)| {
            let at = |position: u64| {
                usize::try_from(position.saturating_sub(offset)).unwrap_or(usize::MAX)
            };
            bytes.get(at(from)..at(to))
        });
        parts.flatten().copied().collect()
    }

    /// How much of the output is of one stream.
    pub(crate) fn stream_len(&self, stream: Stream) -> io::Result<u64> {
        let lengths = self.parts(stream, self.len()?).map(|(from, to)| to - from);
        Ok(lengths.sum())
    }

    /// The first bytes of one stream.
    pub(crate) fn stream_head(&self, stream: Stream, most: usize) -> io::Result<Vec<u8>> {
        let mut head = Vec::new();
        for (from, to) in self.parts(stream, self.len()?) {
            let length = usize::try_from(to - from).unwrap_or(usize::MAX);
            head.extend(self.read(from, length.min(most - head.len()))?);
            if head.len() == most {
                break;
            }
        }
        Ok(head)
    }

    /// The last bytes of one stream.
    pub(crate) fn stream_tail(&self, stream: Stream, most: usize) -> io::Result<Vec<u8>> {
        let parts: Vec<_> = self.parts(stream, self.len()?).collect();
        let (mut tails, mut left) = (Vec::new(), most as u64);
        for (from, to) in parts.into_iter().rev() {
            let from = from.max(to.saturating_sub(left));
            tails.push(self.read(from, usize::try_from(to - from).unwrap_or(usize::MAX))?);
            left -= to - from;
            if left == 0 {
                break;
            }
        }
        tails.reverse();
        Ok(tails.concat())
    }

    /// Where the bytes of one stream are, up to an offset.
    fn parts(&self, stream: Stream, end: u64) -> impl Iterator<Item = (u64, u64)> {
        let ends = self.marks.iter().skip(1).map(|(mark, _)| *mark);
        let parts = self.marks.iter().zip(ends.chain([u64::MAX]));
        parts
            .filter(move |((from, of), _)| *of == stream && *from < end)
            .map(move |((from, _), to)| (*from, to.min(end)))
    }
}

/// Where to read instead of an offset, and how far, when a part is no longer kept.
pub(crate) fn step_over(hole: Option<(u64, u64)>, wanted: u64) -> (u64, usize) {
    match hole {
        Some((start, end)) if (start..end).contains(&wanted) => (end, usize::MAX),
        Some((start, _)) if wanted < start => (
            wanted,
            usize::try_from(start - wanted).unwrap_or(usize::MAX),
        ),
        _ => (wanted, usize::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_told_apart_and_stay_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = Spool::create(dir.path(), 0).unwrap();
        for (stream, text) in [
            (Stream::Stdout, "a"),
            (Stream::Stdout, "b"),
            (Stream::Stderr, "X"),
            (Stream::Stdout, "c"),
        ] {
            spool.write(stream, text.as_bytes()).unwrap();
        }
        let record = Record::open(dir.path()).unwrap();
        let all = record.read(0, 100).unwrap();
        assert_eq!(all, b"abXc");
        assert_eq!(record.only(Stream::Stdout, 0, &all), b"abc");
        assert_eq!(record.only(Stream::Stderr, 0, &all), b"X");
        assert_eq!(record.only(Stream::Stdout, 1, &all[1..]), b"bc");
        assert_eq!(record.stream_len(Stream::Stdout).unwrap(), 3);
        assert_eq!(record.stream_head(Stream::Stdout, 3).unwrap(), b"abc");
        assert_eq!(record.stream_tail(Stream::Stdout, 2).unwrap(), b"bc");
        assert_eq!(record.stream_tail(Stream::Stderr, 9).unwrap(), b"X");
    }

    #[test]
    fn of_too_much_the_beginning_and_the_end_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = Spool::create(dir.path(), 4 * STEP).unwrap();
        let chunk = vec![b'x'; STEP as usize];
        for _ in 0..16 {
            spool.write(Stream::Stdout, &chunk).unwrap();
        }
        assert_eq!(spool.bytes(), 16 * STEP);
        assert_eq!(spool.dropped(), Some((STEP, 13 * STEP)));
        let record = Record::open(dir.path()).unwrap();
        assert_eq!(record.len().unwrap(), 16 * STEP);
        assert_eq!(record.read(STEP - 1, 2).unwrap(), b"x\0");
        assert_eq!(record.read(13 * STEP - 1, 2).unwrap(), b"\0x");
    }
}
