//! A command's output on disk: one file with the bytes of both streams as they came, and another with the positions at
//! which the stream changes.
//!
//! An offset always counts from the beginning of the whole output: when there is too much output, its middle is given back
//! to the file system as a hole. A reader needs nothing but the two files. When the disk is full, the command goes on: its
//! output is kept in two files in memory, with the same offsets and a larger hole, for as long as its guard lives.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::{
        fd::AsRawFd as _,
        unix::fs::{FileExt as _, OpenOptionsExt as _},
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{FallocateFlags, MemfdFlags, fallocate, memfd_create},
    process::getpid,
};

use super::{
    dir,
    protocol::{Extent, InMemory},
};

/// The file with the bytes.
pub(crate) const OUTPUT: &str = "output";
/// The file with the positions at which the stream changes.
pub(crate) const MARKS: &str = "marks";
/// The most changes of the stream that are recorded, a megabyte of them. Later output counts as the last stream.
const MOST_MARKS: usize = 128 * 1024;
/// The bytes that one change takes in the list.
const MARK: usize = 8;
/// The size of the steps in which a hole grows, so that not every write makes one.
const STEP: u64 = 1024 * 1024;
/// The size of these steps in memory.
const MEMORY_STEP: u64 = 64 * 1024;
/// How many bytes are kept in memory if nothing can be recorded, a quarter of them from the beginning: more than any
/// client takes.
const MEMORY: u64 = 4 * MEMORY_STEP;

/// One of the two outputs of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

/// The writing end of a record; each command has one, in its guard.
#[derive(Debug)]
pub(crate) struct Spool {
    files: Files,
    mark_count: usize,
    last: Option<Stream>,
    bytes: u64,
    limit: u64,
    step: u64,
    hole: Hole,
    /// The number of bytes that are in no file.
    lost: u64,
    failure: Option<Failure>,
}

#[derive(Debug)]
struct Files {
    output: File,
    marks: File,
}

/// The state of the record on disk once nothing can be written there any more.
#[derive(Debug)]
struct Failure {
    why: String,
    /// The file on disk, whose lock this process still holds. `None` if nothing was ever recorded.
    output: Option<File>,
    /// The number of bytes in that file.
    bytes: u64,
    hole: Hole,
}

/// The bytes that are not kept: from the first offset to before the second.
pub(crate) type Hole = Option<(u64, u64)>;

impl Spool {
    /// Begins a record in this folder.
    pub(crate) fn create(dir: &Path, limit: u64) -> io::Result<Self> {
        let open = |name: &str| {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create_new(true).mode(0o600);
            dir::insist(dir, || options.open(dir.join(name)))
        };
        let files = Files {
            output: open(OUTPUT)?,
            marks: open(MARKS)?,
        };
        Ok(Self::over(files, limit, STEP))
    }

    /// Begins a record in memory, because the record on disk failed for this reason.
    pub(crate) fn in_memory(why: &io::Error) -> io::Result<Self> {
        let mut spool = Self::over(Files::in_memory()?, MEMORY, MEMORY_STEP);
        spool.failure = Some(Failure {
            why: why.to_string(),
            output: None,
            bytes: 0,
            hole: None,
        });
        Ok(spool)
    }

    fn over(files: Files, limit: u64, step: u64) -> Self {
        Self {
            files,
            mark_count: 0,
            last: None,
            bytes: 0,
            limit: limit.max(4 * step),
            step,
            hole: None,
            lost: 0,
            failure: None,
        }
    }

    /// Returns the file whose lock tells that the record still grows.
    pub(crate) fn output(&self) -> &File {
        let on_disk = self.failure.as_ref().and_then(|it| it.output.as_ref());
        on_disk.unwrap_or(&self.files.output)
    }

    /// Returns the length of all output so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns how many bytes of the output are in no file.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns which part of the output is kept, and where.
    pub(crate) fn extent(&self) -> Extent {
        let memory = InMemory {
            guard: getpid().as_raw_pid(),
            output: self.files.output.as_raw_fd(),
            marks: self.files.marks.as_raw_fd(),
        };
        Extent {
            dropped: self.hole,
            memory: self.failure.is_some().then_some(memory),
        }
    }

