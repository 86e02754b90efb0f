//! The state when the number of requests without an answer is at its limit. More requests are held back as long as answers
//! arrive, and refused when none do, because the lines behind them may hold an answer that the server waits for.

use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Crowd {
    #[default]
    Loose,
    /// Answers arrive: another one is expected before this time.
    Full(Instant),
    /// No answer arrived in time.
    Stuck,
}

impl Crowd {
    /// Updates the state for the current number of requests.
    pub(super) fn counts(&mut self, is_full: bool, now: Instant, patience: Duration) {
        *self = match (is_full, *self) {
            (false, _) => Self::Loose,
            (true, Self::Loose) => Self::Full(now + patience),
            (true, crowd) => crowd,
        };
    }

    /// Notes that a request was answered.
    pub(super) fn moves(&mut self) {
        *self = Self::Loose;
    }

    pub(super) fn time_is(&mut self, now: Instant) {
        if self.deadline().is_some_and(|until| until <= now) {
            *self = Self::Stuck;
        }
    }

    pub(super) fn deadline(self) -> Option<Instant> {
        match self {
            Self::Full(until) => Some(until),
            Self::Loose | Self::Stuck => None,
        }
    }

    /// Returns whether the next request is held back.
    pub(super) fn holds_back(self) -> bool {
        matches!(self, Self::Full(_))
    }
}
