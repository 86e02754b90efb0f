//! Who is at the other end, as the kernel says: the process behind a unix socket, and whose a TCP connection from this
//! machine is.

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
