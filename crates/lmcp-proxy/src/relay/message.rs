//! Lines with several messages (2025-03-26), and the requests that may be sent twice.

use lmcp_wire::{jsonrpc, method::request};
use serde_json::value::RawValue;

use crate::limits::BATCH;

/// Returns the messages of a batch. `None`: the line is not a batch, or the batch is too large.
pub(super) fn batch(line: &[u8]) -> Option<Vec<&RawValue>> {
    let messages = jsonrpc::batch(line, BATCH)?.ok()?;
    (messages.len() <= BATCH).then_some(messages)
}

/// Joins messages to one batch.
pub(super) fn join(messages: &[Vec<u8>]) -> Vec<u8> {
    let mut line = b"[".to_vec();
    line.extend_from_slice(&messages.join(&b','));
    line.push(b']');
    line
}

/// Returns whether a request may be sent to the next server although the one before had it. Such a request changes nothing,
/// or only state that is lost with the connection.
pub(super) fn is_repeatable(method: &str) -> bool {
    let is_lost_with_it = matches!(
        method,
        request::INITIALIZE
            | request::LISTEN
            | request::SET_LEVEL
            | request::SUBSCRIBE
            | request::UNSUBSCRIBE
    );
    is_lost_with_it || request::only_reads(method)
}
