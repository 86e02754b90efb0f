//! Closing the connection stops the work, whatever form its answer was to have.
//!
//! The project promises 50 ms. The tests show the time and fail only if it never happens.

use std::time::Instant;

use lmcp_core::Server;
use serde_json::json;

use crate::support::{call, hanging, hanging_after, limits, request, serve, server};

#[tokio::test]
async fn while_a_json_answer_is_pending() {
    let (tool, mut watcher) = hanging("hang");
    let running = serve(server().tool(tool)).await;
    for accept in ["application/json", "application/json, text/event-stream"] {
        let mut connection = running.connect().await;
        connection.send(&call("hang").with("accept", accept)).await;
        watcher.started().await;
        let closed = Instant::now();
        drop(connection);
        show_time(
            "cancel: HTTP, answer pending",
            closed,
            watcher.dropped().await,
        );
    }
}

#[tokio::test]
async fn while_a_stream_is_open() {
    let (tool, mut watcher) = hanging_after("hang", |cx| cx.progress(2).step("one"));
    let running = serve(server().tool(tool)).await;
    let mut connection = running.connect().await;
    connection.send(&call("hang")).await;
    connection.head().await;
    assert_eq!(
        connection.message().await["method"],
        "notifications/progress"
    );
    watcher.started().await;
    let closed = Instant::now();
    drop(connection);
    show_time("cancel: HTTP, stream open", closed, watcher.dropped().await);
}

#[tokio::test]
async fn a_subscription_ends_with_its_connection() {
    let one = limits(|limits| limits.listeners = 1);
    let running = serve(server().limits(one)).await;
    let listen = request(
        "subscriptions/listen",
        json!({ "notifications": { "toolsListChanged": true } }),
    );
    let mut connection = running.connect().await;
    connection.send(&listen).await;
    connection.head().await;
    connection.message().await;
    let refused = running.ask(&listen).await;
    assert_eq!(refused.json()["error"]["data"]["limit"], "listeners");
    drop(connection);
    // The place is free as soon as the server has noticed.
    loop {
        let mut next = running.connect().await;
        next.send(&listen).await;
        if next.head().await.get("content-type") == Some("text/event-stream") {
            break;
        }
    }
}

#[tokio::test]
async fn one_connection_leaves_the_others() {
    let (tool, mut watcher) = hanging("hang");
    let running = serve(server().tool(tool)).await;
    let (mut first, mut second) = (running.connect().await, running.connect().await);
    first.send(&call("hang")).await;
    second.send(&call("hang")).await;
    watcher.started().await;
    watcher.started().await;
    drop(first);
    watcher.dropped().await;
    assert_eq!(running.ask(&call("quick")).await.head.status, 200);
    assert!(watcher.is_running());
}

#[tokio::test]
async fn a_notification_on_another_connection_stops_nothing() {
    let (tool, mut watcher) = hanging("hang");
    let running = serve(server().tool(tool)).await;
    let mut connection = running.connect().await;
    connection.send(&call("hang")).await;
    watcher.started().await;
    let message = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
    let answer = running
        .ask(&crate::support::body(&message.to_string()))
        .await;
    assert_eq!(answer.head.status, 202);
    assert!(watcher.is_running());
}

#[tokio::test]
async fn a_task_outlives_its_connection() {
    let (tool, mut watcher) = hanging("hang");
    let server: Server = server().tool(tool.as_task());
    let running = serve(server).await;
    let knowing = |method: &str, name: &str, params: serde_json::Value| {
        let post = request(method, params);
        let capabilities = "\"io.modelcontextprotocol/clientCapabilities\":{}";
        let declared = "\"io.modelcontextprotocol/clientCapabilities\":{\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}}";
        crate::support::body(&post.body().replace(capabilities, declared))
            .with("mcp-protocol-version", "2026-07-28")
            .with("mcp-method", method)
            .with("mcp-name", name)
    };
    let task = running
        .ask(&knowing("tools/call", "hang", json!({ "name": "hang" })))
        .await
        .json();
    watcher.started().await;
    let id = task["result"]["taskId"].as_str().unwrap();
    let shown = running
        .ask(&knowing("tasks/get", id, json!({ "taskId": id })))
        .await
        .json();
    assert_eq!(shown["result"]["status"], "working");
    assert!(watcher.is_running());
    running
        .ask(&knowing("tasks/cancel", id, json!({ "taskId": id })))
        .await;
    watcher.dropped().await;
}

#[expect(clippy::print_stderr, reason = "a figure for people, not an assertion")]
fn show_time(what: &str, since: Instant, until: Instant) {
    let millis = until.duration_since(since).as_secs_f64() * 1e3;
    eprintln!("measured: {what}: {millis:.2} ms");
}
