//! The state of a hub's servers and hosts, for people.

use std::{
    convert::Infallible,
    fmt::Write as _,
    io::{IsTerminal as _, stdout},
    process::ExitCode,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use lmcp::{
    Client,
    hub::{STATUS, ServerState, ServerStatus, ToolChange},
    wire::{error::METHOD_NOT_FOUND, hidden::unhidden},
};
use lmcp_fleet::{HostState, HostStatus};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{FAILED, Output, no_answer};
use crate::report::Failure;

/// Asks a hub for the state of its servers, and of its hosts if it has some.
pub(super) async fn status(client: &Client) -> Result<Value, Failure> {
    let status = client.request(STATUS, json!({})).await;
    let mut status = status.map_err(|err| match err.code {
        METHOD_NOT_FOUND => Failure::of("the server is no hub").code(FAILED),
        _ => no_answer(err),
    })?;
    let mut told = json!({ "servers": status["servers"].take() });
    // A hub without hosts does not know this method. That is not an error.
    if let Ok(mut hosts) = client.request(lmcp_fleet::STATUS, json!({})).await
        && hosts["hosts"]
            .as_array()
            .is_some_and(|hosts| !hosts.is_empty())
    {
        told["hosts"] = hosts["hosts"].take();
    }
    Ok(told)
}

/// Asks a hub for the server that a tool belongs to by its name, and waits a little while that server starts. `false` means
/// that the server has started: a list of tools that is requested now has its tools.
///
/// # Errors
/// The reason why the server failed, or `unknown` if the name belongs to no server.
pub(super) async fn is_starting(
    client: &Client,
    tool: &str,
    unknown: Failure,
) -> Result<bool, Failure> {
    let Ok(status) = client.request(STATUS, json!({})).await else {
        return Err(unknown);
    };
    let servers: Vec<ServerStatus> =
        serde_json::from_value(status["servers"].clone()).unwrap_or_default();
    let is_its = |server: &&ServerStatus| {
        let rest = tool.strip_prefix(&*server.name);
        rest.is_some_and(|rest| rest.starts_with("__"))
    };
    let server = servers.iter().filter(is_its).max_by_key(|it| it.name.len());
    match server {
        Some(server) if server.state == ServerState::Starting => {
            sleep(SOON).await;
            Ok(true)
        }
        Some(server) if server.state == ServerState::Failed && server.tools == 0 => {
            let why = server.last_error.as_deref().unwrap_or("nobody knows why");
            let words = format!("server `{}` of the hub failed: {why}", server.name);
            Err(Failure::of(words).code(FAILED))
        }
        Some(server) if server.state == ServerState::Disabled => {
            let words = format!("server `{}` of the hub is disabled", server.name);
            Err(Failure::of(words).code(FAILED))
        }
        Some(_) => Ok(false),
        None => Err(unknown),
    }
}

/// Shows the state repeatedly, until a signal or an error ends that.
pub(super) async fn watch(client: &Client, mut output: Output) -> Result<ExitCode, Failure> {
    let is_drawn = output == Output::Text && stdout().is_terminal();
    let mut shown = Value::Null;
    let watched: Result<Infallible, Failure> = async {
        loop {
            let now = status(client).await?;
            match output {
                Output::Text if is_drawn => output.screen(&table(&now)?)?,
                _ if now == shown => {}
                Output::Text => output.line(&table(&now)?)?,
                Output::Json => output.json_line(&now)?,
            }
            shown = now;
            sleep(EVERY).await;
        }
    }
    .await;
    watched.map(|never| match never {})
}

/// Returns a line for each server, and its problems below; then the same for each host.
pub(super) fn table(status: &Value) -> Result<String, Failure> {
    let unread = |err| Failure::new("the hub's answer cannot be read", err);
    let servers: Vec<ServerStatus> =
        serde_json::from_value(status["servers"].clone()).map_err(unread)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_secs());
    let mut text = lines(&servers, now);
    if !status["hosts"].is_null() {
        let hosts: Vec<HostStatus> =
            serde_json::from_value(status["hosts"].clone()).map_err(unread)?;
        text = format!("{text}\n{}", host_lines(&hosts, now));
    }
    Ok(text)
}

fn host_lines(hosts: &[HostStatus], now: u64) -> String {
    let rows = hosts.iter().map(|host| {
        let state = match host.state {
            HostState::Up => "up",
            HostState::Down => "down",
            HostState::Disabled => "disabled",
            _ => "unknown",
        };
        [
            unhidden(&host.host),
            state.to_owned(),
            ago(now.saturating_sub(host.since)),
            host.via.as_deref().map_or("-".to_owned(), unhidden),
            match host.groups.is_empty() {
                true => "-".to_owned(),
                false => unhidden(&host.groups.join(",")),
            },
        ]
    });
    let head = ["HOST", "STATE", "FOR", "VIA", "GROUPS"].map(str::to_owned);
    let rows: Vec<_> = [head].into_iter().chain(rows).collect();
    let mut text = String::new();
    for (place, line) in aligned(&rows).into_iter().enumerate() {
        let _ = writeln!(text, "{line}");
        let host = place.checked_sub(1).and_then(|place| hosts.get(place));
        if let Some(reason) = host.and_then(|host| host.reason.as_ref()) {
            let _ = writeln!(text, "  {}", unhidden(reason));
        }
    }
    text
}

