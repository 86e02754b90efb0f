//! Who is at the other end, as the kernel says: the process behind a unix socket, and whose a TCP connection from this
//! machine is.

use std::{
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    pin::Pin,
    time::{Duration, Instant},
};

use lmcp_wire::RpcError;

/// The process at the other end of a unix socket, as the kernel says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Process {
    /// Its user.
    pub uid: u32,
    /// Its id, where the platform tells.
    pub pid: Option<i32>,
}

impl Process {
    /// A process of a user.
    pub fn new(uid: u32, pid: Option<i32>) -> Self {
        Self { uid, pid }
    }
}

/// Who connected, as the kernel says.
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

/// The other end of a TCP connection from this machine. TCP does not say which process connected; whoever needs to know
/// looks for the processes that have this socket open.
#[derive(Clone, Copy, Debug)]
pub struct LocalPeer {
    socket: Option<LocalSocket>,
}

/// A socket that somebody on this machine has open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LocalSocket {
    /// The user who made it.
    pub uid: u32,
    /// Its number in `/proc/PID/fd`, where an open socket shows as `socket:[NUMBER]`.
    pub inode: u64,
}

/// The answer to whether a [`LocalPeer`] may connect, which may take a moment to find out.
pub type CheckingLocalPeer = Pin<Box<dyn Future<Output = Result<(), RpcError>> + Send>>;

impl LocalPeer {
    /// The other end of a connection that was just accepted. `None`: it was closed before anybody could look.
    pub fn new(socket: Option<LocalSocket>) -> Self {
        Self { socket }
    }

    /// The socket at the other end. `None`: it was closed before anybody could look.
    pub fn socket(&self) -> Option<LocalSocket> {
        self.socket
    }
}

impl LocalSocket {
    /// The socket that this user made, by its number.
    pub fn new(uid: u32, inode: u64) -> Self {
        Self { uid, inode }
    }
}
