//! The messages of a handler before it is done: progress and log messages that wait to be sent.
//!
//! An outbox without messages allocates nothing. Progress is merged: only the latest report is kept. Log messages beyond the
//! bound are dropped and counted, and the next log message that fits is preceded by their number.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    task::Waker,
};

use lmcp_wire::logging::{LoggingLevel, LoggingMessageParams};
use tokio::time::Instant;

use crate::{
    limits::Limits,
    reply::{ProgressReport, Reply},
};

#[derive(Default)]
pub(crate) struct Outbox(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    messages: VecDeque<Reply>,
    dropped: Option<Dropped>,
    /// Progress that is not sent yet.
    progress: Option<ProgressReport>,
    /// The last value that was reported: progress only grows.
    highest: Option<f64>,
    /// The next progress is not sent before this time.
    quiet_until: Option<Instant>,
    waker: Option<Waker>,
    /// The response was sent: nothing may follow it.
    closed: bool,
}

/// Log messages that were dropped.
struct Dropped {
    count: u64,
    /// The level of the most serious one.
    level: LoggingLevel,
}

/// The new value of progress.
#[derive(Clone, Copy)]
pub(crate) enum Step {
    Next,
    /// Not sent if the value is not above the last one: progress only grows.
    To(f64),
}

/// The next reply of the outbox for the reply stream.
pub(crate) enum Next {
    Reply(Reply),
    /// Progress waits for its time.
    At(Instant),
    Nothing,
}

impl Outbox {
    /// Reports progress. The value is computed under the lock, so that no step is lost between two threads.
    pub(crate) fn progress(&self, step: Step, report: impl FnOnce(f64) -> ProgressReport) {
        let mut inner = self.lock();
        let value = match (step, inner.highest) {
            (Step::Next, None) => 1.0,
            (Step::Next, Some(highest)) => highest + 1.0,
            (Step::To(value), Some(highest)) if value <= highest => return,
            (Step::To(value), _) => value,
        };
        if inner.closed {
            return;
        }
        inner.highest = Some(value);
        inner.progress = Some(report(value));
        inner.wake();
    }

    pub(crate) fn log(&self, params: LoggingMessageParams, limits: &Limits) {
        let mut inner = self.lock();
        if inner.closed {
            return;
        }
        if inner.messages.len() >= limits.queue {
            let (count, level) = match &inner.dropped {
                Some(dropped) => (dropped.count, dropped.level.max(params.level)),
                None => (0, params.level),
            };
            inner.dropped = Some(Dropped {
                count: count + 1,
                level,
            });
            return;
        }
        if let Some(dropped) = inner.dropped.take() {
            inner.messages.push_back(Reply::Log(dropped.note()));
        }
        inner.messages.push_back(Reply::Log(params));
        inner.wake();
    }

    /// Adds a reply that is neither merged nor dropped. The limit on questions also limits these.
    pub(crate) fn push(&self, reply: Reply) {
        let mut inner = self.lock();
        if !inner.closed {
            inner.messages.push_back(reply);
            inner.wake();
        }
    }

    /// Returns the reply that may be sent now. Progress that came too soon after the last report waits, unless this is the last
    /// chance.
    pub(crate) fn next(&self, limits: &Limits, last_chance: bool) -> Next {
        let mut inner = self.lock();
        if let Some(message) = inner.messages.pop_front() {
            return Next::Reply(message);
        }
        if last_chance && let Some(dropped) = inner.dropped.take() {
            return Next::Reply(Reply::Log(dropped.note()));
        }
        let Some(report) = inner.progress.take() else {
            return Next::Nothing;
        };
        let now = Instant::now();
        match inner.quiet_until {
            Some(until) if until > now && !last_chance => {
                inner.progress = Some(report);
                Next::At(until)
            }
            _ => {
                // An interval that is too long for the clock: one report is sent, and then none.
                let until = now.checked_add(limits.progress_interval);
                inner.quiet_until = until.or(Some(now + limits.deadline));
                Next::Reply(Reply::Progress(report))
            }
        }
    }

    /// Stores the waker of the reply stream. It is woken when a reply is added from elsewhere.
    pub(crate) fn register(&self, waker: &Waker) {
        let mut inner = self.lock();
        if !inner
            .waker
            .as_ref()
            .is_some_and(|known| known.will_wake(waker))
        {
            inner.waker = Some(waker.clone());
        }
    }

    pub(crate) fn close(&self) {
        *self.lock() = Inner {
            closed: true,
            ..Inner::default()
        };
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Dropped {
    /// Makes the log message about the dropped ones. The client wants messages of their level, so it gets this one, too.
    fn note(&self) -> LoggingMessageParams {
        let count = self.count;
        let words = format!("{count} log messages were dropped here: the client reads too slowly");
        LoggingMessageParams::new(self.level.max(LoggingLevel::Warning), words.into())
    }
}

impl Inner {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}
