//! What happens when all places for connections are taken.

use lmcp_core::Server;
use serde_json::json;

use crate::support::{Connection, call, hanging, limits, serve, serve_as, server};

fn with_places(connections: usize) -> Server {
    server().limits(limits(|limits| limits.connections = connections))
}

async fn expect_answer(connection: &mut Connection) {
    assert_eq!(connection.ask(&call("quick")).await.head.status, 200);
}

/// Is it closed by the server, without a word?
async fn is_closed(mut connection: Connection) -> bool {
    connection.closed().await.is_empty()
}

#[tokio::test]
async fn where_all_are_busy_one_more_is_refused_and_the_others_live() {
    let (hang, mut watcher) = hanging("hang");
    let running = serve(with_places(1).tool(hang)).await;
    let mut busy = running.connect().await;
    busy.send(&call("hang")).await;
    watcher.started().await;
    // It is refused for being there, so it need not ask.
    let mut second = running.connect().await;
    let head = second.head().await;
    assert_eq!(head.status, 503);
    assert_eq!(head.get("retry-after"), Some("1"));
    let refusal: serde_json::Value = serde_json::from_str(&second.body(&head).await).unwrap();
    assert_eq!(
        refusal["error"]["data"],
        json!({ "limit": "connections", "value": 1, "retriable": true })
    );
    assert_eq!(second.closed().await, b"");
    assert!(watcher.is_running());
    drop(busy);
    watcher.dropped().await;
    // The place is free as soon as the server has noticed.
    loop {
        let mut next = running.connect().await;
        next.send(&call("quick")).await;
        if next.head().await.status == 200 {
            break;
        }
    }
}

// D17
#[tokio::test]
async fn of_idle_connections_the_one_that_said_nothing_makes_room_first() {
    let running = serve(with_places(3)).await;
    let mut known = running.connect().await;
    expect_answer(&mut known).await;
    let silent = running.connect().await;
    let dribbling = {
        let mut connection = running.connect().await;
        connection.write(b"POST /mcp HT").await;
        connection
    };
    let mut others = Vec::new();
    for idle in [silent, dribbling] {
        let mut next = running.connect().await;
        expect_answer(&mut next).await;
        others.push(next);
        assert!(is_closed(idle).await);
        // Those who were answered stay, for as long as there is somebody who was not.
        expect_answer(&mut known).await;
    }
}

// D17
#[tokio::test]
async fn somebody_who_never_ends_a_body_makes_room() {
    let running = serve(with_places(2)).await;
    let mut dribblers = Vec::new();
    for _ in 0..2 {
        let mut connection = running.connect().await;
        let post = call("quick");
        connection
            .write(post.head(running.address).as_bytes())
            .await;
        connection.write(&post.body().as_bytes()[..1]).await;
        dribblers.push(connection);
    }
    loop {
        let mut next = running.connect().await;
        next.send(&call("quick")).await;
        // The server may not have read the bodies yet.
        if next.head().await.status == 200 {
            break;
        }
    }
}

// D17
#[tokio::test]
async fn far_more_idle_connections_than_places_keep_nobody_out() {
    let running = serve(with_places(64)).await;
    let mut idle = Vec::new();
    for _ in 0..300 {
        idle.push(running.connect().await);
    }
    for _ in 0..20 {
        expect_answer(&mut running.connect().await).await;
    }
}

// D5
#[tokio::test]
async fn where_memory_is_short_connections_make_room_before_all_places_are_taken() {
    // Two thirds of what callers may use of it have room for some 150 connections.
    let running = serve(server().limits(limits(|limits| limits.memory_bytes = 8 << 20))).await;
    let first = running.connect().await;
    let mut others = Vec::new();
    for _ in 0..200 {
        others.push(running.connect().await);
    }
    expect_answer(&mut running.connect().await).await;
    assert!(is_closed(first).await);
}

// D8
#[tokio::test]
async fn a_caller_that_is_known_by_name_has_a_share_of_the_connections() {
    let (hang, mut watcher) = hanging("hang");
    let who = |http: lmcp_http::Http| {
        http.identify(|headers| {
            let name = headers.get("x-user").and_then(|name| name.to_str().ok());
            Ok(name.map(ToOwned::to_owned))
        })
    };
    let running = serve_as(with_places(9).tool(hang), who).await;
    let mut held = Vec::new();
    let refused = loop {
        let mut connection = running.connect().await;
        connection.send(&call("hang").with("x-user", "ann")).await;
        tokio::select! {
            head = connection.head() => break head,
            () = watcher.started() => held.push(connection),
        }
    };
    assert_eq!(refused.status, 503);
    assert!((6..9).contains(&held.len()), "{}", held.len());
    let answer = running.ask(&call("quick").with("x-user", "bob")).await;
    assert_eq!(answer.head.status, 200);
}