    /// Returns why some of the output is not recorded on disk.
    pub(crate) fn why_not_recorded(&self) -> Option<&str> {
        self.failure.as_ref().map(|failure| failure.why.as_str())
    }

    /// Returns how many bytes are not in the file on disk, and the hole in that file.
    pub(crate) fn on_disk(&self) -> (u64, Hole) {
        match &self.failure {
            Some(failure) => (self.bytes.saturating_sub(failure.bytes), failure.hole),
            None => (self.lost, self.hole),
        }
    }

    /// Records more output, on disk or else in memory. A full disk must not stop the command.
    pub(crate) fn write(&mut self, stream: Stream, bytes: &[u8]) {
        let written = match self.try_write(stream, bytes) {
            Err(err) if self.failure.is_none() => self
                .go_on_in_memory(&err)
                .and_then(|()| self.try_write(stream, bytes)),
            written => written,
        };
        if written.is_err() {
            self.lost += bytes.len() as u64;
        }
        self.bytes += bytes.len() as u64;
        if let Err(err) = self.make_hole()
            && self.failure.is_none()
        {
            // The file system cannot make holes. If memory fails as well, the whole output stays on disk.
            let _ = self.go_on_in_memory(&err);
        }
    }

    fn try_write(&mut self, stream: Stream, bytes: &[u8]) -> io::Result<()> {
        if self.last != Some(stream) && self.mark_count < MOST_MARKS {
            let mark = self.bytes << 1 | u64::from(stream == Stream::Stderr);
            self.files.marks.write_all(&mark.to_le_bytes())?;
            self.mark_count += 1;
            self.last = Some(stream);
        }
        self.files.output.write_all_at(bytes, self.bytes)
    }

    /// Goes on in memory, with a copy of the beginning of the output.
    fn go_on_in_memory(&mut self, why: &io::Error) -> io::Result<()> {
        let mut memory = Files::in_memory()?;
        let head = self.bytes.min(MEMORY / 4);
        let beginning = read_at(&self.files.output, 0, usize::try_from(head).unwrap_or(0))?;
        memory.output.write_all_at(&beginning, 0)?;
        let marks = read_at(&self.files.marks, 0, self.mark_count * MARK)?;
        memory.marks.write_all(&marks)?;
        let recorded = std::mem::replace(&mut self.files, memory);
        // The file may hold the beginning of the bytes whose write failed.
        let bytes = recorded.output.metadata().map_or(0, |output| output.len());
        self.failure = Some(Failure {
            why: why.to_string(),
            output: Some(recorded.output),
            bytes: bytes.max(self.bytes),
            hole: self.hole,
        });
        self.hole = (head < self.bytes).then_some((head, self.bytes));
        (self.limit, self.step) = (MEMORY, MEMORY_STEP);
        Ok(())
    }

    /// Keeps a quarter of the limit from the beginning, and the rest of it from the end.
    fn make_hole(&mut self) -> io::Result<()> {
        let start = self.limit / 4;
        let end = self.bytes.saturating_sub(self.limit - start) / self.step * self.step;
        let (from, done) = self.hole.unwrap_or((start, start));
        if end <= done {
            return Ok(());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&self.files.output, flags, done, end - done)?;
        self.hole = Some((from, end));
        Ok(())
    }
}

impl Files {
    fn in_memory() -> io::Result<Self> {
        let make = || memfd_create("output", MemfdFlags::CLOEXEC).map(File::from);
        Ok(Self {
            output: make()?,
            marks: make()?,
        })
    }
}

impl InMemory {
    /// Returns the paths by which another process of this user opens the files while the guard lives.
    fn paths(&self) -> (PathBuf, PathBuf) {
        let path = |file: i32| format!("/proc/{}/fd/{file}", self.guard).into();
        (path(self.output), path(self.marks))
    }
}

