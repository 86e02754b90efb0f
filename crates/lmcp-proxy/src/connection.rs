//! The server's end: a socket of our own, which never waits.

use std::{
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use lmcp_wire::framing::{Frame, Framer};
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
    /// Lines that were to be sent when nothing more could be.
    unsent: Vec<Vec<u8>>,
    /// Nothing more comes from it.
    has_ended: bool,
    /// Nothing more goes to it. What it has said is still to be read.
    pub(crate) is_deaf: bool,
    /// If it was the server that closed its ears: until when it is read all the same.
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

    /// The next line that is whole; at the end, what is left if that is.
    pub(crate) fn next_frame(&mut self) -> Option<Frame> {
        let frame = self.lines.next_frame();
        if frame.is_some() || !self.has_ended {
            return frame;
        }
        // A server that was killed may have been in the middle of a line.
        let is_whole = |frame: &Frame| match frame {
            // The beginning of a number is a number, too.
            Ok(line) => {
                matches!(line.trim_ascii_end(), [.., b'}' | b']'])
                    && serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok()
            }
            Err(_) => false,
        };
        self.lines.last_frame().filter(is_whole)
    }

    /// Is there nothing more to wait for, once all lines were taken?
    pub(crate) fn is_lost(&self, now: Instant) -> bool {
        self.has_ended || self.deaf_until.is_some_and(|until| until <= now)
    }

    /// Reads what is there.
    pub(crate) fn read(&mut self) {
        match read(&self.socket, spare_capacity(self.lines.buffer())) {
            Ok(1..) | Err(Errno::INTR | Errno::AGAIN) => {}
            Ok(0) | Err(_) => self.has_ended = true,
        }
    }

    /// Writes what fits.
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

    /// Takes a line on its way.
    pub(crate) fn push(&mut self, line: Vec<u8>) {
        match self.is_deaf {
            true => self.unsent.push(line),
            false => self.out.push(line),
        }
    }

    /// The lines of which the server got nothing.
    pub(crate) fn take_unsent(&mut self) -> Vec<Vec<u8>> {
        let mut unsent = std::mem::take(&mut self.unsent);
        unsent.extend(self.out.take_whole());
        unsent
    }

    /// Says that nothing more will come.
    pub(crate) fn end(&mut self) {
        if !std::mem::replace(&mut self.is_deaf, true) {
            let _ = shutdown(&self.socket, Shutdown::Write);
        }
    }

    /// What to ask the system about it, if anything.
    pub(crate) fn poll(&self, reads: bool) -> Option<PollFd<'_>> {
        let mut wanted = PollFlags::empty();
        wanted.set(PollFlags::IN, reads && !self.has_ended);
        wanted.set(PollFlags::OUT, !self.out.is_empty());
        // One that is asked nothing would still say that it is closed, again and again.
        (!wanted.is_empty()).then(|| PollFd::new(&self.socket, wanted))
    }
}
