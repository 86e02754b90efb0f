//! Every bound of HTTP, at its edge.

use std::time::Duration;

use serde_json::json;

use crate::support::{body, call, limits, serve, server};

#[tokio::test]
async fn a_body_may_be_as_large_as_the_limit_and_no_larger() {
    let running = serve(server().limits(limits(|limits| limits.body_bytes = 1000))).await;
    let text = call("quick").body().to_owned();
    for (size, status) in [(1000, 200), (1001, 413), (5000, 413)] {
        let post = body(&format!("{text:<size$}"))
            .with("mcp-protocol-version", "2026-07-28")
            .with("mcp-method", "tools/call")
            .with("mcp-name", "quick");
        let answer = running.ask(&post).await;
        assert_eq!(answer.head.status, status, "{size}");
        if status == 413 {
            assert_eq!(
                answer.json()["error"]["data"],
                json!({ "limit": "body_bytes", "value": 1000 })
            );
        }
    }
}

#[tokio::test]
async fn a_body_that_is_not_read_ends_the_connection() {
    let running = serve(server().limits(limits(|limits| limits.body_bytes = 1000))).await;
    let mut connection = running.connect().await;
    let post = body(&" ".repeat(100_000));
    connection
        .write(post.head(running.address).as_bytes())
        .await;
    let head = connection.head().await;
    assert_eq!(head.status, 413);
    assert_eq!(head.get("connection"), Some("close"));
    connection.body(&head).await;
    assert_eq!(connection.closed().await, b"");
}

#[tokio::test]
async fn a_body_that_does_not_say_its_size_is_limited_too() {
    let running = serve(server().limits(limits(|limits| limits.body_bytes = 1000))).await;
    let mut connection = running.connect().await;
    let post = call("quick")
        .without("content-length")
        .with("transfer-encoding", "chunked");
    connection
        .write(post.head(running.address).as_bytes())
        .await;
    for _ in 0..3 {
        connection
            .write(format!("190\r\n{}\r\n", " ".repeat(400)).as_bytes())
            .await;
    }
    let head = connection.head().await;
    assert_eq!(head.status, 413);
}

#[tokio::test]
async fn who_asks_before_sending_a_body_is_answered() {
    let running = serve(server().limits(limits(|limits| limits.body_bytes = 1000))).await;
    let mut connection = running.connect().await;
    let post = call("quick").with("expect", "100-continue");
    connection
        .write(post.head(running.address).as_bytes())
        .await;
    assert_eq!(connection.head().await.status, 100);
    connection.write(post.body().as_bytes()).await;
    assert_eq!(connection.head().await.status, 200);
    let mut connection = running.connect().await;
    let post = post.with("content-length", "1001");
    connection
        .write(post.head(running.address).as_bytes())
        .await;
    assert_eq!(connection.head().await.status, 413);
}

#[tokio::test]
async fn a_body_in_pieces_is_put_together() {
    let running = serve(server()).await;
    let mut connection = running.connect().await;
    let post = call("quick")
        .without("content-length")
        .with("transfer-encoding", "chunked");
    connection
        .write(post.head(running.address).as_bytes())
        .await;
    for piece in post.body().as_bytes().chunks(7) {
        connection
            .write(format!("{:x}\r\n", piece.len()).as_bytes())
            .await;
        connection.write(piece).await;
        connection.write(b"\r\n").await;
    }
    connection.write(b"0\r\n\r\n").await;
    let head = connection.head().await;
    let answer: serde_json::Value = serde_json::from_str(&connection.body(&head).await).unwrap();
    assert_eq!(answer["result"]["content"][0]["text"], "quick");
}

#[tokio::test]
async fn headers_past_the_limit_are_not_read() {
    let running = serve(server().limits(limits(|limits| limits.header_bytes = 16 << 10))).await;
    let fitting = call("quick").with("x-pad", &"x".repeat(8 << 10));
    assert_eq!(running.ask(&fitting).await.head.status, 200);
    let mut connection = running.connect().await;
    let head = call("quick").with("x-pad", &"x".repeat(32 << 10));
    let head = head.head(running.address);
    connection.write(&head.as_bytes()[..16 << 10]).await;
    connection.closed().await;
    assert_eq!(running.ask(&fitting).await.head.status, 200);
}

#[tokio::test]
async fn a_client_that_does_not_finish_its_headers_is_let_go() {
    let short = limits(|limits| limits.header_wait = Duration::from_millis(20));
    let running = serve(server().limits(short)).await;
    let mut connection = running.connect().await;
    connection.write(b"POST /mcp HTTP/1.1\r\nhost: ").await;
    connection.closed().await;
    // So is one that sends nothing at all.
    running.connect().await.closed().await;
    assert_eq!(running.ask(&call("quick")).await.head.status, 200);
}

#[tokio::test]
async fn a_client_that_does_not_finish_its_body_is_told_so() {
    let short = limits(|limits| limits.body_wait = Duration::from_millis(20));
    let running = serve(server().limits(short)).await;
    let mut connection = running.connect().await;
    let post = call("quick");
    connection
        .write(post.head(running.address).as_bytes())
        .await;
    connection.write(&post.body().as_bytes()[..10]).await;
    assert_eq!(connection.head().await.status, 408);
}
