//! The state of hosts, for people and programs.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::limits::REASON_LETTERS;

/// The request that a fleet answers with the state of its hosts: `{ "hosts": [HostStatus, …] }`.
pub const STATUS: &str = "lmcp/hub/hosts";

/// Whether a host can be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum HostState {
    /// Nobody has tried yet.
    #[default]
    Unknown,
    /// A way to the host is open.
    Up,
    /// No way to the host is open.
    Down,
    /// The host is disabled in the configuration.
    Disabled,
}

/// The state of one host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct HostStatus {
    /// The name of the host in the configuration.
    pub host: String,
    /// Whether the host can be used.
    pub state: HostState,
    /// The time when the host entered this state, in seconds of Unix time.
    pub since: u64,
    /// The way that is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// The reasons why ways to the host are not open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The groups of the host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Only tools that change nothing are called on the host.
    #[serde(default)]
    pub read_only: bool,
}

/// Returns the beginning of a text of a host or a hub, on one line, because it is shown among lines about others.
pub(crate) fn one_line(words: &str) -> String {
    let is_break = |letter: char| letter.is_control() || "\u{2028}\u{2029}".contains(letter);
    let letters = words.chars().map(|letter| match is_break(letter) {
        true => ' ',
        false => letter,
    });
    let line: String = letters.take(REASON_LETTERS).collect();
    line.trim().to_owned()
}

/// Returns the current time, in seconds of Unix time.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_host_cannot_pass_for_a_line_about_another() {
        let said = one_line("no\r\ndb1: UP for 5 s\u{85}x\u{2028}y\u{1b}[2J\n");
        assert_eq!(said, "no  db1: UP for 5 s x y [2J");
        assert_eq!(
            one_line(&"é".repeat(1 << 20)).chars().count(),
            REASON_LETTERS
        );
    }
}
