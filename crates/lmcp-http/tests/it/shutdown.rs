//! How a server stops: what is open may end, what waits is told, and nothing hangs.

use std::{sync::Arc, time::Duration};

use lmcp_core::{Caller, CallerTransport, Cx, Handle, NoArgs, Tool, streams};
use lmcp_testkit::Serving;
use serde_json::json;
use tokio::{net::TcpStream, sync::Notify};

use crate::support::{
    Connection, Running, call, hanging, limits, request, serve, serve_endpoint, server, soon,
};

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

/// One signal stops a port and a socket: neither is the last one while the other still serves.
#[tokio::test]
async fn subscriptions_end_with_their_result_where_two_transports_stop_together() {
    let server = server().start().unwrap();
    let mut both = [port_of(&server).await, port_of(&server).await];
    let mut open = Vec::new();
    for running in &both {
        open.push(listening(running).await);
    }
    for running in &mut both {
        running.stop();
    }
    for connection in &mut open {
        let end = connection.message().await;
        assert_eq!(end["result"]["resultType"], "complete");
    }
    for running in &mut both {
        running.ended().await.unwrap();
    }
}

/// A connection that a host keeps to its hub ends by itself, a little later than the port is asked to stop.
#[tokio::test]
async fn subscriptions_end_with_their_result_when_the_last_connection_ends_while_a_port_stops() {
    let server = server().start().unwrap();
    let mut running = port_of(&server).await;
    let mut connection = listening(&running).await;
    let (near, far) = tokio::io::duplex(1024);
    let (reader, writer) = tokio::io::split(far);
    let joined = streams(reader, writer, Caller::new(CallerTransport::Memory));
    let hub = server.clone();
    let mut serving = Serving::start(async move { hub.serve(joined).await });
    tokio::task::yield_now().await;
    running.stop();
    // Nobody who is served is cut off for those who stop.
    soon(async {
        while TcpStream::connect(running.address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    drop(near);
    serving.ended().await.unwrap();
    let end = connection.message().await;
    assert_eq!(end["result"]["resultType"], "complete");
    running.ended().await.unwrap();
}

/// A server that goes on elsewhere keeps its tasks and subscriptions.
#[tokio::test]
async fn a_transport_that_stops_alone_leaves_the_subscriptions_of_others() {
    let server = server().start().unwrap();
    let (mut first, second) = (port_of(&server).await, port_of(&server).await);
    let mut connection = listening(&second).await;
    first.stop();
    first.ended().await.unwrap();
    let quick = Tool::new("another", |_: NoArgs, _: Cx| async { "quick" });
    server.add_tool(quick.read_only()).unwrap();
    let told = connection.message().await;
    assert_eq!(told["method"], "notifications/tools/list_changed");
}

/// A port of a server that has other transports, too.
async fn port_of(server: &Handle) -> Running {
    serve_endpoint(server.endpoint(), |http| http).await
}

/// A subscription that is open.
async fn listening(running: &Running) -> Connection {
    let filter = json!({ "notifications": { "toolsListChanged": true } });
    let mut connection = running.connect().await;
    connection
        .send(&request("subscriptions/listen", filter))
        .await;
    connection.head().await;
    connection.message().await;
    connection
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
