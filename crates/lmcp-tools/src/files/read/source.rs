//! The bytes of an open file, at any position and in little memory.
//!
//! A small file is read once and stays in memory. So does a file that the kernel makes up as it is read, whose size is not
//! known before. Of any other file, one chunk is in memory at a time.

use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::FileExt,
};

use lmcp_core::{Cx, ToolResult};

/// An open file.
#[derive(Debug)]
pub(super) struct Source {
    /// `None` if the whole file is in the buffer.
    file: Option<File>,
    buffer: Vec<u8>,
    /// The position in the file at which the buffer begins.
    start: u64,
    size: u64,
}

impl Source {
    /// Opens a file of this size, as the kernel reports it; 0 may be any size. `need` reserves memory for a file that turns
    /// out to be large.
    pub(super) fn new(
        file: File,
        size: u64,
        need: impl FnMut(usize) -> ToolResult<()>,
    ) -> io::Result<Self> {
        if size > SMALL_BYTES {
            return Ok(Self {
                file: Some(file),
                buffer: Vec::new(),
                start: 0,
                size,
            });
        }
        let buffer = match size {
            0 => read_made_up(&file, need)?,
            _ => read_all(&file, size)?,
        };
        let size = buffer.len() as u64;
        Ok(Self {
            file: None,
            buffer,
            start: 0,
            size,
        })
    }

    /// Returns a source for a text in memory.
    pub(super) fn of(buffer: Vec<u8>) -> Self {
        Self {
            file: None,
            size: buffer.len() as u64,
            buffer,
            start: 0,
        }
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Returns the file, if it was not read at once, so that it may have changed since.
    pub(super) fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    /// Returns the bytes from an offset on, a chunk at most. At the end there are none; elsewhere at least [`LEAST_BYTES`],
    /// unless the end is nearer.
    pub(super) fn from(&mut self, offset: u64) -> io::Result<&[u8]> {
        let end = self.start + self.buffer.len() as u64;
        let wanted = self.size.saturating_sub(offset).min(LEAST_BYTES);
        if offset < self.start || offset + wanted > end {
            self.fill(offset, CHUNK_BYTES)?;
        }
        let at = index(offset.saturating_sub(self.start)).min(self.buffer.len());
        Ok(&self.buffer[at..])
    }

    /// Returns the bytes before `end`, a chunk at most.
    pub(super) fn until(&mut self, end: u64) -> io::Result<&[u8]> {
        let end = end.min(self.size);
        if self.file.is_some() {
            let start = end.saturating_sub(CHUNK_BYTES as u64);
            self.fill(start, index(end - start))?;
            if self.start + (self.buffer.len() as u64) < end {
                return Err(io::Error::other("it became shorter meanwhile"));
            }
        }
        Ok(&self.buffer[..index(end - self.start)])
    }

    /// Returns all bytes between two offsets.
    pub(super) fn between(&mut self, start: u64, end: u64) -> io::Result<&[u8]> {
        let end = end.min(self.size);
        let known = self.start..=self.start + self.buffer.len() as u64;
        if !known.contains(&start) || !known.contains(&end) {
            self.fill(start, index(end.saturating_sub(start)))?;
        }
        let at = |offset: u64| index(offset.saturating_sub(self.start)).min(self.buffer.len());
        Ok(&self.buffer[at(start.min(end))..at(end)])
    }

    /// Passes the file from an offset on to `visit`, piece by piece. `visit` returns how many bytes of each piece it took,
    /// or `None` if it has enough.
    pub(super) fn walk(
        &mut self,
        mut offset: u64,
        cx: &Cx,
        mut visit: impl FnMut(u64, &[u8], At) -> Option<usize>,
    ) -> io::Result<()> {
        while offset < self.size {
            stop_if_cancelled(cx)?;
            let size = self.size;
            let chunk = self.from(offset)?;
            if chunk.is_empty() {
                self.size = offset;
                break;
            }
            let is_last = offset + chunk.len() as u64 >= size;
            let at = if is_last { At::End } else { At::Middle };
            match visit(offset, chunk, at) {
                Some(taken) => offset += taken as u64,
                None => break,
            }
        }
        Ok(())
    }

    /// Reads into the buffer, from an offset on. Reads fewer bytes than asked for only at the end.
    fn fill(&mut self, offset: u64, length: usize) -> io::Result<()> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        let most = index(self.size.saturating_sub(offset));
        self.buffer.resize(length.min(most), 0);
        self.start = offset;
        let mut filled = 0;
        while filled < self.buffer.len() {
            match file.read_at(&mut self.buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
                Err(err) => return Err(err),
            }
        }
        self.buffer.truncate(filled);
        Ok(())
    }
}

/// Whether a piece of a file is the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    Middle,
    End,
}

/// Fails if the call was cancelled: nobody waits for the result.
pub(super) fn stop_if_cancelled(cx: &Cx) -> io::Result<()> {
    if cx.is_cancelled() {
        return Err(io::Error::other("cancelled"));
    }
    Ok(())
}

/// Reads a file that should have this size. If the file has grown, reads no more than this.
fn read_all(mut file: &File, size: u64) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; index(size)];
    // A file returns all bytes at once: fewer mean that the file became shorter.
    let count = file.read(&mut buffer)?;
    if count == buffer.len() {
        return Ok(buffer);
    }
    buffer.truncate(count);
    file.take(size - count as u64).read_to_end(&mut buffer)?;
    Ok(buffer)
}

/// Reads a file that does not report its size.
fn read_made_up(file: &File, mut need: impl FnMut(usize) -> ToolResult<()>) -> io::Result<Vec<u8>> {
    let mut buffer = Vec::new();
    loop {
        let known = buffer.len();
        if known as u64 > MADE_UP_BYTES {
            return Err(io::Error::other(format!(
                "it does not end within {} MiB",
                MADE_UP_BYTES >> 20
            )));
        }
        // Reads as much again, so that few steps lead to the end, and not more than is reserved.
        let step = known.max(CHUNK_BYTES);
        need(step).map_err(|err| io::Error::other(err.to_string()))?;
        buffer.reserve_exact(step);
        if file.take(step as u64).read_to_end(&mut buffer)? < step {
            return Ok(buffer);
        }
    }
}

/// Returns a position in memory: an offset larger than memory is after every end.
fn index(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

/// The largest file that is read at once.
const SMALL_BYTES: u64 = 128 * 1024;

/// The most bytes that are read of a file that does not report its size.
const MADE_UP_BYTES: u64 = 16 * 1024 * 1024;

/// The bytes that are read at a time of other files. The number is even, so that no unit of UTF-16 is split.
const CHUNK_BYTES: usize = 64 * 1024;

/// More bytes than [`Encoding::whole`](crate::files::text::Encoding::whole) ever leaves over, so that there is progress.
const LEAST_BYTES: u64 = 8;
