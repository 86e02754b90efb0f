//! Every bound of what sessions hold: at its edge the client is told which it met, and the server goes on.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use lmcp_core::{Cx, Limits, NoArgs, Resource, Tool};
use serde_json::{Value, json};

use crate::{
    support::{Post, Running, Watcher, hanging, limits, serve, serve_as, server},
    visitor::{NEWEST, Visitor, opening, puppet},
};

#[tokio::test]
async fn a_session_past_those_that_are_busy_is_refused() {
    for most in [1, 2, 64] {
        let (running, mut watcher) = busy(|limits| limits.sessions = most).await;
        let mut visitors = Vec::new();
        for _ in 0..most {
            let visitor = Visitor::new(&running).await;
            begin(&running, &visitor.call(1, "hang"), &mut watcher).await;
            visitors.push(visitor);
        }
        let late = Visitor::new(&running).await;
        let refused = running.ask(&late.set_level("debug")).await.json();
        assert_eq!(
            refused["error"]["data"],
            json!({ "limit": "sessions", "value": most, "retriable": true })
        );
        expect_alive(&running, &late).await;
        // An end makes room.
        running.ask(&visitors[0].delete()).await;
        watcher.dropped().await;
        let answer = running.ask(&late.set_level("debug")).await.json();
        assert_eq!(answer["result"], json!({}));
    }
}

#[tokio::test]
async fn of_idle_sessions_the_oldest_wishes_are_forgotten() {
    let small = limits(|limits| limits.sessions = 4);
    let running = serve(server().limits(small)).await;
    let first = Visitor::new(&running).await;
    for visitor in 0..20 {
        let visitor = if visitor == 0 {
            &first
        } else {
            &Visitor::new(&running).await
        };
        let answer = running.ask(&visitor.set_level("debug")).await.json();
        assert_eq!(answer["result"], json!({}));
    }
    expect_alive(&running, &first).await;
}

#[tokio::test]
async fn a_call_past_those_of_all_sessions_is_refused() {
    let (running, mut watcher) = busy(|limits| limits.session_calls = 2).await;
    let (ann, bob) = (Visitor::new(&running).await, Visitor::new(&running).await);
    for visitor in [&ann, &bob] {
        begin(&running, &visitor.call(1, "hang"), &mut watcher).await;
    }
    let refused = running.ask(&ann.call(2, "hang")).await.json();
    assert_eq!(refused["id"], 2);
    assert_eq!(
        refused["error"]["data"],
        json!({ "limit": "session_calls", "value": 2, "retriable": true })
    );
    expect_alive(&running, &ann).await;
    running.ask(&bob.cancel(1)).await;
    watcher.dropped().await;
    begin(&running, &ann.call(2, "hang"), &mut watcher).await;
}

// D8
#[tokio::test]
async fn one_caller_cannot_take_all_calls_of_sessions() {
    let (hang, mut watcher) = hanging("hang");
    let six = server()
        .tool(hang)
        .limits(limits(|limits| limits.session_calls = 6));
    let running = serve_as(six, |http| {
        http.identify(|headers| {
            let name = headers.get("x-user").and_then(|name| name.to_str().ok());
            Ok(name.map(ToOwned::to_owned))
        })
    })
    .await;
    let greedy = Visitor::new(&running).await;
    for id in 1..=4 {
        begin(&running, &greedy.call(id, "hang"), &mut watcher).await;
    }
    let refused = running.ask(&greedy.call(5, "hang")).await.json();
    assert_eq!(
        refused["error"]["data"],
        json!({ "limit": "session_calls", "value": 6, "retriable": true })
    );
    let open = opening(NEWEST, "x", json!({})).with("x-user", "bob");
    let opened = running.ask(&open).await;
    let mut bob = Visitor::new(&running).await;
    let session = opened.head.get("mcp-session-id").expect("a session");
    session.clone_into(&mut bob.session);
    let call = bob.call(1, "hang").with("x-user", "bob");
    begin(&running, &call, &mut watcher).await;
}

#[tokio::test]
async fn a_call_past_those_of_one_session_is_refused() {
    let (running, mut watcher) = busy(|limits| limits.requests_in_flight = 2).await;
    let (ann, bob) = (Visitor::new(&running).await, Visitor::new(&running).await);
    for id in [1, 2] {
        begin(&running, &ann.call(id, "hang"), &mut watcher).await;
    }
    let refused = running.ask(&ann.call(3, "hang")).await.json();
    assert_eq!(
        refused["error"]["data"],
        json!({ "limit": "requests_in_flight", "value": 2, "retriable": true })
    );
    begin(&running, &bob.call(1, "hang"), &mut watcher).await;
    expect_alive(&running, &ann).await;
}

