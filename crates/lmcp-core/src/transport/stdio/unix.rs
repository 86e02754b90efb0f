//! Standard input and output on unix: moved to other descriptors, and awaited with `poll`.

use std::{
    fs::File,
    io::{self, Write as _},
    mem::MaybeUninit,
    os::fd::{AsFd as _, OwnedFd},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::{Errno, fcntl_dupfd_cloexec},
    stdio as real,
};

use super::MOST_AT_ONCE;

/// Moves the real stdin and stdout to descriptors that no other code knows, and puts harmless ones in their place: a stray
/// `println!` goes to stderr, and a child process that reads its input gets `/dev/null`.
pub(super) fn take_over() -> io::Result<(Input, Output)> {
    let input = fcntl_dupfd_cloexec(real::stdin(), 3)?;
    let output = fcntl_dupfd_cloexec(real::stdout(), 3)?;
    real::dup2_stdin(File::open("/dev/null")?.as_fd())?;
    real::dup2_stdout(real::stderr())?;
    Ok((Input(input), Output(File::from(output))))
}

/// The real standard input.
pub(super) struct Input(OwnedFd);

impl Input {
    /// Returns another handle, which only tells whether the input has ended.
    pub(super) fn watch(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Whether the other end was closed. There may still be bytes to read.
    pub(super) fn has_ended(&self) -> bool {
        let mut ready = [PollFd::new(&self.0, PollFlags::empty())];
        poll(&mut ready, Some(&Timespec::default())).is_ok()
            && ready[0].revents().contains(PollFlags::HUP)
    }

    /// Waits for bytes and appends them. Returns their number; zero at the end.
    pub(super) fn read(&self, buffer: &mut Vec<u8>) -> usize {
        // The space is not cleared first: that would take longer than to read a usual message.
        let mut space = [MaybeUninit::uninit(); MOST_AT_ONCE];
        loop {
            match rustix::io::read(&self.0, &mut space) {
                Err(Errno::INTR) => {}
                // Another program has made the input non-blocking.
                Err(Errno::AGAIN) => wait_for(PollFd::new(&self.0, PollFlags::IN)),
                Err(_) => return 0,
                Ok((read, _)) => {
                    buffer.extend_from_slice(read);
                    return read.len();
                }
            }
        }
    }
}

/// The real standard output.
pub(super) struct Output(File);

impl Output {
    /// Writes the bytes that fit into the pipe at once, and returns their number.
    pub(super) fn write_now(&self, bytes: &[u8]) -> usize {
        let mut ready = [PollFd::new(&self.0, PollFlags::OUT)];
        let writable = poll(&mut ready, Some(&Timespec::default())).is_ok()
            && ready[0].revents() == PollFlags::OUT;
        if writable {
            (&self.0).write(bytes).unwrap_or(0)
        } else {
            0
        }
    }

    /// Writes some of the bytes, however long that takes.
    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match (&self.0).write(bytes) {
                Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
                Err(err) if err.kind() == io::ErrorKind::WouldBlock => {
                    wait_for(PollFd::new(&self.0, PollFlags::OUT));
                }
                written => return written,
            }
        }
    }
}

fn wait_for(what: PollFd<'_>) {
    let _ = poll(&mut [what], None);
}
