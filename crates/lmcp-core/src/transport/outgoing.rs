//! The outgoing lines of one connection: whole lines in one buffer, taken by one writer.
//!
//! The buffer is bounded. If the peer does not read, the writer stands still, the buffer fills, and senders wait. While the
//! peer reads, the writer takes all lines at once, so that a flood of small messages costs few writes and few wake-ups.

use std::{
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use tokio::sync::Notify;

use super::batch::Collected;
use crate::{
    budget::{Account, Reservation},
    message::Message,
};

/// The number of bytes that a pipe takes in one piece or not at all.
const AT_ONCE: usize = 4096;

/// A task that waits for something to write keeps a buffer of at most this size: most answers fit into it, lists do not.
const KEPT: usize = 1024;

/// From this size on, lines are not held back any longer.
const WORTH_A_WRITE: usize = 16 << 10;

pub(crate) struct Outgoing {
    /// The buffer is full at this size. A message is never torn, so a larger one may be in the buffer alone.
    enough: usize,
    /// Writes past the writer if that certainly does not block.
    direct: Option<Direct>,
    /// Starts the writer when it is first needed.
    starter: Mutex<Option<Starter>>,
    buffer: Mutex<Buffer>,
    /// The account of the caller, for the memory of the lines in the buffer and with the writer.
    account: Account,
    /// Notified for a writer that is a thread.
    filled: Condvar,
    /// Notified for a writer that is a task.
    filled_async: Notify,
    /// Notified when there is room again, or the writer is gone.
    changed: Notify,
    /// The number of writes that succeeded.
    writes: AtomicU64,
}

/// Writes as much as it can without waiting, and returns the number of bytes.
pub(crate) type Direct = Box<dyn Fn(&[u8]) -> usize + Send + Sync>;
pub(crate) type Starter = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Buffer {
    lines: Vec<u8>,
    /// The memory of the lines, if they are long.
    counted: Option<Reservation>,
    /// The memory of the lines that the writer has taken.
    written: Option<Reservation>,
    /// The writer has taken lines and is not back yet.
    writing: bool,
    /// More lines will come at once.
    corked: bool,
    /// No more lines will be added.
    finished: bool,
    /// No more lines will be taken.
    gone: bool,
    /// The waker of a writer that is polled.
    waker: Option<Waker>,
}

impl Outgoing {
    /// Makes the buffer for a writer that already runs.
    pub(crate) fn new(enough: usize, account: Account) -> Self {
        Self {
            enough,
            account,
            direct: None,
            starter: Mutex::default(),
            buffer: Mutex::default(),
            filled: Condvar::new(),
            filled_async: Notify::new(),
            changed: Notify::new(),
            writes: AtomicU64::new(0),
        }
    }

    /// Makes a buffer that can write past the writer. The writer is started only when a line has to wait.
    pub(crate) fn with_direct(
        enough: usize,
        account: Account,
        direct: Direct,
        starter: Starter,
    ) -> Self {
        let starter = Mutex::new(Some(starter));
        Self {
            direct: Some(direct),
            starter,
            ..Self::new(enough, account)
        }
    }

    /// Adds a message, and waits for room. If the writer is gone, the message is dropped.
    pub(crate) async fn send(&self, message: Message) {
        let json = message.json();
        loop {
            let changed = self.changed.notified();
            if self.try_send(json) {
                return;
            }
            changed.await;
        }
    }

    /// Adds the answers to a batch as one line, and waits for room.
    pub(crate) async fn send_batch(&self, mut answers: Collected) {
        if answers.is_empty() {
            return;
        }
        loop {
            let changed = self.changed.notified();
            if self.try_send_batch(&mut answers) {
                return;
            }
            changed.await;
        }
    }

    /// Holds back short answers while more requests are waiting to be read, so that many go out in one write.
    pub(crate) fn cork(&self) {
        self.lock().corked = true;
    }

    /// Sends the answers that were held back.
    pub(crate) fn uncork(&self) {
        let mut buffer = self.lock();
        buffer.corked = false;
        self.push(buffer);
    }

    /// Waits for room.
    pub(crate) async fn room(&self) {
        loop {
            let changed = self.changed.notified();
            if !self.is_full() {
                return;
            }
            changed.await;
        }
    }

    /// Notes that the writer has written something.
    pub(crate) fn progressed(&self) {
        self.writes.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until nothing has been written for this long although lines are waiting. Only for a writer that is a thread: this
    /// uses the notification for a writer that is a task.
    pub(crate) async fn stalled(&self, wait: Duration) {
        loop {
            while !self.is_waiting() {
                self.filled_async.notified().await;
            }
            let before = self.writes.load(Ordering::Relaxed);
            tokio::time::sleep(wait).await;
            if self.is_waiting() && self.writes.load(Ordering::Relaxed) == before {
                return;
            }
        }
    }

    /// Whether lines are waiting that the peer has not taken yet.
    pub(crate) fn is_waiting(&self) -> bool {
        let buffer = self.lock();
        !buffer.gone && (buffer.writing || !buffer.lines.is_empty())
    }

    /// Waits until the peer has taken everything, or the writer is gone.
    pub(crate) async fn taken(&self) {
        loop {
            let changed = self.changed.notified();
            if !self.is_waiting() {
                return;
            }
            changed.await;
        }
    }

    /// Whether the buffer is full because the peer does not read.
    pub(crate) fn is_full(&self) -> bool {
        let buffer = self.lock();
        !buffer.gone && buffer.lines.len() >= self.enough
    }

    /// Waits until the writer is gone.
    pub(crate) async fn gone(&self) {
        loop {
            let changed = self.changed.notified();
            if self.lock().gone {
                return;
            }
            changed.await;
        }
    }

    /// Ends the input: no more lines will be sent, and the writer ends when it has written the rest.
    pub(crate) fn finish(&self) {
        self.lock().finished = true;
        // A writer that was never needed is not started for this.
        drop(
            self.starter
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
        self.wake_writer();
    }

    /// Notes that the writer is gone, and drops all lines.
    pub(crate) fn abandon(&self) {
        let abandoned = Buffer {
            gone: true,
            ..Buffer::default()
        };
        let before = std::mem::replace(&mut *self.lock(), abandoned);
        if let Some(waker) = before.waker {
            waker.wake();
        }
        self.changed.notify_waiters();
    }

    /// Takes all lines, for a writer that is a thread. `false` at the end.
    pub(crate) fn take_blocking(&self, lines: &mut Vec<u8>) -> bool {
        let mut buffer = self.lock();
        buffer.written = None;
        if std::mem::take(&mut buffer.writing) && buffer.lines.is_empty() {
            self.changed.notify_waiters();
        }
        while buffer.lines.is_empty() && !buffer.finished {
            buffer = self
                .filled
                .wait(buffer)
                .unwrap_or_else(PoisonError::into_inner);
        }
        self.swap(buffer, lines)
    }

    /// Takes all lines, for a writer that is a task. `false` at the end.
    pub(crate) async fn take(&self, lines: &mut Vec<u8>) -> bool {
        loop {
            let filled = self.filled_async.notified();
            {
                let mut buffer = self.lock();
                let wrote = std::mem::take(&mut buffer.writing);
                buffer.written = None;
                if !buffer.lines.is_empty() || buffer.finished {
                    return self.swap(buffer, lines);
                }
                if wrote {
                    self.changed.notify_waiters();
                }
            }
            if lines.capacity() > KEPT {
                *lines = Vec::new();
            }
            filled.await;
        }
    }

    /// Takes all lines, for a writer that is polled. The lines count as memory until their last slice is dropped. `None` at the
    /// end.
    pub(crate) fn poll_take(&self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let mut buffer = self.lock();
        let wrote = std::mem::take(&mut buffer.writing);
        if buffer.lines.is_empty() {
            let ended = buffer.finished || buffer.gone;
            buffer.waker = Some(cx.waker().clone());
            drop(buffer);
            if wrote {
                self.changed.notify_waiters();
            }
            return if ended {
                Poll::Ready(None)
            } else {
                Poll::Pending
            };
        }
        let lines = std::mem::take(&mut buffer.lines);
        let counted = buffer.counted.take();
        buffer.writing = true;
        drop(buffer);
        self.changed.notify_waiters();
        Poll::Ready(Some(match counted {
            Some(counted) => counted.hold(lines),
            None => lines.into(),
        }))
    }

    fn try_send(&self, json: &[u8]) -> bool {
        self.try_write(|lines| {
            // A long message gets just its room: with that of the next doubling, it would count twice.
            if json.len() > AT_ONCE {
                lines.reserve_exact(json.len() + 1);
            }
            lines.extend_from_slice(json);
        })
    }

    fn try_send_batch(&self, answers: &mut Collected) -> bool {
        self.try_write(|lines| answers.write(lines))
    }

    /// Adds a line, if there is room.
    fn try_write(&self, write: impl FnOnce(&mut Vec<u8>)) -> bool {
        let mut buffer = self.lock();
        if buffer.gone || buffer.finished {
            return true;
        }
        if buffer.lines.len() >= self.enough {
            return false;
        }
        write(&mut buffer.lines);
        buffer.lines.push(b'\n');
        if buffer.lines.len() > AT_ONCE {
            buffer.counted = Some(self.account.take(buffer.lines.capacity()));
        }
        let more_will_come = buffer.corked && buffer.lines.len() < WORTH_A_WRITE;
        if !more_will_come {
            self.push(buffer);
        }
        true
    }

    /// Writes the lines, or wakes the writer.
    fn push(&self, mut buffer: MutexGuard<'_, Buffer>) {
        // A writer that is at work takes the lines when it comes back.
        if buffer.lines.is_empty() || buffer.writing || self.write_directly(&mut buffer.lines) {
            return;
        }
        drop(buffer);
        self.wake_writer();
    }

    /// Writes the lines without the writer. `false`: some are left for the writer.
    fn write_directly(&self, lines: &mut Vec<u8>) -> bool {
        let Some(direct) = self.direct.as_ref().filter(|_| lines.len() <= AT_ONCE) else {
            return false;
        };
        let written = direct(lines);
        lines.drain(..written);
        lines.is_empty()
    }

    /// Exchanges the full buffer and the writer's empty one.
    fn swap(&self, mut buffer: MutexGuard<'_, Buffer>, lines: &mut Vec<u8>) -> bool {
        lines.clear();
        // A buffer that a large message has stretched is not kept.
        if lines.capacity() > 2 * self.enough {
            *lines = Vec::new();
        }
        std::mem::swap(&mut buffer.lines, lines);
        buffer.written = buffer.counted.take();
        buffer.writing = true;
        drop(buffer);
        self.changed.notify_waiters();
        !lines.is_empty()
    }

    fn wake_writer(&self) {
        let starter = self
            .starter
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(start) = starter {
            start();
        }
        self.filled.notify_one();
        self.filled_async.notify_one();
        let waker = self.lock().waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Buffer> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
