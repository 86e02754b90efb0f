//! Servers that are odd, old or hostile.

use std::{
    future::poll_fn,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
};

use lmcp_core::{Client, Endpoint, client::Fault};
use lmcp_upstream::{Upstream, command};
use serde_json::json;

use crate::support::{builder, soon, text};
use lmcp_wire::{LoggingLevel, ProtocolVersion};
use tokio::task::JoinSet;

/// Returns a server in Python that answers each line with the code in `answer`.
pub(crate) fn scripted(answer: &str) -> lmcp_upstream::CommandTarget {
    let script = format!(
        r#"
import json, sys
def say(message): print(json.dumps(message), flush=True)
def ok(id, result): say({{"jsonrpc": "2.0", "id": id, "result": result}})
def hello(id): ok(id, {{"protocolVersion": "2025-06-18", "capabilities": {{"tools": {{}}}}, "serverInfo": {{"name": "odd", "version": "1"}}}})
def content(text): return {{"content": [{{"type": "text", "text": text}}]}}
print("starting up ...", flush=True)
for line in sys.stdin:
    message = json.loads(line)
    id, method = message.get("id"), message.get("method")
{answer}
"#
    );
    command("python3").args(["-c", &script])
}

#[tokio::test]
async fn an_old_server_that_is_silent_about_what_it_does_not_know() {
    let target = scripted(
        r#"
    if method == "initialize": hello(id)
    if method == "tools/call": ok(id, content("old"))
"#,
    );
    let client = soon(Client::connect(target)).await.unwrap();
    assert_eq!(text(&client, "any", json!({})).await, "old");
}

#[tokio::test]
async fn an_old_server_that_ends_when_it_is_asked_what_it_is() {
    let target = scripted(
        r#"
    if method == "server/discover": sys.exit("unknown method")
    if method == "initialize": hello(id)
    if method == "tools/call": ok(id, content("old"))
"#,
    );
    let client = soon(Client::connect(target)).await.unwrap();
    assert_eq!(text(&client, "any", json!({})).await, "old");
}

#[tokio::test]
async fn garbage_answers_to_nothing_and_second_answers_harm_nobody() {
    let target = scripted(
        r#"
    if method == "initialize": hello(id)
    if method == "server/discover": say({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "?"}})
    if method == "tools/call":
        print("}{ garbage \u0000", flush=True)
        print("[1, 2, {}]", flush=True)
        say({"jsonrpc": "2.0", "id": 99999, "result": {}})
        say({"jsonrpc": "2.0", "id": "what", "error": {"code": 1, "message": "?"}})
        say({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 77, "progress": 1}})
        say({"jsonrpc": "2.0", "id": 7, "method": "roots/list"})
        say({"jsonrpc": "2.0", "id": 8, "method": "no/such"})
        ok(id, content("first")); ok(id, content("second"))
"#,
    );
    let client = soon(builder(ProtocolVersion::V2025_06_18).connect(target))
        .await
        .unwrap();
    for _ in 0..3 {
        assert_eq!(text(&client, "any", json!({})).await, "first");
    }
}

#[tokio::test]
async fn a_line_without_an_end_is_not_read_for_ever() {
    let target = scripted(
        r#"
    if method == "initialize": hello(id)
    if method == "tools/call":
        while True: sys.stdout.write("x" * 65536)
"#,
    );
    let client = soon(builder(ProtocolVersion::V2025_06_18).connect(target))
        .await
        .unwrap();
    let error = soon(client.call_tool("any", json!({}))).await.unwrap_err();
    assert_eq!(error.fault(), Fault::Transport, "{error}");
}

#[tokio::test]
async fn a_server_that_writes_nothing_but_rubbish_is_left() {
    let target = scripted(
        r#"
    if method == "initialize": hello(id)
    if method == "tools/call":
        while True: sys.stdout.write("x\n" * 65536)
"#,
    );
    let client = soon(builder(ProtocolVersion::V2025_06_18).connect(target))
        .await
        .unwrap();
    let error = soon(client.call_tool("any", json!({}))).await.unwrap_err();
    assert!(error.message.contains("no messages"), "{error}");
}

/// A server that wrote one long line after another took all turns of the thread that all callers share.
#[tokio::test]
async fn after_each_long_line_of_a_server_others_have_a_turn() {
    let target = scripted(
        r#"
    if method == "initialize": hello(id)
    if method == "tools/call":
        for _ in range(20): say({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "error", "data": "x" * 50000}})
        ok(id, content("said"))
"#,
    );
    let (turns, heard) = (
        Arc::<AtomicUsize>::default(),
        Arc::<Mutex<Vec<_>>>::default(),
    );
    let (now, log) = (Arc::clone(&turns), Arc::clone(&heard));
    let builder = builder(ProtocolVersion::V2025_06_18).on_log(LoggingLevel::Error, move |_| {
        log.lock().unwrap().push(now.load(Ordering::Relaxed));
    });
    let client = soon(builder.connect(target)).await.unwrap();
    let mut others = JoinSet::new();
    others.spawn(poll_fn(move |cx| {
        turns.fetch_add(1, Ordering::Relaxed);
        cx.waker().wake_by_ref();
        Poll::<()>::Pending
    }));
    assert_eq!(text(&client, "any", json!({})).await, "said");
    let heard = heard.lock().unwrap();
    assert_eq!(heard.len(), 20);
    assert!(heard.is_sorted_by(|one, next| one < next), "{heard:?}");
}

