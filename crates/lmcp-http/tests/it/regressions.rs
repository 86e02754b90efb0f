//! What once was wrong, and must not be again.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use lmcp_core::{Cx, NoArgs, Tool, ToolResult};
use lmcp_wire::LoggingLevel;
use serde_json::json;
use tokio::{sync::mpsc, time::timeout};

use crate::support::{body, call, limits, request, serve, serve_as, server};

#[tokio::test]
async fn a_handler_whose_stream_nobody_reads_waits() {
    let said = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&said);
    let tool = Tool::new("flood", move |_: NoArgs, cx: Cx| {
        let counts = Arc::clone(&counts);
        async move {
            let text = "x".repeat(1 << 20);
            for _ in 0..200 {
                cx.log(LoggingLevel::Info, &text);
                counts.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
            "done"
        }
    });
    let running = serve(server().tool(tool.read_only())).await;
    let text = call("flood").body().replace(
        "\"progressToken\":1",
        "\"io.modelcontextprotocol/logLevel\":\"debug\"",
    );
    let post = body(&text)
        .with("mcp-protocol-version", "2026-07-28")
        .with("mcp-method", "tools/call")
        .with("mcp-name", "flood");
    let mut unread = running.connect().await;
    unread.send(&post).await;
    // Enough turns for the flood to fill what the system buffers.
    let mut other = running.connect().await;
    for _ in 0..100 {
        other.ask(&call("quick")).await;
    }
    let said = said.load(Ordering::Relaxed);
    assert!(said < 64, "{said} MiB are buffered");
}

#[tokio::test]
async fn headers_past_the_limit_are_refused_with_431() {
    let running = serve(server().limits(limits(|limits| limits.header_bytes = 16 << 10))).await;
    let mut connection = running.connect().await;
    let head = call("quick").with("x-pad", &"x".repeat(32 << 10));
    let head = head.head(running.address);
    connection.write(&head.as_bytes()[..16 << 10]).await;
    assert_eq!(connection.head().await.status, 431);
}

#[tokio::test]
async fn what_is_no_http_is_refused_with_400() {
    let running = serve(server()).await;
    let mut connection = running.connect().await;
    connection.write(b"what is this\r\nx: y\r\n\r\n").await;
    assert_eq!(connection.head().await.status, 400);
}

#[tokio::test]
async fn a_stream_is_heard_though_a_request_waits_behind_it() {
    let running = serve(server()).await;
    let mut connection = running.connect().await;
    let listen = request(
        "subscriptions/listen",
        json!({ "notifications": { "toolsListChanged": true } }),
    );
    connection.send(&listen).await;
    connection.send(&call("quick")).await;
    let heard = timeout(Duration::from_secs(5), async {
        connection.head().await;
        connection.message().await
    });
    let heard = heard.await.expect("the stream is heard");
    assert_eq!(heard["method"], "notifications/subscriptions/acknowledged");
}

#[tokio::test]
async fn the_path_can_be_the_root() {
    let running = serve_as(server(), |http| http.path("/")).await;
    assert_eq!(running.ask(&call("quick").path("/")).await.head.status, 200);
}

#[tokio::test]
async fn an_open_request_is_answered_though_it_is_in_a_shielded_step() {
    let (begun, mut begins) = mpsc::unbounded_channel();
    let tool = Tool::new("save", move |_: NoArgs, cx: Cx| {
        let begun = begun.clone();
        async move {
            cx.shield(async move {
                let _ = begun.send(());
                tokio::time::sleep(Duration::from_millis(50)).await;
            })
            .await?;
            ToolResult::Ok("saved")
        }
    });
    let mut running = serve(server().tool(tool.writes())).await;
    let mut connection = running.connect().await;
    connection.send(&call("save")).await;
    begins.recv().await;
    running.stop();
    let head = connection.head().await;
    let answer: serde_json::Value = serde_json::from_str(&connection.body(&head).await).unwrap();
    assert_eq!(answer["result"]["content"][0]["text"], "saved");
}
