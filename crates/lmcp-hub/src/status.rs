//! The state of servers, for people and programs.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// The request that a hub answers with the state of its servers: `{ "servers": [ServerStatus, …] }`.
pub const STATUS: &str = "lmcp/hub/status";

/// The state of one server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ServerStatus {
    /// The name of the server in the configuration.
    pub name: String,
    /// Whether the server runs.
    pub state: ServerState,
    /// The time when the server entered this state, in seconds of Unix time.
    pub since: u64,
    /// The last error, with the end of the process and the last lines of its standard error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// The time of the last error, in seconds of Unix time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error_at: Option<u64>,
    /// The number of calls that have ended.
    pub calls: u64,
    /// The number of calls that run now.
    pub running: usize,
    /// The median duration of calls, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_ms: Option<f64>,
    /// The 99th percentile of the duration of calls, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_ms: Option<f64>,
    /// How often the server ran again after it was gone.
    pub restarts: u64,
    /// The number of its tools that are offered.
    pub tools: usize,
    /// Problems of its lists: tools that were left out, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The definitions that differ from what was first seen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<ToolChange>,
}

/// A definition of a server that differs from what was first seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolChange {
    /// The tool, by the name that the server has for it. None: the instructions of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The parts that differ: `description`, `inputSchema` and so on; empty for a new tool.
    pub parts: Vec<String>,
    /// The tool is not shown until somebody approves it.
    pub held: bool,
}

/// Whether a server runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ServerState {
    /// The server is disabled in the configuration.
    Disabled,
    /// Nobody needs the server.
    #[default]
    Stopped,
    /// The server is being started, or has not listed its items yet.
    Starting,
    /// The server runs.
    Ready,
    /// The server could not be reached, or was lost.
    Failed,
}

/// The events of a server so far.
#[derive(Debug)]
pub(crate) struct History {
    state: ServerState,
    since: u64,
    error: Option<(String, u64)>,
    calls: Durations,
}

impl Default for History {
    fn default() -> Self {
        Self {
            state: ServerState::Stopped,
            since: now(),
            error: None,
            calls: Durations::default(),
        }
    }
}

impl History {
    pub(crate) fn enter(&mut self, state: ServerState) {
        if self.state != state {
            self.state = state;
            self.since = now();
        }
    }

    pub(crate) fn failed(&mut self, words: &str) {
        self.error = Some((words.to_owned(), now()));
        self.enter(ServerState::Failed);
    }

    /// Notes an error that does not end the server.
    pub(crate) fn complained(&mut self, words: &str) {
        self.error = Some((words.to_owned(), now()));
    }

    pub(crate) fn called(&mut self, time: Duration) {
        self.calls.add(time);
    }

    pub(crate) fn status(&self, name: &str) -> ServerStatus {
        let milliseconds = |time: Duration| time.as_secs_f64() * 1000.0;
        ServerStatus {
            name: name.to_owned(),
            state: self.state,
            since: self.since,
            last_error: self.error.as_ref().map(|(words, _)| words.clone()),
            last_error_at: self.error.as_ref().map(|(_, at)| *at),
            calls: self.calls.count,
            p50_ms: self.calls.below(0.5).map(milliseconds),
            p99_ms: self.calls.below(0.99).map(milliseconds),
            ..ServerStatus::default()
        }
    }
}

/// The durations of calls, each to within a fifth: four steps to every doubling, from a microsecond to an hour.
#[derive(Debug)]
struct Durations {
    counts: [u32; STEPS],
    count: u64,
}

impl Default for Durations {
    fn default() -> Self {
        Self {
            counts: [0; STEPS],
            count: 0,
        }
    }
}

impl Durations {
    fn add(&mut self, time: Duration) {
        let microseconds = time.as_secs_f64() * 1e6;
        let step = (microseconds.max(1.0).log2() * 4.0).ceil() as usize;
        if let Some(count) = self.counts.get_mut(step.min(STEPS - 1)) {
            *count = count.saturating_add(1);
        }
        self.count += 1;
    }

    /// Returns the duration that this part of all calls did not exceed.
    fn below(&self, part: f64) -> Option<Duration> {
        let total: u64 = self.counts.iter().map(|count| u64::from(*count)).sum();
        let wanted = (total as f64 * part).ceil() as u64;
        let mut seen = 0;
        let step = self.counts.iter().position(|count| {
            seen += u64::from(*count);
            seen >= wanted && seen > 0
        })?;
        Some(Duration::from_secs_f64(2_f64.powf(step as f64 / 4.0) / 1e6))
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

const STEPS: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_and_nearly_all_of_the_calls_are_told_apart() {
        let mut history = History::default();
        assert_eq!(history.status("x").p50_ms, None);
        for time in 1..=1000_u64 {
            history.called(Duration::from_micros(time * 10));
        }
        let status = history.status("x");
        let (half, nearly) = (status.p50_ms.unwrap(), status.p99_ms.unwrap());
        assert!((4.9..6.5).contains(&half), "{half}");
        assert!((9.8..12.5).contains(&nearly), "{nearly}");
        assert_eq!(status.calls, 1000);
    }

    #[test]
    fn the_last_error_stays_to_be_read() {
        let mut history = History::default();
        history.failed("gone");
        history.enter(ServerState::Ready);
        let status = history.status("x");
        assert_eq!(status.state, ServerState::Ready);
        assert_eq!(status.last_error.as_deref(), Some("gone"));
    }
}