#[tokio::test]
async fn calls_of_a_server_that_does_not_read_are_refused_once_enough_of_them_wait() {
    let target = scripted(
        r#"
    if method == "initialize": hello(id)
    if method == "tools/call":
        import time
        while True: time.sleep(1000)
"#,
    );
    let client = soon(builder(ProtocolVersion::V2025_06_18).connect(target))
        .await
        .unwrap();
    let text = "x".repeat(1 << 20);
    let mut calls = JoinSet::new();
    for _ in 0..24 {
        let (client, arguments) = (client.clone(), json!({ "text": text }));
        calls.spawn(async move { client.call_tool("any", arguments).await });
    }
    let first = soon(calls.join_next()).await.unwrap().unwrap();
    let error = first.unwrap_err();
    assert!(error.message.contains("does not read"), "{error}");
    assert!(error.is_retriable(), "{error}");
}

#[tokio::test]
async fn arguments_that_wait_for_a_server_count_as_memory_of_their_caller() {
    let target = scripted(
        r#"
    if method == "initialize": hello(id)
    if method == "server/discover": say({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "?"}})
    if method == "tools/call":
        import time
        while True: time.sleep(1000)
"#,
    );
    let endpoint = Endpoint::new(Upstream::new(target.route()));
    let (client, mine) = (endpoint.client(), endpoint.budget().account("anyone"));
    let mut calls = JoinSet::new();
    // The server reads the first line and no other. The pipe has no room for the second.
    for bytes in [2 << 20, 3 << 20] {
        let (client, arguments) = (client.clone(), json!({ "text": "x".repeat(bytes) }));
        calls.spawn(async move { client.call_tool("any", arguments).await });
    }
    soon(async {
        while mine.used() < 2 << 20 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    // The rest of a line that the pipe has begun to take stays in memory until the server is ended.
    calls.abort_all();
    drop((client, endpoint));
    soon(async {
        while mine.used() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn messages_that_are_nested_too_deep_are_refused_and_harm_nobody() {
    let target = scripted(
        r#"
    deep = '{"a":' * 130 + '1' + '}' * 130
    if method == "initialize": hello(id)
    if method == "tools/call" and message["params"]["name"] == "ask":
        asking = id
        print('{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":{"message":"m","requestedSchema":%s}}' % deep, flush=True)
    elif method == "tools/call":
        print('{"jsonrpc":"2.0","id":%d,"result":{"content":[],"structuredContent":%s}}' % (id, deep), flush=True)
    if id == 7: ok(asking, content(message["error"]["message"]))
"#,
    );
    let client = soon(builder(ProtocolVersion::V2025_06_18).connect(target))
        .await
        .unwrap();
    assert!(text(&client, "ask", json!({})).await.contains("nested"));
    let error = soon(client.call_tool("answer", json!({})))
        .await
        .unwrap_err();
    assert!(error.message.contains("nested"), "{error}");
    assert!(text(&client, "ask", json!({})).await.contains("nested"));
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up_where_a_time_is_set() {
    let target = scripted(
        r#"
    if method == "initialize": hello(id)
    if method == "notifications/cancelled": print("cancelled", file=sys.stderr)
"#,
    );
    let builder = builder(ProtocolVersion::V2025_06_18);
    let client = builder
        .timeout(std::time::Duration::from_millis(50))
        .connect(target);
    let client = soon(client).await.unwrap();
    let error = soon(client.call_tool("any", json!({}))).await.unwrap_err();
    assert!(
        error.is_retriable() && error.message.contains("within"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_how_it_is_spoken_with_is_left() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("socket");
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    let serving = lmcp_core::Tasks::default();
    serving.spawn(async move {
        let mut silent = Vec::new();
        while let Ok(connection) = listener.accept().await {
            silent.push(connection);
        }
    });
    let connecting = Client::connect(lmcp_upstream::socket(path));
    let time = std::time::Duration::from_secs(3600);
    let connected = tokio::time::timeout(time, connecting).await;
    let error = connected.expect("nobody waits for ever").unwrap_err();
    let words = error.to_string();
    assert!(words.contains("did not answer the opening"), "{words}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_ends_whenever_the_task_does() {
    let target = lmcp_upstream::socket("/nowhere/at/all");
    for _ in 0..2000 {
        soon(Upstream::new(target.clone().route()).close()).await;
    }
}

#[tokio::test]
async fn a_server_of_a_revision_that_nobody_knows_is_refused_in_words() {
    let target = scripted(
        r#"
    if method == "initialize": ok(id, {"protocolVersion": "1999-01-01", "capabilities": {}, "serverInfo": {}})
    else: say({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "?"}})
"#,
    );
    let error = soon(Client::connect(target)).await.unwrap_err();
    assert!(error.message.contains("1999-01-01"), "{error}");
}
