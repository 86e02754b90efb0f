//! As many requests as may be without an answer. More than that are held back for as long as answers come, and refused
//! when none do: behind them may stand the very words that the server waits for.

use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Crowd {
    #[default]
    Loose,
    /// Answers come: another one until then.
    Full(Instant),
    /// None came.
    Stuck,
}

impl Crowd {
    /// So many there are now.
    pub(super) fn counts(&mut self, is_full: bool, now: Instant, patience: Duration) {
        *self = match (is_full, *self) {
            (false, _) => Self::Loose,
            (true, Self::Loose) => Self::Full(now + patience),
            (true, crowd) => crowd,
        };
    }

    /// One was answered.
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

    /// Is the next one to be held back?
    pub(super) fn holds_back(self) -> bool {
        matches!(self, Self::Full(_))
    }
}
