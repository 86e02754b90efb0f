//! The process at the other end of a unix socket: Windows has no such sockets.

use std::time::Duration;

use super::Process;

/// The process that connected to a unix socket. Windows has none.
#[derive(Debug)]
#[non_exhaustive]
pub enum Peer {}

impl Peer {
    /// How long ago the connection was accepted.
    pub fn age(&self) -> Duration {
        match *self {}
    }

    /// The process that connected. The process may have ended since, and another process may have its number.
    pub fn process(&self) -> Process {
        match *self {}
    }
}
