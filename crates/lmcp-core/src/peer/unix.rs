//! The process at the other end of a unix socket.

use std::{
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    time::{Duration, Instant},
};

use super::Process;

/// The process that connected to a unix socket, as the kernel describes it.
#[derive(Debug)]
pub struct Peer {
    process: Process,
    socket: OwnedFd,
    taken: Instant,
}

impl Peer {
    pub(crate) fn new(process: Process, socket: OwnedFd) -> Self {
        Self {
            process,
            socket,
            taken: Instant::now(),
        }
    }

    /// How long ago the connection was accepted.
    pub fn age(&self) -> Duration {
        self.taken.elapsed()
    }

    /// The process that connected. The process may have ended since, and another process may have its number.
    pub fn process(&self) -> Process {
        self.process
    }

    /// The connection, to ask the kernel more about the process. Do not read or write there.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
