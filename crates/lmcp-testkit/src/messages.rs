//! Messages of JSON-RPC.

use serde_json::{Value, json};

/// A request of 2026-07-28, with what every request needs in its `_meta`, and what the parameters have there already.
pub fn request(id: impl Into<Value>, method: &str, mut params: Value) -> Value {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    match &mut params["_meta"] {
        Value::Object(given) => given.extend(meta.as_object().cloned().unwrap_or_default()),
        absent => *absent = meta,
    }
    json!({ "jsonrpc": "2.0", "id": id.into(), "method": method, "params": params })
}

/// A call of a tool, likewise.
pub fn call(id: impl Into<Value>, tool: &str, arguments: &Value) -> Value {
    let params = json!({ "name": tool, "arguments": arguments });
    request(id, "tools/call", params)
}
