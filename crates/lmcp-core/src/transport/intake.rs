//! Lines on their way in: cut out of what was read, and counted as memory of their caller as they grow.

use std::time::Duration;

use bytes::Bytes;
use lmcp_wire::framing::{self, Framer};

use crate::{
    budget::{Account, NoRoom, Reservation},
    limits::Limits,
};

/// Up to this size a line is not counted while it is read: its connection has a buffer of that size anyway.
const SMALL: usize = 16 << 10;

/// One line, or the news that there is none.
#[derive(Debug)]
pub(super) enum Frame {
    /// A line without its end; never blank.
    Line(Bytes),
    /// A line that went past the limit. The rest of it is skipped as it comes.
    TooLong,
    /// A line that callers left no memory for. The rest of it is skipped as it comes.
    NoRoom(NoRoom),
}

/// The unread end of a connection.
pub(super) struct Intake {
    framer: Framer,
    account: Account,
    /// How long a line waits for memory before it is skipped.
    wait: Duration,
    /// For the line that has not ended.
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

    /// Where to put what was read.
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        self.framer.buffer()
    }

    /// How many bytes may be read before the next look at what is reserved.
    pub(super) fn most(&self) -> u64 {
        let counted = SMALL.max(self.reserved());
        counted.saturating_sub(self.framer.unfinished()).max(1) as u64
    }

    /// The next line that is whole. A large one holds the memory that was reserved for it.
    pub(super) fn next_frame(&mut self) -> Option<Frame> {
        let frame = self.framer.next_frame();
        if frame.is_none() && self.framer.is_past_limit() {
            // It is told before it ends.
            self.framer.skip();
            self.reserved = None;
            return Some(Frame::TooLong);
        }
        frame.map(|frame| self.counted(frame))
    }

    /// The bytes of blank lines that came since the last line that was none.
    pub(super) fn blank_bytes(&self) -> usize {
        self.framer.blank_bytes()
    }

    /// Is another whole line there?
    pub(super) fn has_frame(&self) -> bool {
        self.framer.has_frame()
    }

    /// What stands after the last line end, when nothing more will come.
    pub(super) fn last_frame(&mut self) -> Option<Frame> {
        let frame = self.framer.last_frame()?;
        Some(self.counted(frame))
    }

    /// Has the unfinished line filled what is reserved for it?
    pub(super) fn needs_room(&self) -> bool {
        self.framer.unfinished() >= SMALL.max(self.reserved())
    }

    fn reserved(&self) -> usize {
        self.reserved.as_ref().map_or(0, Reservation::bytes)
    }

    /// Reserves memory for as much as there is of an unfinished line, rounded up. Where there is none, the line is
    /// skipped, and this says so; the connection goes on with the next.
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
                // What was read of the next line counts on.
                let rest = self.framer.unfinished();
                self.reserved = (rest > SMALL).then(|| self.account.take(rest));
                Frame::Line(reserved.hold(line))
            }
            Ok(line) => Frame::Line(line.into()),
            Err(_) => Frame::TooLong,
        }
    }
}