/// Turns rows into lines, with each column as wide as its widest cell.
fn aligned<const COLUMNS: usize>(rows: &[[String; COLUMNS]]) -> Vec<String> {
    let widths: [usize; COLUMNS] = std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or_default()
    });
    let line = |row: &[String; COLUMNS]| {
        let cells = row.iter().zip(widths);
        let line: String = cells
            .map(|(cell, width)| format!("{cell:width$}  "))
            .collect();
        line.trim_end().to_owned()
    };
    rows.iter().map(line).collect()
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
            server.changed.len().to_string(),
            server.calls.to_string(),
            time(server.p50_ms),
            time(server.p99_ms),
            server.restarts.to_string(),
        ]
    });
    let head = [
        "SERVER", "STATE", "FOR", "TOOLS", "CHANGED", "CALLS", "P50", "P99", "RESTARTS",
    ];
    let rows: Vec<_> = [head.map(str::to_owned)].into_iter().chain(rows).collect();
    let mut text = String::new();
    for (place, line) in aligned(&rows).into_iter().enumerate() {
        let _ = writeln!(text, "{line}");
        let Some(server) = place.checked_sub(1).and_then(|place| servers.get(place)) else {
            continue;
        };
        if let (Some(error), Some(at)) = (&server.last_error, server.last_error_at) {
            let when = ago(now.saturating_sub(at));
            let _ = writeln!(text, "  last error, {when} ago: {}", unhidden(error));
        }
        for note in &server.notes {
            let _ = writeln!(text, "  {}", unhidden(note));
        }
        if !server.changed.is_empty() {
            let _ = writeln!(text, "  {}", unhidden(&changed(server)));
        }
    }
    text
}

/// Names the changes of a server since the hub first saw it, and the command that approves them.
fn changed(server: &ServerStatus) -> String {
    let one = |change: &ToolChange| match (&change.tool, &change.parts[..]) {
        (None, _) => "instructions".to_owned(),
        (Some(tool), []) => format!("{tool} (new)"),
        (Some(tool), parts) => format!("{tool} ({})", parts.join(", ")),
    };
    let all: Vec<_> = server.changed.iter().map(one).collect();
    let held = match server.changed.iter().any(|change| change.held) {
        true => "not offered: changed",
        false => "changed",
    };
    let (all, name) = (all.join(", "), &server.name);
    format!("{held} since it was first seen: {all}; `lmcp hub approve {name}` approves")
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

/// The time between two requests to a watched hub.
const EVERY: Duration = Duration::from_secs(1);

/// The same time while one of the servers starts.
const SOON: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_host_has_a_line_and_the_reason_below() {
        let hosts = serde_json::from_value(json!([
            { "host": "db1", "state": "up", "since": 1000, "via": "ssh", "groups": ["eu", "db"] },
            { "host": "web", "state": "down", "since": 1990, "reason": "http: refused" },
        ]));
        let hosts: Vec<HostStatus> = hosts.unwrap();
        let expected = "\
HOST  STATE  FOR     VIA  GROUPS
db1   up     16 min  ssh  eu,db
web   down   10 s    -    -
  http: refused
";
        assert_eq!(host_lines(&hosts, 2000), expected);
    }

    #[test]
    fn words_of_servers_stay_on_their_line_and_hide_nothing() {
        let servers = serde_json::from_value(json!([
            { "name": "db", "state": "failed", "since": 0, "calls": 0, "running": 0, "restarts": 0, "tools": 0,
              "lastError": "a\nok  ready\u{202e}", "lastErrorAt": 0, "notes": ["`x\u{200b}` is left out"],
              "changed": [{ "tool": "read\x1b[2J", "parts": [], "held": false }] },
        ]));
        let servers: Vec<ServerStatus> = servers.unwrap();
        let text = lines(&servers, 0);
        let below: Vec<_> = text.lines().skip(2).collect();
        let expected = [
            r"  last error, 0 s ago: a\u{a}ok  ready\u{202e}",
            r"  `x\u{200b}` is left out",
            r"  changed since it was first seen: read\u{1b}[2J (new); `lmcp hub approve db` approves",
        ];
        assert_eq!(below, expected);
    }

    #[test]
    fn every_server_has_a_line_and_its_troubles_below() {
        let servers = serde_json::from_value(json!([
            { "name": "files", "state": "ready", "since": 1000, "calls": 12, "running": 0,
              "p50Ms": 1.25, "p99Ms": 80.0, "restarts": 0, "tools": 3,
              "notes": ["`x` is left out: its schema is none of an object"],
              "changed": [{ "tool": "read", "parts": ["description", "title"], "held": true },
                  { "tool": "new", "parts": [], "held": true }, { "parts": ["instructions"], "held": true }] },
            { "name": "db", "state": "failed", "since": 1990, "calls": 0, "running": 0,
              "restarts": 2, "tools": 0, "lastError": "it ended with exit status 3", "lastErrorAt": 1990 },
        ]));
        let servers: Vec<ServerStatus> = servers.unwrap();
        let text = lines(&servers, 2000);
        let expected = "\
SERVER  STATE   FOR     TOOLS  CHANGED  CALLS  P50     P99      RESTARTS
files   ready   16 min  3      3        12     1.2 ms  80.0 ms  0
  `x` is left out: its schema is none of an object
  not offered: changed since it was first seen: read (description, title), new (new), instructions; `lmcp hub approve files` approves
db      failed  10 s    0      0        0      -       -        2
  last error, 10 s ago: it ended with exit status 3
";
        assert_eq!(text, expected);
    }
}
