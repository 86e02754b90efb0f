//! What waits to be written on one connection: whole lines in one buffer, taken by one writer.
//!
//! The buffer is bounded. When the peer does not read, the writer stands still, the buffer fills, and whoever has
//! something to say waits. While the peer does read, the writer takes all there is at once, so that a flood of small
//! messages costs few writes and few wake-ups.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::service::Reply;

/// Full at this size. A message is never torn, so one that is larger may stand in it alone.
const ENOUGH: usize = 64 << 10;

#[derive(Default)]
pub(crate) struct Outgoing {
    buffer: Mutex<Buffer>,
    /// For a writer that is a thread.
    filled: Condvar,
    /// For a writer that is a task.
    filled_async: Notify,
    /// There is room again, or the writer is gone.
    changed: Notify,
}

#[derive(Default)]
struct Buffer {
    lines: Vec<u8>,
    /// Nothing will be added.
    finished: bool,
    /// Nothing will be taken.
    gone: bool,
}

impl Outgoing {
    /// Adds a message, once there is room. Without a writer it goes nowhere.
    pub(crate) async fn send(&self, reply: Reply) {
        let json = reply.json();
        loop {
            let changed = self.changed.notified();
            if self.try_send(json) {
                return;
            }
            changed.await;
        }
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

    /// Does the peer not read?
    pub(crate) fn is_full(&self) -> bool {
        let buffer = self.lock();
        !buffer.gone && buffer.lines.len() >= ENOUGH
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

    /// Nothing more will be sent: the writer ends when it has written what there is.
    pub(crate) fn finish(&self) {
        self.lock().finished = true;
        self.wake_writer();
    }

    /// The writer is gone.
    pub(crate) fn abandon(&self) {
        *self.lock() = Buffer {
            gone: true,
            ..Buffer::default()
        };
        self.changed.notify_waiters();
    }

    /// All there is, for a writer that is a thread. `false` at the end.
    pub(crate) fn take_blocking(&self, lines: &mut Vec<u8>) -> bool {
        let mut buffer = self.lock();
        while buffer.lines.is_empty() && !buffer.finished {
            buffer = self
                .filled
                .wait(buffer)
                .unwrap_or_else(PoisonError::into_inner);
        }
        self.swap(buffer, lines)
    }

    /// All there is, for a writer that is a task. `false` at the end.
    pub(crate) async fn take(&self, lines: &mut Vec<u8>) -> bool {
        loop {
            let filled = self.filled_async.notified();
            {
                let buffer = self.lock();
                if !buffer.lines.is_empty() || buffer.finished {
                    return self.swap(buffer, lines);
                }
            }
            filled.await;
        }
    }

    fn try_send(&self, json: &[u8]) -> bool {
        let mut buffer = self.lock();
        if buffer.gone || buffer.finished {
            return true;
        }
        if buffer.lines.len() >= ENOUGH {
            return false;
        }
        let was_empty = buffer.lines.is_empty();
        buffer.lines.extend_from_slice(json);
        buffer.lines.push(b'\n');
        drop(buffer);
        if was_empty {
            self.wake_writer();
        }
        true
    }

    /// Gives the writer the full buffer for its empty one.
    fn swap(&self, mut buffer: MutexGuard<'_, Buffer>, lines: &mut Vec<u8>) -> bool {
        lines.clear();
        // A buffer that a large message has stretched is not kept.
        if lines.capacity() > 2 * ENOUGH {
            *lines = Vec::new();
        }
        std::mem::swap(&mut buffer.lines, lines);
        drop(buffer);
        self.changed.notify_waiters();
        !lines.is_empty()
    }

    fn wake_writer(&self) {
        self.filled.notify_one();
        self.filled_async.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Buffer> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
