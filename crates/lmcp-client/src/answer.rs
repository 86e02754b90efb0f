//! Messages of a server: finds the requests that they answer, and the parts that the client must know.

use bytes::Bytes;
use lmcp_wire::{Envelope, RequestId, RpcError, envelope, framing::join_lines, jsonrpc};
use serde::Deserialize;

/// One message of the server.
pub(crate) enum Said {
    /// An answer to a request; `None` if the server could not tell which.
    Answer(Option<RequestId>),
    /// A request or a notification of the server.
    Own,
}

/// Reads one message. `None`: it is not a message.
pub(crate) fn read(message: &[u8]) -> Option<Said> {
    match Envelope::read(message) {
        Envelope::Request { .. } | Envelope::Notification { .. } => Some(Said::Own),
        Envelope::Response { id, .. } | Envelope::Hollow { id } => Some(Said::Answer(Some(id))),
        Envelope::Nameless => Some(Said::Answer(None)),
        Envelope::Unreadable => None,
    }
}

/// Writes a message as one line.
pub(crate) fn one_line(message: &Bytes) -> Bytes {
    let message = message.slice_ref(message.trim_ascii());
    if memchr::memchr2(b'\n', b'\r', &message).is_none() {
        return message;
    }
    let mut line = Vec::from(message);
    join_lines(&mut line);
    line.into()
}

/// Returns the messages of a line, which may hold several.
pub(crate) fn messages(line: &Bytes) -> Vec<Bytes> {
    match jsonrpc::batch(line, usize::MAX) {
        Some(Ok(messages)) => messages
            .into_iter()
            .map(|message| line.slice_ref(message.get().as_bytes()))
            .collect(),
        _ => vec![line.clone()],
    }
}

/// Returns the revision in the answer to a handshake. `None`: it is an error, or not an answer.
pub(crate) fn agreed_version(message: &[u8]) -> Option<String> {
    match Envelope::read(message) {
        Envelope::Response { result, .. } => envelope::agreed_version(result?),
        _ => None,
    }
}

/// Returns the error of a message, if it is an error.
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