#[tokio::test]
async fn an_id_in_flight_cannot_be_used_again() {
    let (running, mut watcher) = busy(|_| {}).await;
    let visitor = Visitor::new(&running).await;
    begin(&running, &visitor.call(1, "hang"), &mut watcher).await;
    let refused = running.ask(&visitor.call(1, "hang")).await.json();
    assert_eq!(
        (&refused["id"], &refused["error"]["code"]),
        (&json!(1), &json!(-32600))
    );
    running.ask(&visitor.cancel(1)).await;
    watcher.dropped().await;
}

/// A refusal must be the whole truth: a call that is refused and yet has had an effect is sent twice.
#[tokio::test]
async fn a_refused_call_has_not_begun() {
    let begun = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&begun);
    let tool = Tool::new("effect", move |_: NoArgs, _: Cx| {
        let counts = Arc::clone(&counts);
        async move {
            counts.fetch_add(1, Ordering::Relaxed);
            std::future::pending::<&'static str>().await
        }
    });
    let (hang, mut watcher) = hanging("hang");
    let one = limits(|limits| limits.session_calls = 1);
    let running = serve(server().tool(tool.writes()).tool(hang).limits(one)).await;
    let visitor = Visitor::new(&running).await;
    begin(&running, &visitor.call(1, "hang"), &mut watcher).await;
    for id in [1, 2] {
        let refused = running.ask(&visitor.call(id, "effect")).await.json();
        assert!(refused["error"].is_object(), "{refused}");
    }
    assert_eq!(begun.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn the_sessions_that_ended_last_stay_ended() {
    let few = limits(|limits| limits.ended_sessions = 2);
    let running = serve(server().limits(few)).await;
    let mut ended = Vec::new();
    for _ in 0..4 {
        let visitor = Visitor::new(&running).await;
        assert_eq!(running.ask(&visitor.delete()).await.head.status, 204);
        ended.push(visitor);
    }
    for visitor in &ended[2..] {
        assert_eq!(
            running.ask(&visitor.call(1, "quick")).await.head.status,
            404
        );
    }
    expect_alive(&running, &Visitor::new(&running).await).await;
}

/// The same at the end of a first turn: what the session then takes was set aside before.
#[tokio::test]
async fn a_call_that_has_begun_is_not_refused_for_want_of_memory() {
    let tool = Tool::new("effect", |_: NoArgs, cx: Cx| async move {
        let budget = cx.server().budget().clone();
        let _all = budget.own_account().take(budget.total());
        tokio::task::yield_now().await;
        "done"
    });
    let running = serve(server().tool(tool.writes())).await;
    let visitor = Visitor::new(&running).await;
    let answer = running.ask(&visitor.call(1, "effect")).await.json();
    assert_eq!(answer["result"]["content"][0]["text"], "done", "{answer}");
}

#[tokio::test]
async fn a_stream_past_those_that_listen_is_refused() {
    let one = limits(|limits| limits.listeners = 1);
    let running = serve(server().limits(one)).await;
    let (ann, bob) = (Visitor::new(&running).await, Visitor::new(&running).await);
    let mut stream = running.connect().await;
    stream.open_stream(&ann.get()).await;
    let refused = running.ask(&bob.get()).await;
    assert_eq!(refused.head.status, 503);
    assert_eq!(
        refused.json()["error"]["data"],
        json!({ "limit": "listeners", "value": 1, "retriable": true })
    );
    expect_alive(&running, &bob).await;
    running.ask(&ann.delete()).await;
    assert_eq!(stream.rest().await, Vec::<Value>::new());
    running.connect().await.open_stream(&bob.get()).await;
}

/// Open streams are counted, not those that once were: else who comes and goes locks everybody else out.
#[tokio::test]
async fn streams_that_have_closed_make_room_for_others() {
    let few = limits(|limits| limits.listeners = 2);
    let running = serve(server().limits(few)).await;
    for _ in 0..6 {
        let visitor = Visitor::new(&running).await;
        // The place is free as soon as the server has noticed; it never has to be told twice as often.
        let mut tries = 0;
        loop {
            let mut stream = running.connect().await;
            stream.send(&visitor.get()).await;
            let status = stream.head().await.status;
            if status == 200 {
                break;
            }
            tries += 1;
            assert!(tries < 200, "still refused: {status}");
        }
    }
}

#[tokio::test]
async fn one_session_watches_so_many_resources() {
    let two = limits(|limits| limits.watched = 2);
    let mut server = server().limits(two);
    for uri in ["test://a", "test://b", "test://c"] {
        server = server.resource(Resource::text(uri, uri, "text"));
    }
    let running = serve(server).await;
    let (ann, bob) = (Visitor::new(&running).await, Visitor::new(&running).await);
    for uri in ["test://a", "test://b", "test://a"] {
        let answer = running.ask(&ann.subscribe(uri)).await.json();
        assert_eq!(answer["result"], json!({}), "{uri}");
    }
    let refused = running.ask(&ann.subscribe("test://c")).await.json();
    assert_eq!(
        refused["error"]["data"],
        json!({ "limit": "watched", "value": 2 })
    );
    let answer = running.ask(&bob.subscribe("test://c")).await.json();
    assert_eq!(answer["result"], json!({}));
    let less = ann.request(1, "resources/unsubscribe", json!({ "uri": "test://a" }));
    running.ask(&less).await;
    let answer = running.ask(&ann.subscribe("test://c")).await.json();
    assert_eq!(answer["result"], json!({}));
}

// L22: without a reader only the end of what was said is kept.
#[tokio::test]
async fn of_a_stream_nobody_reads_the_end_is_kept() {
    let (tool, mut puppet) = puppet("work");
    let small = limits(|limits| limits.replay_bytes = 1000);
    let running = serve(server().tool(tool).limits(small)).await;
    let visitor = Visitor::new(&running).await;
    let mut connection = running.connect().await;
    connection.send(&visitor.call(1, "work")).await;
    puppet.started().await;
    puppet.log("first").await;
    connection.head().await;
    let event = connection.next_message().await;
    drop(connection);
    let mut said = Vec::new();
    for number in 0..50 {
        puppet.log(format!("{number} {}", "x".repeat(100))).await;
        said.push(format!("{number} {}", "x".repeat(100)));
    }
    puppet.finish().await;
    let mut again = running.connect().await;
    again.open_stream(&visitor.get_after(&event.id)).await;
    let mut rest = again.rest().await;
    assert_eq!(rest.pop().unwrap()["result"]["content"][0]["text"], "done");
    assert!(rest.len() < 50, "{} are kept", rest.len());
    // What is kept is the end, without a gap.
    let kept: Vec<_> = rest
        .iter()
        .filter_map(|said| said["params"]["data"].as_str())
        .collect();
    assert_eq!(kept, said[said.len() - kept.len()..]);
}

#[tokio::test]
async fn an_answer_of_any_size_can_be_come_back_for() {
    let (tool, mut puppet) = puppet("work");
    let small = limits(|limits| limits.replay_bytes = 10);
    let running = serve(server().tool(tool).limits(small)).await;
    let visitor = Visitor::new(&running).await;
    let mut connection = running.connect().await;
    connection.send(&visitor.call(1, "work")).await;
    puppet.started().await;
    puppet.log("first").await;
    connection.head().await;
    let event = connection.next_message().await;
    drop(connection);
    puppet.finish().await;
    let mut again = running.connect().await;
    again.open_stream(&visitor.get_after(&event.id)).await;
    let rest = again.rest().await;
    assert_eq!(rest.last().unwrap()["result"]["content"][0]["text"], "done");
}

#[tokio::test]
async fn of_streams_that_ended_the_oldest_are_forgotten_and_that_is_told() {
    let (tool, mut puppet) = puppet("work");
    let small = limits(|limits| limits.replay_total_bytes = 2000);
    let running = serve(server().tool(tool).limits(small)).await;
    let visitor = Visitor::new(&running).await;
    let mut events = Vec::new();
    for id in 0..10 {
        let mut connection = running.connect().await;
        connection.send(&visitor.call(id, "work")).await;
        puppet.started().await;
        puppet.log("x".repeat(300)).await;
        connection.head().await;
        events.push(connection.next_message().await.id);
        puppet.finish().await;
        connection.rest().await;
    }
    let mut again = running.connect().await;
    again.open_stream(&visitor.get_after(&events[9])).await;
    let rest = again.rest().await;
    assert_eq!(
        (&rest[0]["id"], rest[0]["result"].is_object()),
        (&json!(9), true)
    );
    let mut again = running.connect().await;
    again.open_stream(&visitor.get_after(&events[0])).await;
    let rest = again.rest().await;
    assert_eq!(
        (&rest[0]["id"], rest[0]["error"].is_object()),
        (&json!(0), true)
    );
}

async fn busy(change: impl FnOnce(&mut Limits)) -> (Running, Watcher) {
    let (tool, watcher) = hanging("hang");
    (
        serve(server().tool(tool).limits(limits(change))).await,
        watcher,
    )
}

/// Begins a call and goes away: it runs on.
async fn begin(running: &Running, post: &Post, watcher: &mut Watcher) {
    let mut connection = running.connect().await;
    connection.send(post).await;
    watcher.started().await;
}

/// What is answered at once needs no room, and so is answered whatever is full.
async fn expect_alive(running: &Running, visitor: &Visitor) {
    let answer = running.ask(&visitor.request(99, "ping", json!({}))).await;
    assert_eq!(answer.json()["result"], json!({}), "{}", answer.body);
}
