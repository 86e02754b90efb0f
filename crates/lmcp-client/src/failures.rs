//! The errors that replace a missing answer. `retriable` says whether another try may help, and `began` whether the server
//! may have begun the request.

use lmcp_wire::RpcError;
use serde_json::json;

/// The connection broke, and the server may have begun.
pub(crate) fn broken(method: &str) -> RpcError {
    let words = format!(
        "the connection broke before `{method}` was answered: it may or may not have taken effect, and can be tried again"
    );
    RpcError::internal(words)
        .with_data(json!({ "retriable": true, "began": true, "method": method }))
}

/// The server ended its response without an answer.
pub(crate) fn unanswered(server: &str, method: &str, how: &str) -> RpcError {
    let words = format!("`{server}` did not answer `{method}`: {how}");
    RpcError::internal(words)
        .with_data(json!({ "retriable": false, "began": true, "method": method }))
}

/// The server reports trouble of its own.
pub(crate) fn troubled(server: &str, method: &str, how: &str) -> RpcError {
    let words = format!("`{server}` cannot answer `{method}` now: {how}; it can be tried again");
    RpcError::internal(words)
        .with_data(json!({ "retriable": true, "began": true, "method": method }))
}

/// A message of the server is too long.
pub(crate) fn too_long(most: usize) -> RpcError {
    let words = format!("the answer has more than {most} bytes, and was not passed on");
    RpcError::internal(words).with_data(
        json!({ "limit": "message_bytes", "value": most, "retriable": false, "began": true }),
    )
}

/// The server has begun too many long answers.
pub(crate) fn crowded(method: &str) -> RpcError {
    let words = format!(
        "the server has begun other answers, and not ended them: there is no room for that to `{method}`, which can be tried again"
    );
    RpcError::internal(words)
        .with_data(json!({ "retriable": true, "began": true, "method": method }))
}

/// Too many messages wait to be sent.
pub(crate) fn no_room(method: &str, most: usize) -> RpcError {
    let words = format!(
        "{most} messages wait to be sent already: `{method}` was not, and can be tried again"
    );
    RpcError::internal(words)
        .with_data(json!({ "retriable": true, "began": false, "method": method }))
}

/// The server does not read its messages.
pub(crate) fn unread(method: &str, waiting: usize) -> RpcError {
    let words = format!(
        "the server does not read, and {waiting} messages wait for it already: `{method}` was not sent, and can be tried again"
    );
    RpcError::internal(words)
        .with_data(json!({ "retriable": true, "began": false, "method": method }))
}
