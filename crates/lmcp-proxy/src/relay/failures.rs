//! The errors with which a proxy answers instead of a server.

use lmcp_wire::RpcError;
use serde_json::json;

/// The server had the request, and is gone. `why` is the reason that the server gave, if any.
pub(super) fn lost(method: &str, why: Option<&str>) -> RpcError {
    let why = why.map_or_else(String::new, |why| format!(", saying \"{why}\""));
    let words = format!(
        "the server went away while `{method}` ran{why}: it may or may not have taken effect, and can be tried again"
    );
    RpcError::internal(words).with_data(json!({ "retriable": true, "method": method }))
}

/// No server had the request, because there is none.
pub(super) fn unreached(method: &str, why: &str) -> RpcError {
    let words = format!(
        "there is no server for `{method}`: {why}; nothing was done, and it can be tried again"
    );
    RpcError::internal(words).with_data(json!({ "retriable": true, "method": method }))
}

/// There are too many requests.
pub(super) fn too_many_calls(method: &str, most: usize) -> RpcError {
    let words = format!(
        "{most} requests wait for an answer, and no more are passed on; nothing was done of `{method}`, and it can be tried again"
    );
    RpcError::internal(words).with_data(
        json!({ "limit": "pending", "value": most, "retriable": true, "method": method }),
    )
}

/// The next server does not speak the revision that the client and the first agreed on.
pub(super) fn disagreed(theirs: &str, ours: &str) -> RpcError {
    let words = format!(
        "the server was replaced by one that speaks `{theirs}` and not `{ours}`: restart this client"
    );
    RpcError::internal(words).with_data(json!({ "retriable": false }))
}

/// The next server refused the handshake that the first accepted.
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

/// The server sent a message that is too long and names no request, so the server was left.
pub(super) fn left(method: &str, most: usize) -> RpcError {
    let words = format!(
        "the server was left while `{method}` ran, because it said more than {most} bytes at once: it may or may not have taken effect"
    );
    RpcError::internal(words).with_data(
        json!({ "limit": "line_bytes", "value": most, "retriable": true, "method": method }),
    )
}

/// The server asks more questions than are passed on at a time.
pub(super) fn too_many_questions(most: usize) -> RpcError {
    RpcError::internal(format!(
        "{most} questions wait for the client, and no more are passed on"
    ))
    .with_data(json!({ "limit": "questions", "value": most }))
}
