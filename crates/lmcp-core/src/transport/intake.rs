//! Incoming lines: cut out of the bytes that were read, and counted as memory of their caller as they grow.

use std::time::Duration;

use bytes::Bytes;
use lmcp_wire::framing::{self, Framer};

use crate::{
    budget::{Account, NoRoom, Reservation},
    limits::Limits,
};

/// Up to this size a line is not counted while it is read: its connection has a buffer of that size anyway.
const SMALL: usize = 16 << 10;

/// One line, or the reason why there is none.
#[derive(Debug)]
pub(super) enum Frame {
    /// A line without its line end. It is never blank.
    Line(Bytes),
    /// A line that is longer than the limit. The rest of it is skipped as it comes.
    TooLong,
    /// A line for which callers left no memory. The rest of it is skipped as it comes.
    NoRoom(NoRoom),
}

/// The unread end of a connection.
pub(super) struct Intake {
    framer: Framer,
    account: Account,
    /// How long a line waits for memory before it is skipped.
    wait: Duration,
    /// The memory of the unfinished line.
    reserved: Option<Reservation>,
}

impl Intake {
    pub(super) fn new(framer: Framer, account: Account, limits: &Limits) -> Self {
        Self {
            framer,
            account,
            wait: limits.admission_wait,
            reserved: None,
        }
    }

    /// The buffer for the bytes that are read next.
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        self.framer.buffer()
    }

    /// The number of bytes that may be read before more memory must be reserved.
    pub(super) fn most(&self) -> u64 {
        let counted = SMALL.max(self.reserved());
        counted.saturating_sub(self.framer.unfinished()).max(1) as u64
    }

    /// Returns the next whole line. A large line holds the memory that was reserved for it.
    pub(super) fn next_frame(&mut self) -> Option<Frame> {
        let frame = self.framer.next_frame();
        if frame.is_none() && self.framer.is_past_limit() {
            // The limit is reported before the line ends.
            self.framer.skip();
            self.reserved = None;
            return Some(Frame::TooLong);
        }
        frame.map(|frame| self.counted(frame))
    }

    /// The number of bytes in blank lines since the last line that was not blank.
    pub(super) fn blank_bytes(&self) -> usize {
        self.framer.blank_bytes()
    }

    /// Whether another whole line is there.
    pub(super) fn has_frame(&self) -> bool {
        self.framer.has_frame()
    }

    /// Returns the text after the last line end, when no more bytes will come.
    pub(super) fn last_frame(&mut self) -> Option<Frame> {
        let frame = self.framer.last_frame()?;
        Some(self.counted(frame))
    }

    /// Whether the unfinished line fills the memory that is reserved for it.
    pub(super) fn needs_room(&self) -> bool {
        self.framer.unfinished() >= SMALL.max(self.reserved())
    }

    fn reserved(&self) -> usize {
        self.reserved.as_ref().map_or(0, Reservation::bytes)
    }

    /// Reserves memory for the present length of an unfinished line, rounded up. If there is no memory, the line is skipped,
    /// and the returned frame says so; the connection goes on with the next line.
    pub(super) async fn make_room(&mut self) -> Option<Frame> {
        if !self.needs_room() {
            return None;
        }
        let more = (self.framer.unfinished() + 1).next_power_of_two() - self.reserved();
        let account = &self.account;
        let reserved = self.reserved.get_or_insert_with(|| account.take(0));
        match reserved.grow_within(more, self.wait).await {
            Ok(()) => None,
            Err(no_room) => Some(self.refuse(no_room)),
        }
    }

    fn refuse(&mut self, no_room: NoRoom) -> Frame {
        self.framer.skip();
        self.reserved = None;
        Frame::NoRoom(no_room)
    }

    fn counted(&mut self, frame: framing::Frame) -> Frame {
        let reserved = self.reserved.take();
        match frame {
            Ok(line) if line.len() > SMALL => {
                let mut reserved = reserved.unwrap_or_else(|| self.account.take(line.len()));
                reserved.shrink_to(line.len());
                // The bytes of the next line that were read already stay counted.
                let rest = self.framer.unfinished();
                self.reserved = (rest > SMALL).then(|| self.account.take(rest));
                Frame::Line(reserved.hold(line))
            }
            Ok(line) => Frame::Line(line.into()),
            Err(_) => Frame::TooLong,
        }
    }
}
