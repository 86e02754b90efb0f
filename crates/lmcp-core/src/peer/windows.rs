//! The process at the other end of a unix socket: nobody, because there are no such sockets here.

use std::time::Duration;

use super::Process;

/// The process that connected to a unix socket. Windows has none.
#[derive(Debug)]
#[non_exhaustive]
pub enum Peer {}

impl Peer {
    /// How long ago the connection was taken.
    pub fn age(&self) -> Duration {
        match *self {}
    }

    /// The process that connected. It may have ended since, and its number be another's.
    pub fn process(&self) -> Process {
        match *self {}
    }
}
