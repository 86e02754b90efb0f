//! Calls that wait for a server which does not read them.

use bytes::Bytes;
use lmcp_core::{Caller, CallerTransport, Endpoint, Messages, Terms, admit};
use lmcp_testkit::limits;
use lmcp_upstream::Upstream;
use lmcp_wire::{Incoming, ProtocolVersion, meta};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{hostile::scripted, support::soon};

/// Stops reading after its first call.
const DEAF: &str = r#"
    if method == "initialize": hello(id)
    elif method == "server/discover": say({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "?"}})
    elif method == "tools/call":
        import time
        while True: time.sleep(1000)
"#;

fn call(server: &Endpoint, who: &str, text: &str) -> Messages {
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "any", "arguments": { "text": text },
        "_meta": { meta::PROTOCOL_VERSION: ProtocolVersion::NEWEST.as_str(),
            meta::CLIENT_INFO: { "name": "test", "version": "1" }, meta::CLIENT_CAPABILITIES: {} },
    }});
    let message = Bytes::from(message.to_string());
    let Ok(Incoming::Request { id, method, params }) = Incoming::parse(&message) else {
        panic!("it is a request");
    };
    let caller = Caller::new(CallerTransport::Unix).known_as(who);
    let request = admit(&message, id, &method, params, caller, None).expect("it is a good request");
    server.start(request)
}

#[tokio::test]
async fn what_waits_for_a_server_is_memory_of_its_caller() {
    let upstream = Upstream::new(scripted(DEAF).route());
    let few = limits(|limits| limits.memory_bytes = 12 << 20);
    let server = Endpoint::on_terms(upstream, Terms::default().limits(few));
    let text = "x".repeat(2 << 20);
    let mut calls = JoinSet::new();
    for _ in 0..12 {
        let mut messages = call(&server, "ann", &text);
        calls.spawn(async move { messages.next().await.map(|said| said.json().to_vec()) });
    }
    // Waiting calls are not answered.
    let refused = soon(calls.join_next()).await.expect("there are calls");
    let refused = refused.expect("it runs").expect("it is answered");
    let refused: Value = serde_json::from_slice(&refused).expect("a message is JSON");
    let data = &refused["error"]["data"];
    assert_eq!(data["limit"], "memory_bytes", "{refused}");
    assert_eq!(
        (&data["retriable"], &data["began"]),
        (&json!(true), &json!(false))
    );
}
