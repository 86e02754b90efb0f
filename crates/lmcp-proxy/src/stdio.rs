//! The client's end: stdin and stdout.
//!
//! The modes of both stay as they are, because other processes share them, and blocking would change for them, too. So both
//! are polled before use, and no more is written than is sure to be taken.

use std::time::{Duration, Instant};

use lmcp_wire::framing::{Frame, Framer};
use rustix::{
    buffer::spare_capacity,
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{FileType, fstat},
    io::{Errno, read, write},
    net::{SendFlags, send},
    stdio::{stderr, stdin, stdout},
};

use crate::{limits::Limits, outbox::Outbox};

pub(crate) struct Client {
    pub(crate) lines: Framer,
    pub(crate) out: Outbox,
    /// The client sends nothing more.
    pub(crate) has_ended: bool,
    /// The client has closed its end; its last bytes may not have been read yet.
    pub(crate) has_hung_up: bool,
    /// The time at which the client is given up, unless it reads: it sends nothing more, and bytes wait for it.
    pub(crate) stalls_at: Option<Instant>,
    /// The client does not read any more.
    pub(crate) is_gone: bool,
    /// Stdout is a socket, where single writes can be made without blocking.
    is_socket: bool,
}

impl Client {
    pub(crate) fn new(limits: &Limits) -> Self {
        let is_socket = fstat(stdout())
            .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Socket);
        Self {
            lines: Framer::new(limits.line_bytes),
            out: Outbox::default(),
            has_ended: false,
            has_hung_up: false,
            stalls_at: None,
            is_gone: false,
            is_socket,
        }
    }

    /// Reads the bytes that are there. Call it only when there are some.
    pub(crate) fn read(&mut self) {
        match read(stdin(), spare_capacity(self.lines.buffer())) {
            Ok(0) => self.has_ended = true,
            // Another process may have made stdin non-blocking.
            Ok(_) | Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => self.has_ended = true,
        }
    }

    /// Returns the next line, or the rest after the last line.
    pub(crate) fn next_frame(&mut self) -> Option<Frame> {
        let frame = self.lines.next_frame();
        if frame.is_none() && self.has_ended {
            return self.lines.last_frame();
        }
        frame
    }

    /// Takes the state of stdout. Returns whether something was written.
    pub(crate) fn on_output(&mut self, found: PollFlags) -> bool {
        let broken = PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL;
        if found.intersects(broken) {
            self.is_gone = true;
            return false;
        }
        let takes = found.contains(PollFlags::OUT);
        if takes {
            self.write();
            self.stalls_at = None;
        }
        takes
    }

    /// Starts the time in which a client that sends nothing more has to read.
    pub(crate) fn watch_reader(&mut self, is_over: bool, stall: Duration) {
        if !(is_over || self.is_leaving()) || self.out.is_empty() {
            self.stalls_at = None;
        } else if self.stalls_at.is_none() {
            self.stalls_at = Some(Instant::now() + stall);
        }
    }

    /// Returns whether that time is over.
    pub(crate) fn has_stalled(&self) -> bool {
        self.stalls_at.is_some_and(|at| at <= Instant::now())
    }

    /// Checks whether a writer is left, while stdin is not read.
    pub(crate) fn look_for_writer(&mut self) {
        self.has_hung_up |= !self.has_ended && is_ready(Self::hang_up());
    }

    /// Writes as much as fits. Call it only when something does.
    fn write(&mut self) {
        let bytes = self.out.front();
        let written = if self.is_socket {
            send(stdout(), bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)
        } else {
            // A pipe that takes anything takes at least this much.
            write(stdout(), bytes.get(..PIPE_BUF).unwrap_or(bytes))
        };
        match written {
            Ok(written) => self.out.advance(written),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => self.is_gone = true,
        }
    }

    /// Returns what to poll stdout for: always for the loss of its reader.
    pub(crate) fn output(&self) -> PollFd<'static> {
        let wanted = if self.out.is_empty() {
            PollFlags::empty()
        } else {
            PollFlags::OUT
        };
        PollFd::from_borrowed_fd(stdout(), wanted)
    }

    /// Returns what to poll stdin for.
    pub(crate) fn input() -> PollFd<'static> {
        PollFd::from_borrowed_fd(stdin(), PollFlags::IN)
    }

    /// Does the same while stdin is not read: polls only for the loss of its writer.
    pub(crate) fn hang_up() -> PollFd<'static> {
        PollFd::from_borrowed_fd(stdin(), PollFlags::RDHUP)
    }

    /// Returns whether the bytes that are left are the last ones.
    pub(crate) fn is_leaving(&self) -> bool {
        self.has_ended || self.has_hung_up
    }

    /// Returns the state of stdout at this moment.
    pub(crate) fn output_now(&self) -> PollFlags {
        let mut asked = [self.output()];
        let asks = poll(&mut asked, Some(&AT_ONCE));
        let [found] = asked;
        asks.map_or(PollFlags::empty(), |_| found.revents())
    }

    /// Returns whether there are bytes that can be written at this moment.
    pub(crate) fn can_write(&self) -> bool {
        !self.out.is_empty() && is_ready(self.output())
    }

    /// Returns whether there is more to read at this moment.
    pub(crate) fn has_more(&self) -> bool {
        !self.has_ended && is_ready(Self::input())
    }
}

/// Returns whether stderr takes words without blocking. Nobody has to read them.
pub(crate) fn takes_notes() -> bool {
    is_ready(PollFd::from_borrowed_fd(stderr(), PollFlags::OUT))
}

fn is_ready(descriptor: PollFd<'_>) -> bool {
    poll(&mut [descriptor], Some(&AT_ONCE)).is_ok_and(|ready| ready > 0)
}

const AT_ONCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// The constant of POSIX with this name, on Linux.
const PIPE_BUF: usize = 4096;
