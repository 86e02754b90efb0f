//! The errors that a proxy answers with in the place of a server.

use lmcp_wire::RpcError;
use serde_json::json;

/// The server had it, and is gone. What it said about that, if it said anything.
pub(super) fn lost(method: &str, why: Option<&str>) -> RpcError {
    let why = why.map_or_else(String::new, |why| format!(", saying \"{why}\""));
    let words = format!(
        "the server went away while `{method}` ran{why}: it may or may not have taken effect, and can be tried again"
    );
    RpcError::internal(words).with_data(json!({ "retriable": true, "method": method }))
}

/// No server had it, because there is none.
pub(super) fn unreached(method: &str, why: &str) -> RpcError {
    let words = format!(
        "there is no server for `{method}`: {why}; nothing was done, and it can be tried again"
    );
    RpcError::internal(words).with_data(json!({ "retriable": true, "method": method }))
}

/// It is one too many.
pub(super) fn too_many_calls(method: &str, most: usize) -> RpcError {
    let words = format!(
        "{most} requests wait for an answer, and no more are passed on; nothing was done of `{method}`, and it can be tried again"
    );
    RpcError::internal(words).with_data(
        json!({ "limit": "pending", "value": most, "retriable": true, "method": method }),
    )
}

/// The next server does not speak what the client and the first agreed on.
pub(super) fn disagreed(theirs: &str, ours: &str) -> RpcError {
    let words = format!(
        "the server was replaced by one that speaks `{theirs}` and not `{ours}`: restart this client"
    );
    RpcError::internal(words).with_data(json!({ "retriable": false }))
}

/// The next server did not take the handshake that the first took.
pub(super) fn not_taken() -> RpcError {
    let words = "the server was replaced by one that refuses the handshake: restart this client";
    RpcError::internal(words).with_data(json!({ "retriable": false }))
}

/// A line of the client is too long.
pub(super) fn too_long(most: usize) -> RpcError {
    RpcError::invalid_request(format!("a message has at most {most} bytes"))
        .with_data(json!({ "limit": "line_bytes", "value": most }))
}

/// An answer of the server is too long.
pub(super) fn answer_too_long(most: usize) -> RpcError {
    RpcError::internal(format!(
        "the answer has more than {most} bytes, and was not passed on"
    ))
    .with_data(json!({ "limit": "line_bytes", "value": most, "retriable": false }))
}

/// The server says something too long, and nobody knows to whom: it was left.
pub(super) fn left(method: &str, most: usize) -> RpcError {
    let words = format!(
        "the server was left while `{method}` ran, because it said more than {most} bytes at once: it may or may not have taken effect"
    );
    RpcError::internal(words).with_data(
        json!({ "limit": "line_bytes", "value": most, "retriable": true, "method": method }),
    )
}

/// More questions than a client has.
pub(super) fn too_many_questions(most: usize) -> RpcError {
    RpcError::internal(format!(
        "{most} questions wait for the client, and no more are passed on"
    ))
    .with_data(json!({ "limit": "questions", "value": most }))
}
