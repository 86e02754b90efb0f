//! How the servers of a hub are, for people.

use std::{
    fmt::Write as _,
    time::{SystemTime, UNIX_EPOCH},
};

use lmcp::hub::{ServerState, ServerStatus};

/// A line for each server, and below it what is wrong with it.
pub(super) fn table(servers: &[ServerStatus]) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    lines(servers, now.map_or(0, |now| now.as_secs()))
}

fn lines(servers: &[ServerStatus], now: u64) -> String {
    if servers.is_empty() {
        return "the hub has no servers".to_owned();
    }
    let rows = servers.iter().map(|server| {
        let time = |milliseconds: Option<f64>| match milliseconds {
            Some(time) => format!("{time:.1} ms"),
            None => "-".to_owned(),
        };
        [
            server.name.clone(),
            state(server.state).to_owned(),
            ago(now.saturating_sub(server.since)),
            server.tools.to_string(),
            server.calls.to_string(),
            time(server.p50_ms),
            time(server.p99_ms),
            server.restarts.to_string(),
        ]
    });
    let head = [
        "SERVER", "STATE", "FOR", "TOOLS", "CALLS", "P50", "P99", "RESTARTS",
    ];
    let rows: Vec<_> = [head.map(str::to_owned)].into_iter().chain(rows).collect();
    let widths: [usize; 8] = std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or_default()
    });
    let mut text = String::new();
    for (place, row) in rows.iter().enumerate() {
        let cells = row.iter().zip(widths);
        let line: String = cells
            .map(|(cell, width)| format!("{cell:width$}  "))
            .collect();
        let _ = writeln!(text, "{}", line.trim_end());
        let Some(server) = place.checked_sub(1).and_then(|place| servers.get(place)) else {
            continue;
        };
        if let (Some(error), Some(at)) = (&server.last_error, server.last_error_at) {
            let when = ago(now.saturating_sub(at));
            let _ = writeln!(text, "  last error, {when} ago: {error}");
        }
        for note in &server.notes {
            let _ = writeln!(text, "  {note}");
        }
    }
    text
}

fn state(state: ServerState) -> &'static str {
    match state {
        ServerState::Disabled => "disabled",
        ServerState::Stopped => "stopped",
        ServerState::Starting => "starting",
        ServerState::Ready => "ready",
        ServerState::Failed => "failed",
        _ => "?",
    }
}

fn ago(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_server_has_a_line_and_its_troubles_below() {
        let servers = serde_json::from_value(serde_json::json!([
            { "name": "files", "state": "ready", "since": 1000, "calls": 12, "running": 0,
              "p50Ms": 1.25, "p99Ms": 80.0, "restarts": 0, "tools": 3 },
            { "name": "db", "state": "failed", "since": 1990, "calls": 0, "running": 0,
              "restarts": 2, "tools": 0, "lastError": "it ended with exit status 3", "lastErrorAt": 1990 },
        ]));
        let servers: Vec<ServerStatus> = servers.unwrap();
        let text = lines(&servers, 2000);
        let expected = "\
SERVER  STATE   FOR     TOOLS  CALLS  P50     P99      RESTARTS
files   ready   16 min  3      12     1.2 ms  80.0 ms  0
db      failed  10 s    0      0      -       -        2
  last error, 10 s ago: it ended with exit status 3
";
        assert_eq!(text, expected);
    }
}
