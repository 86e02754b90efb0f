//! The server's end: a socket of our own, which never blocks.

use std::{
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use lmcp_wire::{
    Envelope,
    framing::{Frame, Framer},
};
use rustix::{
    buffer::spare_capacity,
    event::{PollFd, PollFlags},
    io::{Errno, read},
    net::{SendFlags, Shutdown, send, shutdown},
};

use crate::{limits::Limits, outbox::Outbox};

pub(crate) struct Connection {
    socket: OwnedFd,
    lines: Framer,
    pub(crate) out: Outbox,
    /// Lines that were pushed after the server had closed its reading side.
    unsent: Vec<Vec<u8>>,
    /// The server sends nothing more.
    has_ended: bool,
    /// Nothing more is sent to the server. Its earlier messages are still to be read.
    pub(crate) is_deaf: bool,
    /// If the server closed its reading side: the time until which its messages are still read.
    pub(crate) deaf_until: Option<Instant>,
    linger: Duration,
}

impl Connection {
    pub(crate) fn new(socket: OwnedFd, limits: &Limits) -> Self {
        Self {
            socket,
            lines: Framer::new(limits.line_bytes),
            out: Outbox::default(),
            unsent: Vec::new(),
            has_ended: false,
            is_deaf: false,
            deaf_until: None,
            linger: limits.linger,
        }
    }

    /// Returns the next whole line. At the end, returns the rest if it is a whole message.
    pub(crate) fn next_frame(&mut self) -> Option<Frame> {
        let frame = self.lines.next_frame();
        if frame.is_some() || !self.has_ended {
            return frame;
        }
        // A server that was killed may have been in the middle of a line.
        let is_whole = |frame: &Frame| match frame {
            // The beginning of a number is also a number, so only `}` and `]` count as an end.
            Ok(line) => {
                matches!(line.trim_ascii_end(), [.., b'}' | b']'])
                    && serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok()
            }
            Err(_) => false,
        };
        self.lines.last_frame().filter(is_whole)
    }

    /// Returns whether there is nothing more to wait for, after all lines were taken.
    pub(crate) fn is_lost(&self, now: Instant) -> bool {
        self.has_ended || self.deaf_until.is_some_and(|until| until <= now)
    }

    /// Reads the bytes that are there.
    pub(crate) fn read(&mut self) {
        match read(&self.socket, spare_capacity(self.lines.buffer())) {
            Ok(1..) | Err(Errno::INTR | Errno::AGAIN) => {}
            Ok(0) | Err(_) => self.has_ended = true,
        }
    }

    /// Writes as much as the socket takes.
    pub(crate) fn write(&mut self) {
        match send(&self.socket, self.out.front(), SendFlags::NOSIGNAL) {
            Ok(written) => self.out.advance(written),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => {
                self.is_deaf = true;
                self.deaf_until = Some(Instant::now() + self.linger);
                self.unsent.extend(self.out.take_whole());
            }
        }
    }

    /// Queues a line for the server.
    pub(crate) fn push(&mut self, line: Vec<u8>) {
        match self.is_deaf {
            false => self.out.push(line),
            // An answer is only for this server, and a server can ask without end, so answers are not kept.
            true if matches!(Envelope::read(&line), Envelope::Response { .. }) => {}
            true => self.unsent.push(line),
        }
    }

    /// Returns the lines of which the server got no byte.
    pub(crate) fn take_unsent(&mut self) -> Vec<Vec<u8>> {
        let mut unsent = std::mem::take(&mut self.unsent);
        unsent.extend(self.out.take_whole());
        unsent
    }

    /// Tells the server that nothing more will come.
    pub(crate) fn end(&mut self) {
        if !std::mem::replace(&mut self.is_deaf, true) {
            let _ = shutdown(&self.socket, Shutdown::Write);
        }
    }

    /// Returns what to poll for, if anything.
    pub(crate) fn poll(&self, reads: bool) -> Option<PollFd<'_>> {
        let mut wanted = PollFlags::empty();
        wanted.set(PollFlags::IN, reads && !self.has_ended);
        wanted.set(PollFlags::OUT, !self.out.is_empty());
        // A socket that is polled for nothing would still report that it is closed, again and again.
        (!wanted.is_empty()).then(|| PollFd::new(&self.socket, wanted))
    }
}

#[cfg(test)]
mod tests {
    use std::{net, os::unix::net::UnixStream};

    use super::*;

    #[test]
    fn a_server_without_ears_cannot_fill_the_memory_with_answers() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut connection = Connection::new(ours.into(), &Limits::default());
        theirs.shutdown(net::Shutdown::Read).unwrap();
        connection.push(b"{}".into());
        connection.write();
        assert!(connection.is_deaf);
        let call = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}"#;
        for _ in 0..3 {
            connection.push(br#"{"jsonrpc":"2.0","id":7,"result":{}}"#.into());
            connection.push(
                br#"{"jsonrpc":"2.0","id":8,"error":{"code":-32603,"message":"too many"}}"#.into(),
            );
        }
        connection.push(call.into());
        assert_eq!(connection.take_unsent(), [b"{}".to_vec(), call.to_vec()]);
    }
}
