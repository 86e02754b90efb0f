//! The calls that tests of this crate make.

use lmcp_core::{Caller, CallerTransport, Request, admit, bytes::Bytes};
use lmcp_wire::{Incoming, ProtocolVersion, meta};
use serde_json::{Value, json};

/// Returns a call of a tool, as a client of the newest revision makes it.
pub(crate) fn call_of(tool: &str, arguments: &Value) -> Request {
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": tool, "arguments": arguments, "_meta": {
            meta::PROTOCOL_VERSION: ProtocolVersion::NEWEST.as_str(),
            meta::CLIENT_CAPABILITIES: {},
        },
    } });
    let message = Bytes::from(message.to_string());
    let Ok(Incoming::Request { id, method, params }) = Incoming::parse(&message) else {
        panic!("it is a request");
    };
    let caller = Caller::new(CallerTransport::Memory);
    admit(&message, id, &method, params, caller, None).unwrap()
}
