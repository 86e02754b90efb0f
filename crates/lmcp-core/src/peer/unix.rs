//! The process at the other end of a unix socket.

use std::{
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    time::{Duration, Instant},
};

use super::Process;

/// The process that connected, as the kernel tells it.
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

    /// How long ago the connection was taken.
    pub fn age(&self) -> Duration {
        self.taken.elapsed()
    }

    /// The process that connected. It may have ended since, and its number be another's.
    pub fn process(&self) -> Process {
        self.process
    }

    /// The connection, to ask the kernel more about it. Nothing is to be read or written there.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
