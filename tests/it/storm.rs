//! Messages of real clients in any order, twice, cut, bent, and with garbage between: no line ends a connection, every
//! request is answered exactly once, and nothing else is.
//!
//! The rounds follow from their numbers, so one that fails fails again.

use std::{collections::BTreeMap, fs};

use serde_json::Value;

use crate::{
    expand::{self, Captures},
    link::server,
    transcript::{Act, Transcript},
};

#[tokio::test]
async fn no_order_of_messages_ends_a_connection() {
    let (server, lines) = (server::start().expect("the fixture is right"), corpus());
    for number in 0..ROUNDS {
        let round = Round::new(&lines, number);
        if let Err(err) = round.play(&server).await {
            let sent: Vec<_> = round.0.iter().map(|line| shown(line)).collect();
            panic!("round {number}: {err}\n{}", sent.join("\n"));
        }
    }
}

const ROUNDS: u64 = 10_000;

/// Lines of one connection, without their ends.
struct Round(Vec<Vec<u8>>);

impl Round {
    fn new(corpus: &[Vec<u8>], number: u64) -> Self {
        let mut dice = Dice::new(number);
        let mut lines: Vec<Vec<u8>> = Vec::new();
        // A client's own order more often than any other: then the rest meets an open session.
        let start = dice.below(corpus.len());
        for step in 0..2 + dice.below(12) {
            let line = match dice.below(8) {
                0 | 1 => dice.pick(corpus).clone(),
                2 => dice.pick(&GARBAGE).as_bytes().to_vec(),
                3 => bent(dice.pick(corpus).clone(), &mut dice),
                4 => batch(corpus, &mut dice),
                _ => corpus[(start + step) % corpus.len()].clone(),
            };
            lines.push(line);
        }
        // Ids come again in a corpus of several clients; here each request has its own.
        for (index, line) in lines.iter_mut().enumerate() {
            renumber(line, index, &mut dice);
        }
        Self(lines)
    }

    async fn play(&self, server: &lmcp::Handle) -> Result<(), String> {
        let mut link = server::memory_of(server.clone());
        for line in &self.0 {
            link.send(line).await?;
        }
        // Answered only by a server that has read all the lines before.
        link.send(PROBE.as_bytes()).await?;
        let mut came = Vec::new();
        loop {
            match link.next().await? {
                Some(message) if message["id"] == "probe" => break,
                Some(message) => came.push(message),
                None => return Err("the connection was closed".into()),
            }
        }
        came.extend(link.finish().await?);
        self.judge(came)
    }

    fn judge(&self, came: Vec<Value>) -> Result<(), String> {
        let (mut due, mut maybe, mut garbage) = (BTreeMap::new(), BTreeMap::new(), 0);
        for line in &self.0 {
            match Kind::of(line) {
                Kind::Request(id) => *due.entry(id).or_insert(0) += 1,
                Kind::Batch(ids) => {
                    garbage += ids.len().max(1);
                    ids.into_iter()
                        .for_each(|id| *maybe.entry(id).or_insert(0) += 1);
                }
                Kind::Garbage(id) => {
                    garbage += 1;
                    if let Some(id) = id {
                        *maybe.entry(id).or_insert(0) += 1;
                    }
                }
                Kind::Quiet => {}
            }
        }
        for message in came.into_iter().flat_map(each) {
            if message.get("method").is_some() {
                return Err(format!("nobody asked for {message}"));
            }
            let Some(id) = message.get("id").map(ToString::to_string) else {
                garbage = garbage
                    .checked_sub(1)
                    .ok_or(format!("an answer to nothing: {message}"))?;
                continue;
            };
            if !take(&mut due, &id) && !take(&mut maybe, &id) {
                return Err(format!("one answer too many: {message}"));
            }
        }
        match due.into_iter().find(|(_, count)| *count > 0) {
            Some((id, _)) => Err(format!("no answer to {id}")),
            None => Ok(()),
        }
    }
}

/// What a line must be answered with.
enum Kind {
    /// One answer of this id.
    Request(String),
    /// At most one answer to each, if this is a session that has batches; else one error.
    Batch(Vec<String>),
    /// At most one error.
    Garbage(Option<String>),
    Quiet,
}

impl Kind {
    fn of(line: &[u8]) -> Self {
        let text = std::str::from_utf8(line).map(str::trim);
        if text == Ok("") {
            return Self::Quiet;
        }
        let Ok(message) = serde_json::from_slice::<Value>(line) else {
            return Self::Garbage(None);
        };
        if let Value::Array(messages) = message {
            let id = |message: Value| message.get("id").map_or("none".into(), ToString::to_string);
            return Self::Batch(messages.into_iter().map(id).collect());
        }
        let id = message.get("id");
        let known = id.is_none_or(|id| id.is_string() || id.is_i64());
        let params = message.get("params");
        let sound = message["jsonrpc"] == "2.0"
            && known
            && params.is_none_or(Value::is_object)
            && message.get("result").is_none()
            && message.get("error").is_none();
        match (message["method"].is_string(), id) {
            (true, Some(id)) if sound => Self::Request(id.to_string()),
            (true, None) if sound => Self::Quiet,
            _ if is_response(&message) => Self::Quiet,
            _ => Self::Garbage(id.map(ToString::to_string)),
        }
    }
}

fn is_response(message: &Value) -> bool {
    message["jsonrpc"] == "2.0"
        && message.get("method").is_none()
        && (message.get("result").is_some() != message.get("error").is_some())
}

