//! A process that is there and does nothing: it was stopped by a signal.

use std::{fs, process::Command, time::Duration};

use lmcp_core::{Client, Endpoint};
use lmcp_hub::{Hub, Reach, ServerConfig, ServerState, Servers};
use serde_json::json;
use tokio::task::yield_now;

/// A server whose tool says which process it is.
const SERVER: &str = r#"
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    id, method = message.get("id"), message.get("method")
    if id is None: continue
    result = {}
    if method == "initialize": result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "it", "version": "1"}}
    if method == "tools/list": result = {"tools": [{"name": "number", "inputSchema": {"type": "object"}}]}
    if method == "tools/call": result = {"content": [{"type": "text", "text": str(os.getpid())}]}
    error = {"code": -32601, "message": "unknown"}
    answer = {"error": error} if method == "server/discover" else {"result": result}
    print(json.dumps({"jsonrpc": "2.0", "id": id, **answer}), flush=True)
"#;

async fn number(client: &Client) -> String {
    let called = client.call_tool("it__number", json!({})).await;
    let called = called.expect("the server answers");
    let text = called.content[0].as_text();
    text.expect("the number is text").to_owned()
}

/// Does the process with this number run, or wait to do so?
fn lives(number: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{number}/stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_process_that_was_stopped_is_ended_and_the_next_call_starts_another() {
    let command = Reach::Command {
        command: "python3".to_owned(),
        args: vec!["-c".to_owned(), SERVER.to_owned()],
        env: [].into(),
        cwd: None,
    };
    let servers: Servers = [("it".to_owned(), ServerConfig::new(command))].into();
    let hub = Hub::new("hub", "1");
    hub.set(&servers).unwrap();
    let client = Endpoint::new(hub.clone()).client();
    let first = number(&client).await;
    let stopped = Command::new("kill").args(["-STOP", &first]).status();
    assert!(stopped.unwrap().success() && lives(&first));
    // Only timers are waited for from here on.
    tokio::time::pause();
    tokio::time::sleep(Duration::from_secs(60)).await;
    tokio::time::resume();
    assert_eq!(hub.status()[0].state, ServerState::Failed);
    while lives(&first) {
        yield_now().await;
    }
    let second = number(&client).await;
    assert_ne!(first, second);
    assert_eq!(hub.status()[0].restarts, 1);
}