/// The reading end of a record, while the record grows or long after.
#[derive(Debug)]
pub(crate) struct Record {
    output: File,
    /// The offsets at which a stream begins, in order.
    marks: Vec<(u64, Stream)>,
    hole: Hole,
}

impl Record {
    /// Opens the record of a command in this folder, or in memory.
    pub(crate) fn open(dir: &Path, extent: Extent) -> io::Result<Self> {
        let mut record = Self::without_marks(dir, extent)?;
        let (_, marks) = paths(dir, extent);
        let mut bytes = Vec::new();
        let most = (MOST_MARKS * MARK) as u64;
        open(&marks, extent)?.take(most).read_to_end(&mut bytes)?;
        let marks = bytes.as_chunks().0.iter().map(|mark| {
            let mark = u64::from_le_bytes(*mark);
            let stream = if mark & 1 == 1 {
                Stream::Stderr
            } else {
                Stream::Stdout
            };
            (mark >> 1, stream)
        });
        record.marks = marks.collect();
        Ok(record)
    }

    /// Opens the record to read both streams as they came: the marks, of which there may be many, are not read.
    pub(crate) fn without_marks(dir: &Path, extent: Extent) -> io::Result<Self> {
        let (output, _) = paths(dir, extent);
        Ok(Self {
            output: open(&output, extent)?,
            marks: Vec::new(),
            hole: extent.dropped,
        })
    }

    /// Returns the length of all output so far.
    pub(crate) fn len(&self) -> io::Result<u64> {
        Ok(self.output.metadata()?.len())
    }

    /// Returns whether the whole output is kept.
    pub(crate) fn is_whole(&self) -> bool {
        self.hole.is_none()
    }

    /// Reads bytes of both streams from an offset. Returns fewer than `most` only at the end.
    pub(crate) fn read(&self, offset: u64, most: usize) -> io::Result<Vec<u8>> {
        let there = self.len()?.saturating_sub(offset);
        let most = usize::try_from(there).unwrap_or(usize::MAX).min(most);
        read_at(&self.output, offset, most)
    }

    /// Returns those of the given bytes, which were read at an offset, that are of one stream.
    pub(crate) fn only(&self, stream: Stream, offset: u64, bytes: &[u8]) -> Vec<u8> {
        let end = offset + bytes.len() as u64;
        let parts = self.parts(stream, 0, end).filter_map(|(from, to)| {
            let at = |position: u64| {
                usize::try_from(position.saturating_sub(offset)).unwrap_or(usize::MAX)
            };
            bytes.get(at(from)..at(to))
        });
        parts.flatten().copied().collect()
    }

    /// Returns how many bytes of the output are of one stream, kept or not.
    pub(crate) fn stream_len(&self, stream: Stream) -> io::Result<u64> {
        let parts = self.parts(stream, 0, self.len()?);
        Ok(parts.map(|(from, to)| to - from).sum())
    }

    /// Returns the first bytes of one stream, up to the hole.
    pub(crate) fn stream_head(&self, stream: Stream, most: usize) -> io::Result<Vec<u8>> {
        let end = match self.hole {
            Some((start, _)) => start,
            None => self.len()?,
        };
        let mut head = Vec::new();
        for (from, to) in self.parts(stream, 0, end) {
            let length = usize::try_from(to - from).unwrap_or(usize::MAX);
            head.extend(self.read(from, length.min(most - head.len()))?);
            if head.len() == most {
                break;
            }
        }
        Ok(head)
    }

