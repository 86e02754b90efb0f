//! What a server says: which requests it answers, and what of it must be known here.

use bytes::Bytes;
use lmcp_wire::{RequestId, RpcError, framing::join_lines, jsonrpc};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;

/// One message of the server.
pub(crate) enum Said {
    /// It answers a request; `None` where the server could not tell which.
    Answer(Option<RequestId>),
    /// It asks or tells something.
    Own,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(default)]
    method: Option<IgnoredAny>,
    #[serde(default)]
    result: Option<IgnoredAny>,
    #[serde(default)]
    error: Option<IgnoredAny>,
}

/// Reads one message. `None`: it is none.
pub(crate) fn read(message: &[u8]) -> Option<Said> {
    let text = std::str::from_utf8(message).ok()?;
    if !text.trim_start().starts_with('{') {
        return None;
    }
    let envelope: Envelope<'_> = serde_json::from_str(text).ok()?;
    if envelope.method.is_some() {
        return Some(Said::Own);
    }
    // `"result": null` counts as one: it is no message of MCP, but an answer all the same.
    let id = envelope
        .id
        .and_then(|id| serde_json::from_str(id.get()).ok());
    let is_answer = envelope.result.is_some() || envelope.error.is_some() || id.is_some();
    is_answer.then_some(Said::Answer(id))
}

/// A message as one line: between its tokens a line break is a space like any other.
pub(crate) fn one_line(message: &Bytes) -> Bytes {
    let message = message.slice_ref(message.trim_ascii());
    if memchr::memchr2(b'\n', b'\r', &message).is_none() {
        return message;
    }
    let mut line = Vec::from(message);
    join_lines(&mut line);
    line.into()
}

/// The messages of a line, which may be several.
pub(crate) fn messages(line: &Bytes) -> Vec<Bytes> {
    match jsonrpc::batch(line, usize::MAX) {
        Some(Ok(messages)) => messages
            .into_iter()
            .map(|message| line.slice_ref(message.get().as_bytes()))
            .collect(),
        _ => vec![line.clone()],
    }
}

/// The revision that the answer to a handshake names. `None`: it is an error, or no answer.
pub(crate) fn agreed_version(message: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Answer {
        result: Agreed,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Agreed {
        protocol_version: String,
    }
    let answer: Answer = serde_json::from_slice(message).ok()?;
    Some(answer.result.protocol_version)
}

/// The error of a message, if it is one.
pub(crate) fn error(message: &[u8]) -> Option<RpcError> {
    #[derive(Deserialize)]
    struct Failure {
        error: RpcError,
    }
    let failure: Failure = serde_json::from_slice(message).ok()?;
    Some(failure.error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_from_questions() {
        for (text, expected) in [
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, "answer 1"),
            (
                r#"{"jsonrpc":"2.0","id":"a","error":{"code":1,"message":""}}"#,
                "answer a",
            ),
            (r#"{"jsonrpc":"2.0","id":null,"error":{}}"#, "answer"),
            (r#"{"error":{}}"#, "answer"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, "own"),
            (r#"{"method":"a"}"#, "own"),
            (r#"{"detail":"Not Found"}"#, "none"),
            ("[1]", "none"),
            ("<html>", "none"),
            ("", "none"),
        ] {
            let found = match read(text.as_bytes()) {
                Some(Said::Answer(Some(id))) => format!("answer {id}"),
                Some(Said::Answer(None)) => "answer".to_owned(),
                Some(Said::Own) => "own".to_owned(),
                None => "none".to_owned(),
            };
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn a_message_of_several_lines_becomes_one() {
        let line = one_line(&Bytes::from_static(b"\n{\r\n  \"id\": 1\n}\n"));
        assert_eq!(&*line, b"{    \"id\": 1 }");
    }
}
