//! Reports a frequent event only once in a while.

use std::time::{Duration, Instant};

/// The time between two reports.
const QUIET: Duration = Duration::from_secs(5);

/// Counts events, and reports their number now and then, so that a flood does not fill a log.
#[derive(Debug, Default)]
pub struct Throttle {
    since: Option<Instant>,
    times: u64,
}

impl Throttle {
    /// Counts one event. If a report is due, returns the number of events since the last report.
    pub fn count(&mut self) -> Option<u64> {
        self.times += 1;
        if self.since.is_some_and(|since| since.elapsed() < QUIET) {
            return None;
        }
        self.since = Some(Instant::now());
        Some(std::mem::take(&mut self.times))
    }

    /// Logs that a connection cannot be accepted. Most likely the process is out of descriptors: other connections will free some.
    pub fn cannot_accept(&mut self, err: &std::io::Error) {
        if let Some(times) = self.count() {
            tracing::warn!(times, "cannot accept a connection: {err}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_all_the_time_is_said_once_in_a_while() {
        let mut throttle = Throttle::default();
        assert_eq!(throttle.count(), Some(1));
        for _ in 0..1000 {
            assert_eq!(throttle.count(), None);
        }
        throttle.since = Instant::now().checked_sub(QUIET);
        assert_eq!(throttle.count(), Some(1001));
    }
}
