//! Questions and log messages of servers with sessions, which do not say which call they are about.

use std::time::Duration;

use bytes::Bytes;
use lmcp_core::{Caller, CallerTransport, Endpoint, Messages, Service as _, admit};
use lmcp_upstream::Upstream;
use lmcp_wire::{ClientCapabilities, Incoming, ProtocolVersion, meta};
use serde_json::{Value, json};

use crate::{hostile::scripted, support::soon};

/// Asks as soon as the tool `ask` is called, and answers that call after it got an answer. A call of `leave` is begun and
/// never answered.
const ASKS: &str = r#"
    name = (message.get("params") or {}).get("name")
    if method == "initialize": hello(id)
    elif method == "server/discover": say({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "?"}})
    elif name == "leave":
        say({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": message["params"]["_meta"]["progressToken"], "progress": 1}})
    elif name == "ask":
        asking = id
        say({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "error", "data": "a secret"}})
        say({"jsonrpc": "2.0", "id": 77, "method": "elicitation/create", "params": {"message": "really?", "requestedSchema": {"type": "object", "properties": {}}}})
    elif id == 77: ok(asking, content(message["error"]["message"] if "error" in message else message["result"]["action"]))
    elif method in ("tools/call", "completion/complete", "resources/subscribe", "tools/list"): ok(id, content("done"))
"#;

fn server() -> Endpoint {
    Endpoint::new(Upstream::new(scripted(ASKS).route()))
}

/// Sends a request of a caller that can be asked.
fn request(server: &Endpoint, who: &str, method: &str, mut params: Value) -> Messages {
    params["_meta"] = json!({
        meta::PROTOCOL_VERSION: ProtocolVersion::NEWEST.as_str(),
        meta::CLIENT_INFO: { "name": "test", "version": "1" },
        meta::CLIENT_CAPABILITIES: { "elicitation": { "form": {} } },
        meta::LOG_LEVEL: "debug",
        "progressToken": 5,
    });
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let message = Bytes::from(message.to_string());
    let Ok(Incoming::Request { id, method, params }) = Incoming::parse(&message) else {
        panic!("no request: {message:?}");
    };
    let caller = Caller::new(CallerTransport::Unix).known_as(who);
    let request = admit(&message, id, &method, params, caller, None).expect("it is a good request");
    server.start(request)
}

fn call(server: &Endpoint, who: &str, tool: &str) -> Messages {
    let params = json!({ "name": tool, "arguments": {} });
    request(server, who, "tools/call", params)
}

/// Returns all messages of a request.
async fn all(mut messages: Messages) -> Vec<Value> {
    let mut all = Vec::new();
    while let Some(message) = soon(messages.next()).await {
        all.push(serde_json::from_slice(message.json()).expect("a message is JSON"));
    }
    all
}

fn is_asked(messages: &[Value]) -> bool {
    let last = messages.last().expect("there is an answer");
    last["result"]["resultType"] == "input_required"
}

#[tokio::test]
async fn a_call_whose_caller_does_not_come_back_with_an_answer_is_let_go() {
    let upstream = Upstream::new(scripted(ASKS).route());
    let server = Endpoint::new(upstream.clone());
    assert!(is_asked(&all(call(&server, "ann", "ask")).await));
    assert!(!upstream.is_idle(), "the call waits");
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(601)).await;
    for _ in 0..1000 {
        if upstream.is_idle() {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("the call waits for ever");
}

#[tokio::test]
async fn one_owner_is_asked_whatever_its_other_requests_were() {
    let server = server();
    all(call(&server, "ann", "any")).await;
    let mut left = call(&server, "ann", "leave");
    soon(left.next()).await;
    drop(left);
    let heard = all(call(&server, "ann", "ask")).await;
    assert!(is_asked(&heard), "{heard:?}");
    assert!(
        heard
            .iter()
            .any(|message| message["params"]["data"] == "a secret")
    );
}

/// The same for 2026-07-28. This server asks whatever its callers declare.
const ASKS_BY_ITS_ANSWER: &str = r#"
    if method == "server/discover": ok(id, {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private"})
    elif message["params"]["name"] == "told": ok(id, {"resultType": "complete", **content(json.dumps(message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]))})
    else: ok(id, {"resultType": "input_required", "inputRequests": {"k": {"method": "elicitation/create", "params": {"message": "really?", "requestedSchema": {"type": "object", "properties": {}}}}}})
"#;

#[tokio::test]
async fn callers_of_an_upstream_that_can_be_asked_nothing_are_asked_nothing() {
    for script in [ASKS, ASKS_BY_ITS_ANSWER] {
        let upstream = Upstream::builder(scripted(script).route());
        let upstream = upstream.capabilities(ClientCapabilities::default());
        let server = Endpoint::new(upstream.build());
        let heard = all(call(&server, "ann", "ask")).await;
        assert!(!is_asked(&heard), "{heard:?}");
        let said = heard.last().expect("there is an answer").to_string();
        assert!(
            said.contains("could be asked") || said.contains("cannot be asked"),
            "{said}"
        );
        if script == ASKS_BY_ITS_ANSWER {
            let told = all(call(&server, "ann", "told")).await;
            assert_eq!(told[0]["result"]["content"][0]["text"], "{}", "{told:?}");
        }
    }
}

#[tokio::test]
async fn a_question_that_may_be_about_an_earlier_call_of_somebody_else_is_put_to_nobody() {
    let complete = json!({ "ref": { "type": "ref/prompt", "name": "p" }, "argument": { "name": "a", "value": "" } });
    for before in ["answered", "cancelled", "completed", "listed"] {
        let server = server();
        match before {
            "answered" => drop(all(call(&server, "ann", "any")).await),
            "cancelled" => {
                let mut left = call(&server, "ann", "leave");
                soon(left.next()).await;
            }
            "completed" => {
                let messages = request(&server, "ann", "completion/complete", complete.clone());
                drop(all(messages).await);
            }
            _ => drop(all(request(&server, "ann", "tools/list", json!({}))).await),
        }
        let heard = all(call(&server, "bob", "ask")).await;
        let [answer] = &*heard else {
            panic!("{before}: bob hears of more than his call: {heard:?}");
        };
        let words = answer["result"]["content"][0]["text"].as_str();
        let words = words.expect("the server was told");
        assert!(
            words.contains("--per-client") && words.contains("isolate"),
            "{before}: {words}"
        );
    }
}
