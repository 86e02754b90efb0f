//! Names without end: whatever is looked up by its name is refused by its length, and an answer repeats only its beginning.

use lmcp_core::{Prompt, Resource, Tool};
use serde_json::{Value, json};

use crate::support::{connect, request, server};

const LONG: usize = 100_000;

/// More than any answer to a long name has.
const SHORT: usize = 4096;

async fn run(_: lmcp_core::NoArgs, _: lmcp_core::Cx) -> &'static str {
    "ran"
}

/// Two long texts: one that can be borrowed from its message, and one with escapes, which has to be copied to be read.
fn long_texts() -> [String; 2] {
    ["a".repeat(LONG), "\u{1}".repeat(LONG / 6)]
}

/// Everything that is looked up, in requests that stand alone.
fn alone(name: &str) -> Vec<Value> {
    let ask = |method, params| request(1, method, params);
    let listen = json!({ "notifications": { "toolsListChanged": name } });
    let mut version = ask("tools/list", json!({}));
    version["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(name);
    let mut level = ask("tools/list", json!({}));
    level["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = json!(name);
    let mut token = ask("tools/list", json!({}));
    token["params"]["_meta"]["progressToken"] = json!(name);
    let argument = json!({ "name": "a", "value": "" });
    let prompt = json!({ "type": "ref/prompt", "name": name });
    let resource = json!({ "type": "ref/resource", "uri": name });
    let odd = json!({ "type": name });
    vec![
        ask(name, json!({})),
        ask("tools/call", json!({ "name": name })),
        ask("prompts/get", json!({ "name": name })),
        ask("prompts/get", json!({ "name": "p", "arguments": name })),
        ask("resources/read", json!({ "uri": name })),
        ask("tasks/get", json!({ "taskId": name })),
        ask("tools/list", json!({ "cursor": name })),
        ask(
            "completion/complete",
            json!({ "ref": prompt, "argument": argument }),
        ),
        ask(
            "completion/complete",
            json!({ "ref": resource, "argument": argument }),
        ),
        ask(
            "completion/complete",
            json!({ "ref": odd, "argument": argument }),
        ),
        ask(
            "completion/complete",
            json!({ "ref": name, "argument": argument }),
        ),
        ask("subscriptions/listen", listen),
        version,
        level,
        token,
        json!({ "jsonrpc": "2.0", "id": name, "method": "tools/list" }),
        json!({ "jsonrpc": name, "id": 1, "method": "tools/list" }),
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": { "_meta": name } }),
        json!(name),
    ]
}

/// The same in a session.
fn of_a_session(name: &str) -> Vec<Value> {
    let ask = |method: &str, params| json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    vec![
        ask(name, json!({})),
        ask("initialize", json!({ "protocolVersion": name })),
        ask("resources/subscribe", json!({ "uri": name })),
        ask("resources/unsubscribe", json!({ "uri": name })),
        ask("logging/setLevel", json!({ "level": name })),
        ask(
            "tools/call",
            json!({ "name": "run", "_meta": { "progressToken": name } }),
        ),
    ]
}

#[tokio::test]
async fn whatever_is_looked_up_is_refused_by_its_length_and_told_by_its_beginning() {
    let prompt = Prompt::new("p", async |_: lmcp_core::NoArgs, _| "text");
    let server = server()
        .tool(Tool::new("run", run).read_only())
        .prompt(prompt)
        .resource(Resource::text("test://a", "a", "text"))
        .start()
        .expect("it is right");
    for name in long_texts() {
        let (mut peer, _serving) = connect(&server);
        for message in alone(&name) {
            peer.send(&message).await;
            expect_short(&message, &peer.receive().await);
        }
        peer.shake_hands("2025-06-18").await;
        for message in of_a_session(&name) {
            peer.send(&message).await;
            expect_short(&message, &peer.receive().await);
        }
    }
}

fn expect_short(message: &Value, answer: &Value) {
    let (said, told) = (message.to_string(), answer.to_string());
    let said: String = said.chars().take(200).collect();
    assert!(
        told.len() < SHORT,
        "{said}… was answered with {} bytes",
        told.len()
    );
    assert!(answer["error"].is_object(), "{said}…: {told}");
}

#[tokio::test]
async fn the_name_of_a_client_is_kept_only_if_it_is_one() {
    let server = server().start().expect("it is right");
    let (mut peer, _serving) = connect(&server);
    for name in long_texts() {
        let params = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": { "name": name, "version": name },
        });
        peer.ask(1, "initialize", params).await;
        let answer = peer.receive().await;
        assert_eq!(answer["result"]["protocolVersion"], "2025-06-18");
    }
}

#[tokio::test]
async fn names_of_usual_length_are_told_whole() {
    let tool = Tool::new("run", run).read_only();
    let server = server().tool(tool).start().expect("it is right");
    let (mut peer, _serving) = connect(&server);
    peer.request(1, "tools/call", json!({ "name": "x".repeat(200) }))
        .await;
    let answer = peer.receive().await;
    assert_eq!(answer["error"]["data"]["name"], "x".repeat(200));
}
