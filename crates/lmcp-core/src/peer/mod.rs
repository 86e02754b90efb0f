//! The other end of a connection, as the kernel describes it: the process behind a unix socket, and the owner of a TCP
//! connection from this machine.

#[cfg_attr(unix, path = "unix.rs")]
#[cfg_attr(windows, path = "windows.rs")]
mod system;

use std::pin::Pin;

use lmcp_wire::RpcError;

pub use system::Peer;

/// The process at the other end of a unix socket, as the kernel says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Process {
    /// The user of the process.
    pub uid: u32,
    /// The id of the process, if the platform tells it.
    pub pid: Option<i32>,
}

impl Process {
    /// Makes a process of a user.
    pub fn new(uid: u32, pid: Option<i32>) -> Self {
        Self { uid, pid }
    }
}

/// The other end of a TCP connection from this machine. TCP does not say which process connected. A check that needs to know
/// looks for the processes that have this socket open.
#[derive(Clone, Copy, Debug)]
pub struct LocalPeer {
    socket: Option<LocalSocket>,
}

/// A socket that a process on this machine has open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LocalSocket {
    /// The user who made the socket.
    pub uid: u32,
    /// The number of the socket in `/proc/PID/fd`, where an open socket shows as `socket:[NUMBER]`.
    pub inode: u64,
}

/// A future that decides whether a [`LocalPeer`] may connect.
pub type CheckingLocalPeer = Pin<Box<dyn Future<Output = Result<(), RpcError>> + Send>>;

impl LocalPeer {
    /// Makes the other end of a connection that was just accepted. `None`: the socket was closed before it could be looked up.
    pub fn new(socket: Option<LocalSocket>) -> Self {
        Self { socket }
    }

    /// The socket at the other end. `None`: it was closed before it could be looked up.
    pub fn socket(&self) -> Option<LocalSocket> {
        self.socket
    }
}

impl LocalSocket {
    /// Makes the socket that this user made, by its number.
    pub fn new(uid: u32, inode: u64) -> Self {
        Self { uid, inode }
    }
}
