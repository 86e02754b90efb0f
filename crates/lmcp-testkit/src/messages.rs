//! Messages of JSON-RPC.

use serde_json::{Value, json};

/// Makes a request of 2026-07-28. Adds the members that every request needs to the `_meta` of the parameters.
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

/// Makes a call of a tool in the same way.
pub fn call(id: impl Into<Value>, tool: &str, arguments: &Value) -> Value {
    let params = json!({ "name": tool, "arguments": arguments });
    request(id, "tools/call", params)
}
