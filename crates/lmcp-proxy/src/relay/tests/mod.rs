//! The state machine, as scripts.
//!
//! A script names the events and the expected actions, one on each line:
//!
//! ```text
//! client JSON · server JSON          somebody writes a line
//! attached · lost · missing WHY      what becomes of the server
//! refused WHY · eof · after SECONDS
//! to client JSON · to server JSON    what is sent; other members than these may stand in it, and `…` is any rest of a text
//! detach · turned-away · done ENDING
//! ```
//!
//! Codes of errors have their names in `lmcp_wire::error`. An action that is not expected is a failure, too.

mod batches;
mod bounds;
mod ending;
mod handshake;
mod listening;
mod losing;
mod passing;
mod questions;
mod random;

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use lmcp_wire::{RpcError, error};
use serde_json::Value;

use super::{Output, Relay, ids::Ids};
use crate::limits::Limits;

/// The handshake that most scripts begin with.
const OPENED: &str = r#"
    client {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"roots":{}},"clientInfo":{"name":"c","version":"1"}}}
    attached
    to server {"id":0,"method":"initialize"}
    server {"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"prompts":{"listChanged":null},"resources":{"listChanged":true,"subscribe":true}},"serverInfo":{"name":"s","version":"1"}}}
    to client {"id":0,"result":{"protocolVersion":"2025-06-18"}}
    client {"jsonrpc":"2.0","method":"notifications/initialized"}
    to server {"method":"notifications/initialized"}
"#;

/// The next server accepts the handshake. Its lists may differ from those of the first.
const OPENED_AGAIN: &str = r#"
    attached
    to server {"id":"lmcp-proxy-2-2","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"roots":{}},"clientInfo":{"name":"c","version":"1"}}}
    server {"jsonrpc":"2.0","id":"lmcp-proxy-2-2","result":{"protocolVersion":"2025-06-18","capabilities":{}}}
    to server {"method":"notifications/initialized"}
    to client {"method":"notifications/tools/list_changed"}
    to client {"method":"notifications/resources/list_changed"}
"#;

/// Returns a relay with predictable ids.
fn relay(limits: Limits) -> Relay {
    Relay::with_ids(Ids::beginning_with("lmcp-proxy-".to_owned()), limits)
}

struct Play {
    relay: Relay,
    now: Instant,
    to_client: VecDeque<String>,
    to_server: VecDeque<String>,
    control: VecDeque<String>,
}

fn play(script: &str) -> Play {
    let mut play = Play::new(Limits::default());
    play.go(script);
    play
}

impl Play {
    fn new(limits: Limits) -> Self {
        Self {
            relay: relay(limits),
            now: Instant::now(),
            to_client: VecDeque::new(),
            to_server: VecDeque::new(),
            control: VecDeque::new(),
        }
    }

    fn go(&mut self, script: &str) -> &mut Self {
        for line in script
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
        {
            let line = &*with_codes(line);
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            match (word, rest.split_once(' ')) {
                ("to", Some(("client", wanted))) => expect(self.to_client.pop_front(), wanted),
                ("to", Some(("server", wanted))) => expect(self.to_server.pop_front(), wanted),
                ("detach" | "done" | "turned-away", _) => {
                    assert_eq!(self.control.pop_front().as_deref(), Some(line));
                }
                _ => {
                    self.expect_nothing(line);
                    self.happen(word, rest);
                    self.collect();
                }
            }
        }
        self.expect_nothing("the end");
        self
    }

    fn happen(&mut self, word: &str, rest: &str) {
        let now = self.now;
        match word {
            "client" => self.relay.client_line(rest.into(), now),
            "server" => self.relay.server_line(rest.into(), now),
            "attached" => self.relay.server_attached(now),
            "lost" => self.relay.server_lost(now),
            "missing" => self.relay.server_unreachable(rest),
            "refused" => {
                let error = RpcError::invalid_request(rest.to_owned());
                self.relay.server_refused(error);
            }
            "eof" => self.relay.client_eof(),
            "after" => {
                self.now += Duration::from_secs(rest.parse().unwrap());
                // Nothing may happen at a time that the relay did not announce.
                if self
                    .relay
                    .deadline()
                    .is_some_and(|deadline| deadline <= self.now)
                {
                    self.relay.time_is(self.now);
                }
            }
            _ => panic!("`{word}` is no word of a script"),
        }
    }

    /// The server writes a line that is too long, of which `head` and `tail` are the two ends.
    fn server_long_line(&mut self, head: &str, tail: &str) {
        let (head, tail) = (head.as_bytes(), tail.as_bytes());
        self.relay.server_long_line(head, tail, self.now);
        self.collect();
    }

    fn collect(&mut self) {
        let text = |line: Vec<u8>| String::from_utf8(line).unwrap();
        while let Some(output) = self.relay.next_output() {
            match output {
                Output::ToClient(line) => self.to_client.push_back(text(line)),
                Output::ToServer(line) => self.to_server.push_back(text(line)),
                Output::Remark(_) => self.control.push_back("remark".to_owned()),
                Output::Detach => self.control.push_back("detach".to_owned()),
                Output::TurnedAway => self.control.push_back("turned-away".to_owned()),
                Output::Done(ending) => self.control.push_back(format!("done {ending:?}")),
            }
        }
    }

    fn expect_nothing(&self, before: &str) {
        let left: Vec<_> = [&self.to_client, &self.to_server, &self.control]
            .into_iter()
            .flatten()
            .collect();
        assert!(left.is_empty(), "not expected before `{before}`: {left:#?}");
    }
}

/// Replaces the names of error codes in a line by numbers.
fn with_codes(line: &str) -> String {
    let codes = [
        ("PARSE_ERROR", error::PARSE_ERROR),
        ("INVALID_REQUEST", error::INVALID_REQUEST),
        ("INVALID_PARAMS", error::INVALID_PARAMS),
        ("INTERNAL_ERROR", error::INTERNAL_ERROR),
        ("RESOURCE_NOT_FOUND", error::RESOURCE_NOT_FOUND),
    ];
    let put = |line: String, (name, code): (&str, i64)| line.replace(name, &code.to_string());
    codes.into_iter().fold(line.to_owned(), put)
}

fn expect(found: Option<String>, wanted: &str) {
    let found = found.unwrap_or_else(|| panic!("nothing was sent instead of {wanted}"));
    let Ok(value) = serde_json::from_str::<Value>(wanted) else {
        assert_eq!(found, wanted);
        return;
    };
    let said: Value = serde_json::from_str(&found).unwrap();
    assert!(fits(&value, &said), "wanted {wanted}\nfound  {found}");
}

fn fits(wanted: &Value, found: &Value) -> bool {
    match (wanted, found) {
        (Value::Object(wanted), Value::Object(found)) => wanted
            .iter()
            .all(|(name, value)| found.get(name).is_some_and(|found| fits(value, found))),
        (Value::Array(wanted), Value::Array(found)) => {
            wanted.len() == found.len() && wanted.iter().zip(found).all(|(a, b)| fits(a, b))
        }
        (Value::String(wanted), Value::String(found)) => match wanted.strip_suffix('…') {
            Some(beginning) => found.starts_with(beginning),
            None => wanted == found,
        },
        _ => wanted == found,
    }
}
