//! The errors that callers get instead of an answer. `retriable` says whether another try may help, `fault` that the failure
//! is not an answer of the server, and `began` whether the server may have begun the request.

use lmcp_wire::RpcError;
use serde_json::json;

/// The server was lost while it had the request.
pub(super) fn lost(method: &str, why: &str) -> RpcError {
    let words = format!(
        "the server went before it answered `{method}`: {why}; the request may or may not have taken effect, and can be tried again"
    );
    RpcError::internal(words).with_data(
        json!({ "retriable": true, "fault": "transport", "began": true, "method": method }),
    )
}

/// The server was replaced by one of another era.
pub(super) fn changed(method: &str) -> RpcError {
    let words = format!(
        "the server now speaks another revision: `{method}` was not sent, and can be tried again"
    );
    RpcError::internal(words).with_data(
        json!({ "retriable": true, "fault": "transport", "began": false, "method": method }),
    )
}

/// The answer of the server is not a message.
pub(super) fn unreadable(method: &str) -> RpcError {
    let words = format!("the server's answer to `{method}` cannot be read: it is no message");
    RpcError::internal(words).with_data(json!({ "retriable": false, "method": method }))
}

/// The client and the server have no revision in common. Requests that waited for the handshake were not sent.
pub(super) fn unfit(why: &str) -> RpcError {
    let words = format!("cannot speak with the server: {why}");
    let data = json!({ "retriable": false, "fault": "server", "began": false });
    RpcError::internal(words).with_data(data)
}

/// The connection broke during the handshake. Requests that waited for it were not sent.
pub(super) fn unopened(why: &str) -> RpcError {
    let words = format!("the server was lost during the handshake, and nothing was sent: {why}");
    let data = json!({ "retriable": true, "fault": "transport", "began": false });
    RpcError::internal(words).with_data(data)
}
