//! One server on the other end of a socket.

use std::{
    io::{self, Read as _, Write as _},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
};

use rustix::event::PollFlags;

use super::super::protocol::{Ask, Word};

/// The longest line from a server: mostly input for the command.
const LONGEST: usize = 16 * 1024 * 1024;
/// The most bytes that may wait for a server that does not read. News about growth are left out
/// long before.
const MOST_WAITING: usize = 64 * 1024;

/// A connection to a server.
#[derive(Debug)]
pub(super) struct Peer {
    socket: UnixStream,
    read: Vec<u8>,
    waiting: Vec<u8>,
    pub(super) gone: bool,
    /// Whether this is the server that started the command.
    pub(super) is_owner: bool,
    /// Whether the peer has sent the key.
    pub(super) is_known: bool,
    /// Whether the peer only follows.
    pub(super) follows: bool,
}

impl Peer {
    pub(super) fn new(socket: UnixStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            read: Vec::new(),
            waiting: Vec::new(),
            gone: false,
            is_owner: false,
            is_known: false,
            follows: false,
        })
    }

    /// Makes the peer for the server that started the command.
    pub(super) fn owner(socket: UnixStream) -> io::Result<Self> {
        Ok(Self {
            is_owner: true,
            is_known: true,
            ..Self::new(socket)?
        })
    }

    /// Returns the events to wait for.
    pub(super) fn interest(&self) -> PollFlags {
        if self.waiting.is_empty() {
            PollFlags::IN
        } else {
            PollFlags::IN | PollFlags::OUT
        }
    }

    /// Sends a word, as soon as that is possible.
    pub(super) fn say(&mut self, word: &Word) {
        let growth = matches!(word, Word::Grown { .. });
        if self.gone || growth && !self.waiting.is_empty() {
            return;
        }
        let Ok(mut line) = serde_json::to_vec(word) else {
            return;
        };
        line.push(b'\n');
        self.waiting.append(&mut line);
        self.write();
        self.gone |= self.waiting.len() > MOST_WAITING;
    }

    /// Writes as many of the waiting bytes as the socket takes.
    pub(super) fn write(&mut self) {
        while !self.waiting.is_empty() {
            match self.socket.write(&self.waiting) {
                Ok(count) => drop(self.waiting.drain(..count)),
                Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
                Err(err) if err.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.gone = true;
                    return;
                }
            }
        }
    }

    /// Returns the requests that came since the last call.
    pub(super) fn asks(&mut self) -> Vec<Ask> {
        let mut chunk = [0; 16 * 1024];
        loop {
            match self.socket.read(&mut chunk) {
                Ok(0) => {
                    self.gone = true;
                    break;
                }
                Ok(count) => self
                    .read
                    .extend_from_slice(chunk.get(..count).unwrap_or_default()),
                Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
                Err(err) => {
                    self.gone |= err.kind() != io::ErrorKind::WouldBlock;
                    break;
                }
            }
            if self.read.len() > LONGEST {
                self.gone = true;
                break;
            }
        }
        let mut asks = Vec::new();
        while let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.read.drain(..=end).collect();
            match serde_json::from_slice(&line) {
                Ok(ask) => asks.push(ask),
                Err(err) => self.say(&Word::Refused {
                    why: err.to_string(),
                }),
            }
        }
        asks
    }
}

impl AsFd for Peer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
