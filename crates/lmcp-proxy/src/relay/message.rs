//! Lines of several messages (2025-03-26), and which requests may be sent twice.

use lmcp_wire::{jsonrpc, method::request};
use serde_json::value::RawValue;

use crate::limits::BATCH;

/// The messages of a batch. `None`: it is not one, or one that is too large.
pub(super) fn batch(line: &[u8]) -> Option<Vec<&RawValue>> {
    let messages = jsonrpc::batch(line, BATCH)?.ok()?;
    (messages.len() <= BATCH).then_some(messages)
}

/// Messages as one batch.
pub(super) fn join(messages: &[Vec<u8>]) -> Vec<u8> {
    let mut line = b"[".to_vec();
    line.extend_from_slice(&messages.join(&b','));
    line.push(b']');
    line
}

/// May the next server have it although the one before had it already? It changes nothing, or nothing that is not
/// lost with the connection.
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
