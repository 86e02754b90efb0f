//! The client's end: stdin and stdout.
//!
//! Both stay as they are, because whether they block is a property they share with other processes. So they are asked
//! before they are used, and no more is written than is sure to be taken.

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
    /// Nothing more comes from it.
    pub(crate) has_ended: bool,
    /// It has said its last word, which may not have been read yet.
    pub(crate) has_hung_up: bool,
    /// When it is given up, unless it reads: it says nothing more, and there is something for it.
    pub(crate) stalls_at: Option<Instant>,
    /// It does not read any more.
    pub(crate) is_gone: bool,
    /// Stdout is a socket, which can be told not to wait.
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

    /// Reads what is there. To be called when something is.
    pub(crate) fn read(&mut self) {
        match read(stdin(), spare_capacity(self.lines.buffer())) {
            Ok(0) => self.has_ended = true,
            // Somebody else may have made it one that does not wait.
            Ok(_) | Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => self.has_ended = true,
        }
    }

    /// The next line, or the rest after the last.
    pub(crate) fn next_frame(&mut self) -> Option<Frame> {
        let frame = self.lines.next_frame();
        if frame.is_none() && self.has_ended {
            return self.lines.last_frame();
        }
        frame
    }

    /// What the system says of stdout. Was something written?
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

    /// Whoever says nothing more has a while to read what there is.
    pub(crate) fn watch_reader(&mut self, is_over: bool, stall: Duration) {
        if !(is_over || self.is_leaving()) || self.out.is_empty() {
            self.stalls_at = None;
        } else if self.stalls_at.is_none() {
            self.stalls_at = Some(Instant::now() + stall);
        }
    }

    /// Has it had its while?
    pub(crate) fn has_stalled(&self) -> bool {
        self.stalls_at.is_some_and(|at| at <= Instant::now())
    }

    /// Looks whether anybody is left to write, where nothing is read.
    pub(crate) fn look_for_writer(&mut self) {
        self.has_hung_up |= !self.has_ended && is_ready(Self::hang_up());
    }

    /// Writes what fits. To be called when something does.
    fn write(&mut self) {
        let bytes = self.out.front();
        let written = if self.is_socket {
            send(stdout(), bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)
        } else {
            // A pipe that takes anything takes this much.
            write(stdout(), bytes.get(..PIPE_BUF).unwrap_or(bytes))
        };
        match written {
            Ok(written) => self.out.advance(written),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => self.is_gone = true,
        }
    }

    /// What to ask the system about stdout: always whether somebody reads.
    pub(crate) fn output(&self) -> PollFd<'static> {
        let wanted = if self.out.is_empty() {
            PollFlags::empty()
        } else {
            PollFlags::OUT
        };
        PollFd::from_borrowed_fd(stdout(), wanted)
    }

    /// What to ask it about stdin.
    pub(crate) fn input() -> PollFd<'static> {
        PollFd::from_borrowed_fd(stdin(), PollFlags::IN)
    }

    /// The same while nothing is to be read from it: whether anybody is left to write.
    pub(crate) fn hang_up() -> PollFd<'static> {
        PollFd::from_borrowed_fd(stdin(), PollFlags::RDHUP)
    }

    /// Is what is left to be read the rest?
    pub(crate) fn is_leaving(&self) -> bool {
        self.has_ended || self.has_hung_up
    }

    /// How it is about stdout at this moment.
    pub(crate) fn output_now(&self) -> PollFlags {
        let mut asked = [self.output()];
        let asks = poll(&mut asked, Some(&AT_ONCE));
        let [found] = asked;
        asks.map_or(PollFlags::empty(), |_| found.revents())
    }

    /// Is there something to write that can be written at this moment?
    pub(crate) fn can_write(&self) -> bool {
        !self.out.is_empty() && is_ready(self.output())
    }

    /// Is there more to read at this moment?
    pub(crate) fn has_more(&self) -> bool {
        !self.has_ended && is_ready(Self::input())
    }
}

/// Would words on stderr hold us? Nobody has to read them.
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

/// What POSIX calls by that name, on Linux.
const PIPE_BUF: usize = 4096;
