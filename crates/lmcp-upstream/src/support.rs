//! What the tests of this crate share.

use bytes::Bytes;
use lmcp_core::{Caller, Request, admit};
use lmcp_wire::{Incoming, meta};
use serde_json::json;

/// A request of 2026-07-28.
pub(crate) fn request(caller: Caller) -> Request {
    let meta = json!({
        meta::PROTOCOL_VERSION: "2026-07-28",
        meta::CLIENT_INFO: { "name": "test", "version": "1" },
        meta::CLIENT_CAPABILITIES: {},
    });
    let message =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": { "_meta": meta } });
    let message = Bytes::from(message.to_string());
    let Ok(Incoming::Request { id, method, params }) = Incoming::parse(&message) else {
        panic!("it is a request");
    };
    admit(&message, id, &method, params, caller, None).unwrap()
}