fn take(counts: &mut BTreeMap<String, i32>, id: &str) -> bool {
    match counts.get_mut(id) {
        Some(count) if *count > 0 => {
            *count -= 1;
            true
        }
        _ => false,
    }
}

/// The messages of a batch, or the one that it is.
fn each(message: Value) -> Vec<Value> {
    match message {
        Value::Array(batch) => batch,
        message => vec![message],
    }
}

/// What the clients of the `opening-*` transcripts send, and more of what they may, as lines.
fn corpus() -> Vec<Vec<u8>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/transcripts");
    let mut paths: Vec<_> = fs::read_dir(folder)
        .expect("the folder of transcripts is part of the sources")
        .map(|entry| entry.expect("an entry of a folder can be read").path())
        .filter(|path| path.to_string_lossy().contains("/opening-"))
        .collect();
    paths.sort();
    let mut lines = Vec::new();
    for path in paths {
        let text = fs::read_to_string(path).expect("a file that was listed can be read");
        let transcript = Transcript::parse(&text).expect("transcripts are well-formed");
        for step in transcript.steps {
            let Act::Send(send) = step.act else { continue };
            let sent = expand::outgoing(&send, &Captures::new()).expect("messages are well-formed");
            // Other tools wait for an answer, or change what all connections see.
            let name = sent.message.as_ref().map(|sent| &sent["params"]["name"]);
            if name.is_some_and(|name| name.is_null() || name == "echo") {
                lines.push(sent.bytes);
            }
        }
    }
    assert!(lines.len() > 16, "the openings of clients are gone");
    lines.extend(MORE.iter().map(|line| line.as_bytes().to_vec()));
    lines
}

/// Another id for a request. Lines that are no JSON keep what they have.
fn renumber(line: &mut Vec<u8>, index: usize, dice: &mut Dice) {
    let Ok(mut message) = serde_json::from_slice::<Value>(line) else {
        return;
    };
    let mut messages = match &mut message {
        Value::Array(messages) => messages.iter_mut().collect(),
        message => vec![message],
    };
    for (place, message) in messages.iter_mut().enumerate() {
        let Some(id) = message
            .as_object_mut()
            .filter(|message| message.contains_key("method"))
            .and_then(|message| message.get_mut("id"))
            .filter(|id| id.is_i64() || id.is_string())
        else {
            continue;
        };
        let number = 100 * index + place;
        *id = match dice.below(2) {
            0 => number.into(),
            _ => number.to_string().into(),
        };
    }
    *line = message.to_string().into_bytes();
}

/// A line with something wrong in it, or perhaps not.
fn bent(mut line: Vec<u8>, dice: &mut Dice) -> Vec<u8> {
    let at = dice.below(line.len());
    match dice.below(4) {
        0 => line.truncate(at),
        1 => line[at] = *dice.pick(WRONG),
        2 => drop(line.remove(at)),
        _ => line.insert(at, *dice.pick(WRONG)),
    }
    line
}

fn batch(corpus: &[Vec<u8>], dice: &mut Dice) -> Vec<u8> {
    let messages: Vec<_> = (0..dice.below(4))
        .map(|_| dice.pick(corpus).clone())
        .collect();
    [b"[".as_slice(), &messages.join(&b','), b"]"].concat()
}

fn shown(line: &[u8]) -> String {
    String::from_utf8_lossy(line).into_owned()
}

/// Numbers that look like chance and never change.
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        // No state of this generator may be zero.
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let high = usize::try_from(self.0 >> 33).unwrap_or_default();
        high % most.max(1)
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// Bytes that mean something else where they stand.
const WRONG: &[u8] = b"\"{}[]:,0a \xff\0";

const PROBE: &str = r#"{"jsonrpc":"2.0","id":"probe","method":"ping"}"#;

/// What these and other clients send besides.
const MORE: [&str; 15] = [
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{}}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{}}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2026-07-28"}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"debug"}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"server/discover"}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"resources/list"}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"prompts/list","params":{"cursor":"x"}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"no/such","params":{}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":100}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"200"}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#,
    r#"{"jsonrpc":"2.0","method":"ping"}"#,
    r#"{"jsonrpc":"2.0","id":7,"error":{"code":-1,"message":"no"}}"#,
];

const GARBAGE: [&str; 14] = [
    "",
    "   ",
    "{",
    "null",
    "5",
    "\"a\"",
    "[]",
    "[[]]",
    "{}",
    "Content-Length: 5",
    "\u{feff}",
    r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
    r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#,
    r#"{"jsonrpc":"1.0","id":3,"method":"ping"}"#,
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_that_lack_or_are_too_many_are_found_out() {
        let lines = [PROBE, r#"{"jsonrpc":"2.0","method":"ping"}"#, "{"];
        let round = Round(lines.iter().map(|line| line.as_bytes().to_vec()).collect());
        let answer = json!({ "id": "probe", "result": {} });
        let error = json!({ "error": {} });
        for (came, right) in [
            (vec![answer.clone()], true),
            (vec![error.clone(), answer.clone()], true),
            (vec![], false),
            (vec![answer.clone(), answer.clone()], false),
            (vec![answer.clone(), error.clone(), error], false),
            (
                vec![answer.clone(), json!({ "id": 5, "result": {} })],
                false,
            ),
            (vec![answer, json!({ "method": "notifications/x" })], false),
        ] {
            assert_eq!(round.judge(came.clone()).is_ok(), right, "{came:?}");
        }
    }
}