    /// Returns the last bytes of one stream, from the end of the hole on.
    pub(crate) fn stream_tail(&self, stream: Stream, most: usize) -> io::Result<Vec<u8>> {
        let start = self.hole.map_or(0, |(_, end)| end);
        let parts: Vec<_> = self.parts(stream, start, self.len()?).collect();
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

    /// Returns the ranges of one stream between two offsets.
    fn parts(&self, stream: Stream, start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> {
        let ends = self.marks.iter().skip(1).map(|(mark, _)| *mark);
        let parts = self.marks.iter().zip(ends.chain([u64::MAX]));
        parts
            .filter(move |((from, of), to)| *of == stream && *from < end && *to > start)
            .map(move |((from, _), to)| ((*from).max(start), to.min(end)))
            // A hole may reach beyond the end of a file that could not grow.
            .filter(|(from, to)| from < to)
    }
}

fn open(path: &Path, extent: Extent) -> io::Result<File> {
    match extent.memory {
        // The names of files in memory are links.
        Some(_) => File::open(path),
        None => dir::open(path),
    }
}

/// Returns where the output of a command is, and where its marks are.
fn paths(dir: &Path, extent: Extent) -> (PathBuf, PathBuf) {
    match extent.memory {
        Some(memory) => memory.paths(),
        None => (dir.join(OUTPUT), dir.join(MARKS)),
    }
}

/// Reads bytes of a file from an offset. Returns fewer than `most` only if the file ends.
fn read_at(file: &File, offset: u64, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; most];
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
            Err(err) => return Err(err),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// Returns the first kept offset from `wanted` on, and how many bytes can be read there up to the hole.
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
            spool.write(stream, text.as_bytes());
        }
        let record = Record::open(dir.path(), spool.extent()).unwrap();
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
            spool.write(Stream::Stdout, &chunk);
        }
        assert_eq!(spool.bytes(), 16 * STEP);
        assert_eq!(spool.extent().dropped, Some((STEP, 13 * STEP)));
        let record = Record::open(dir.path(), spool.extent()).unwrap();
        assert_eq!(record.len().unwrap(), 16 * STEP);
        assert_eq!(record.read(STEP - 1, 2).unwrap(), b"x\0");
        assert_eq!(record.read(13 * STEP - 1, 2).unwrap(), b"\0x");
    }

    #[test]
    fn a_record_that_ends_before_what_was_not_kept_has_no_tail() {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = Spool::create(dir.path(), 0).unwrap();
        spool.write(Stream::Stdout, b"begin");
        let extent = Extent {
            dropped: Some((2, 100)),
            memory: None,
        };
        let record = Record::open(dir.path(), extent).unwrap();
        assert_eq!(record.stream_head(Stream::Stdout, 100).unwrap(), b"be");
        assert_eq!(record.stream_tail(Stream::Stdout, 100).unwrap(), b"");
    }

    #[test]
    fn what_cannot_be_recorded_is_kept_in_memory_beginning_and_end() {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = Spool::create(dir.path(), 0).unwrap();
        spool.write(Stream::Stdout, &[b'a'; 100_000]);
        spool.write(Stream::Stderr, b"early");
        spool
            .go_on_in_memory(&io::ErrorKind::StorageFull.into())
            .unwrap();
        let chunk = [b'x'; 1000];
        for _ in 0..10_000 {
            spool.write(Stream::Stdout, &chunk);
        }
        spool.write(Stream::Stderr, b"late");
        let record = Record::open(dir.path(), spool.extent()).unwrap();
        assert_eq!(record.len().unwrap(), spool.bytes());
        assert!(!record.is_whole() && spool.lost() == 0);
        assert_eq!(record.stream_len(Stream::Stderr).unwrap(), 9);
        let head = record.stream_head(Stream::Stdout, 1_000_000).unwrap();
        assert_eq!(head, vec![b'a'; 64 * 1024]);
        let tail = record.stream_tail(Stream::Stdout, 1_000_000).unwrap();
        assert!(tail.len() > 128 * 1024 && tail.iter().all(|byte| *byte == b'x'));
        assert_eq!(record.stream_tail(Stream::Stderr, 9).unwrap(), b"late");
        let blocks = std::os::unix::fs::MetadataExt::blocks(&record.output.metadata().unwrap());
        assert!(blocks * 512 <= MEMORY + MEMORY_STEP, "{blocks}");
        assert_eq!(spool.on_disk(), (10_000_004, None));
    }
}
