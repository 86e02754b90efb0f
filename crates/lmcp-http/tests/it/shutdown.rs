//! How a server stops: what is open may end, what waits is told, and nothing hangs.

use std::{sync::Arc, time::Duration};

use lmcp_core::{Cx, NoArgs, Tool};
use serde_json::json;
use tokio::{net::TcpStream, sync::Notify};

use crate::support::{call, hanging, limits, request, serve, server, soon};

#[tokio::test]
async fn open_requests_are_answered() {
    let (started, release) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (starts, waits) = (Arc::clone(&started), Arc::clone(&release));
    let tool = Tool::new("wait", move |_: NoArgs, _: Cx| {
        let (starts, waits) = (Arc::clone(&starts), Arc::clone(&waits));
        async move {
            starts.notify_one();
            waits.notified().await;
            "released"
        }
    });
    let mut running = serve(server().tool(tool.read_only())).await;
    let mut connection = running.connect().await;
    connection.send(&call("wait")).await;
    soon(started.notified()).await;
    running.stop();
    // The port is closed at once, while the request is still open.
    soon(async {
        while TcpStream::connect(running.address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    release.notify_one();
    let head = connection.head().await;
    let answer: serde_json::Value = serde_json::from_str(&connection.body(&head).await).unwrap();
    assert_eq!(answer["result"]["content"][0]["text"], "released");
    assert_eq!(connection.closed().await, b"");
    running.ended().await.unwrap();
}

#[tokio::test]
async fn subscriptions_end_with_their_result() {
    let mut running = serve(server()).await;
    let mut connection = running.connect().await;
    let listen = request(
        "subscriptions/listen",
        json!({ "notifications": { "toolsListChanged": true } }),
    );
    connection.send(&listen).await;
    connection.head().await;
    connection.message().await;
    running.stop();
    let end = connection.message().await;
    assert_eq!(
        (&end["id"], &end["result"]["resultType"]),
        (&json!(1), &json!("complete"))
    );
    assert_eq!(
        end["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"],
        1
    );
    assert_eq!(connection.event().await, None);
    running.ended().await.unwrap();
}

#[tokio::test]
async fn idle_connections_are_closed() {
    let mut running = serve(server()).await;
    let mut connection = running.connect().await;
    assert_eq!(connection.ask(&call("quick")).await.head.status, 200);
    running.stop();
    assert_eq!(connection.closed().await, b"");
    running.ended().await.unwrap();
}

#[tokio::test]
async fn a_request_that_does_not_end_is_stopped_in_the_end() {
    let (tool, mut watcher) = hanging("hang");
    let short = limits(|limits| limits.shutdown_wait = Duration::from_millis(20));
    let mut running = serve(server().tool(tool).limits(short)).await;
    let mut connection = running.connect().await;
    connection.send(&call("hang")).await;
    watcher.started().await;
    running.stop();
    running.ended().await.unwrap();
    watcher.dropped().await;
    assert_eq!(connection.closed().await, b"");
}
