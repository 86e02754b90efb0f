//! Standard input and output on Windows: duplicates of the handles that the process got at its start.
//!
//! The handles themselves stay in place, because only `unsafe` code can replace them. A pipe cannot be asked whether it has
//! room or has ended. So answers are always written by the thread that waits for the client, and the end of the input is known
//! only once it was read.

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    os::windows::io::AsHandle,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use super::MOST_AT_ONCE;

/// Duplicates stdin and stdout: reads and writes go past the buffers of the standard library.
pub(super) fn take_over() -> io::Result<(Input, Output)> {
    let input = Input {
        file: duplicate(&io::stdin())?,
        ended: Arc::default(),
    };
    Ok((input, Output(duplicate(&io::stdout())?)))
}

fn duplicate(end: &impl AsHandle) -> io::Result<File> {
    Ok(end.as_handle().try_clone_to_owned()?.into())
}

/// Standard input.
pub(super) struct Input {
    file: File,
    ended: Arc<AtomicBool>,
}

/// Knows whether the input has ended.
pub(super) struct Watch(Arc<AtomicBool>);

impl Watch {
    /// Whether the input was read to its end.
    pub(super) fn has_ended(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Input {
    /// Returns a handle that only tells whether the input has ended.
    #[expect(clippy::unnecessary_wraps, reason = "elsewhere it can fail")]
    pub(super) fn watch(&self) -> io::Result<Watch> {
        Ok(Watch(Arc::clone(&self.ended)))
    }

    /// Waits for bytes and appends them. Returns their number; zero at the end.
    pub(super) fn read(&self, buffer: &mut Vec<u8>) -> usize {
        let mut space = [0; MOST_AT_ONCE];
        let count = loop {
            match (&self.file).read(&mut space) {
                Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
                read => break read.unwrap_or(0),
            }
        };
        buffer.extend_from_slice(&space[..count]);
        if count == 0 {
            self.ended.store(true, Ordering::Relaxed);
        }
        count
    }
}

/// Standard output.
pub(super) struct Output(File);

impl Output {
    /// Writes nothing: Windows does not tell whether a write would wait for the client.
    pub(super) fn write_now(&self, _: &[u8]) -> usize {
        0
    }

    /// Writes some of the bytes, however long that takes.
    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match (&self.0).write(bytes) {
                Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
                written => return written,
            }
        }
    }
}
