//! A call of a session outlives its connection, and its client comes back for the rest.

use std::time::Duration;

use lmcp_core::{Cx, NoArgs, Tool};
use lmcp_wire::LoggingLevel;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    support::{Connection, Running, limits, serve, server},
    visitor::{Event, NEWEST, Puppet, Visitor, only_connection, puppet},
};

// L17: here a lost connection is no wish of the client's.
#[tokio::test]
async fn a_call_goes_on_without_its_connection() {
    let (tool, mut puppet) = puppet("work");
    let one = limits(|limits| limits.connections = 1);
    let running = serve(server().tool(tool).limits(one)).await;
    let mut connection = running.connect().await;
    let visitor = Visitor::on(&mut connection).await;
    connection.send(&visitor.call(1, "work")).await;
    puppet.started().await;
    puppet.log("first").await;
    connection.head().await;
    let event = connection.next_message().await;
    drop(connection);
    // The server has noticed by now, and the call runs on.
    let mut again = only_connection(&running).await;
    puppet.finish().await;
    again.open_stream(&visitor.get_after(&event.id)).await;
    let rest = again.rest().await;
    assert_eq!(rest[0]["id"], 1);
    assert_eq!(rest[0]["result"]["content"][0]["text"], "done");
}

#[tokio::test]
async fn what_came_after_the_last_event_is_told_once_and_in_order() {
    for version in ["2025-03-26", "2025-06-18", NEWEST] {
        let (tool, mut puppet) = puppet("work");
        let running = serve(server().tool(tool)).await;
        let visitor = Visitor::of(&running, version).await;
        let (mut connection, _) = begin(&running, &visitor, json!(1), &mut puppet).await;
        let mut events = Vec::new();
        for number in 1..=3 {
            puppet.log(number.to_string()).await;
            events.push(connection.next_message().await);
        }
        drop(connection);
        for number in 4..=5 {
            puppet.log(number.to_string()).await;
        }
        // From each place the same story, and its end while it is being told.
        let mut again = running.connect().await;
        again.open_stream(&visitor.get_after(&events[1].id)).await;
        let mut heard = Vec::new();
        for _ in 3..=5 {
            heard.push(again.next_message().await.json()["params"]["data"].clone());
        }
        assert_eq!(heard, ["3", "4", "5"], "{version}");
        puppet.finish().await;
        assert_eq!(again.rest().await.len(), 1, "{version}");
        again.open_stream(&visitor.get_after(&events[2].id)).await;
        let rest = again.rest().await;
        assert_eq!(data(&rest), ["4", "5"], "{version}");
        assert_eq!(rest[2]["result"]["content"][0]["text"], "done");
    }
}

#[tokio::test]
async fn every_event_of_a_session_has_a_name_of_its_own() {
    let (tool, mut puppet) = puppet("work");
    let running = serve(server().tool(tool)).await;
    let visitor = Visitor::new(&running).await;
    let mut names = std::collections::HashSet::new();
    for id in 0..3 {
        let (mut connection, first) = begin(&running, &visitor, json!(id), &mut puppet).await;
        names.insert(first.id);
        puppet.finish().await;
        while let Some(event) = connection.next_event().await {
            assert!(names.insert(event.id));
        }
    }
    let mut standing = running.connect().await;
    standing.open_stream(&visitor.get()).await;
    assert!(names.insert(standing.next_event().await.unwrap().id));
}

#[tokio::test]
async fn who_has_read_everything_need_not_come_back() {
    let (tool, mut puppet) = puppet("work");
    let running = serve(server().tool(tool)).await;
    let visitor = Visitor::new(&running).await;
    let (mut connection, _) = begin(&running, &visitor, json!(1), &mut puppet).await;
    puppet.finish().await;
    let last = connection.next_message().await;
    assert_eq!(last.json()["id"], 1);
    assert!(connection.next_event().await.is_none());
    let answer = running.ask(&visitor.get_after(&last.id)).await;
    assert_eq!((answer.head.status, &*answer.body), (204, ""));
}

#[tokio::test]
async fn an_answer_lost_with_its_server_is_told_as_lost() {
    let (tool, mut puppet) = puppet("work");
    let short = limits(|limits| limits.shutdown_wait = Duration::from_millis(20));
    let mut before = serve(server().tool(tool).key([7; 32]).limits(short)).await;
    let visitor = Visitor::new(&before).await;
    let mut lost = Vec::new();
    for id in [json!(1), json!("one"), json!("a-b-c"), json!("8d1c-\"x\"")] {
        let (connection, event) = begin(&before, &visitor, id.clone(), &mut puppet).await;
        lost.push((id, event));
        drop(connection);
        puppet.finish().await;
    }
    before.stop();
    before.ended().await.unwrap();
    let after = serve(server().key([7; 32])).await;
    for (id, event) in lost {
        let mut connection = after.connect().await;
        connection.open_stream(&visitor.get_after(&event.id)).await;
        let rest = connection.rest().await;
        assert_eq!((&rest[0]["id"], rest.len()), (&id, 1));
        assert_eq!(rest[0]["error"]["code"], -32603, "{rest:?}");
    }
}

/// An id may be any text. Who asks for the answer to such a one must not be left with a stream that never speaks of it.
#[tokio::test]
async fn an_answer_to_any_id_is_told_as_lost() {
    let (tool, mut puppet) = puppet("work");
    let running = serve(server().tool(tool).key([7; 32])).await;
    let visitor = Visitor::new(&running).await;
    let after = serve(server().key([7; 32])).await;
    for id in [json!("two words"), json!("ü"), json!("x".repeat(100))] {
        let (connection, event) = begin(&running, &visitor, id.clone(), &mut puppet).await;
        drop(connection);
        puppet.finish().await;
        let mut connection = after.connect().await;
        connection.send(&visitor.get_after(&event.id)).await;
        let head = connection.head().await;
        if head.status == 200 {
            let told = connection.next_event().await.expect("an error is told");
            assert!(told.data.contains("error"), "{id} is waited for: {told:?}");
        }
    }
}

#[tokio::test]
async fn coming_back_for_a_call_leaves_the_stream_of_the_session() {
    let (tool, mut puppet) = puppet("work");
    let running = serve(server().tool(tool)).await;
    let visitor = Visitor::new(&running).await;
    let mut standing = running.connect().await;
    standing.open_stream(&visitor.get()).await;
    let (connection, event) = begin(&running, &visitor, json!(1), &mut puppet).await;
    drop(connection);
    let mut again = running.connect().await;
    again.open_stream(&visitor.get_after(&event.id)).await;
    puppet
        .act(|cx| {
            cx.server().remove_tool("quick");
        })
        .await;
    let heard = standing.next_message().await.json();
    assert_eq!(heard["method"], "notifications/tools/list_changed");
    puppet.finish().await;
    assert_eq!(again.rest().await.len(), 1);
}

#[tokio::test]
async fn who_comes_back_takes_over_from_the_broken_connection() {
    let (tool, mut puppet) = puppet("work");
    let running = serve(server().tool(tool)).await;
    let visitor = Visitor::new(&running).await;
    let (mut first, event) = begin(&running, &visitor, json!(1), &mut puppet).await;
    let mut second = running.connect().await;
    second.open_stream(&visitor.get_after(&event.id)).await;
    // Each message is on one stream only.
    assert!(first.next_event().await.is_none());
    puppet.finish().await;
    assert_eq!(second.rest().await.len(), 1);
}

#[tokio::test]
async fn an_event_that_never_was_opens_the_stream_of_the_session() {
    let running = serve(server()).await;
    let visitor = Visitor::new(&running).await;
    for name in [
        "",
        "x",
        "1-2-3-4",
        "ffffffffffffffff-1",
        "99999999999999999999-99",
        "-",
        "é",
    ] {
        let mut stream = running.connect().await;
        stream.open_stream(&visitor.get_after(name)).await;
    }
    let call = running.ask(&visitor.call(1, "quick")).await;
    assert_eq!(call.json()["result"]["content"][0]["text"], "quick");
}

/// Everything at once, on several threads: each call is answered once, whenever its connection broke.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_calls_that_lose_their_connections_are_all_answered() {
    let chatty = Tool::new("chatty", |_: NoArgs, cx: Cx| async move {
        for number in 0..20 {
            cx.log(LoggingLevel::Error, number);
            tokio::task::yield_now().await;
        }
        "done"
    });
    let running = serve(server().tool(chatty.read_only())).await;
    let mut visits = JoinSet::new();
    let visitors = [Visitor::new(&running).await, Visitor::new(&running).await];
    for id in 0..60 {
        let (call, address) = (visitors[id % 2].call(id, "chatty"), running.address);
        let get = visitors[id % 2].get();
        visits.spawn(async move {
            let mut connection = Connection::open(address).await;
            connection.open_stream(&call).await;
            let mut heard = Vec::new();
            for _ in 0..id % 7 {
                let event = connection.next_message().await;
                heard.push((event.id.clone(), event.json()));
            }
            if let Some((last, _)) = heard.last() {
                connection = Connection::open(address).await;
                connection
                    .open_stream(&get.with("last-event-id", last))
                    .await;
            }
            let mut said: Vec<_> = heard.into_iter().map(|(_, said)| said).collect();
            said.extend(connection.rest().await);
            let answer = said.pop().expect("a call is answered");
            assert_eq!(answer["id"], id);
            let numbers = said
                .iter()
                .filter_map(|said| said["params"]["data"].as_u64());
            assert_eq!(numbers.collect::<Vec<_>>(), Vec::from_iter(0..20), "{id}");
        });
    }
    while let Some(visited) = visits.join_next().await {
        visited.unwrap();
    }
}

/// Begins a call that says a word; its connection and the event of that word.
async fn begin(
    running: &Running,
    visitor: &Visitor,
    id: Value,
    puppet: &mut Puppet,
) -> (Connection, Event) {
    let mut connection = running.connect().await;
    connection.send(&visitor.call(id, "work")).await;
    puppet.started().await;
    puppet.log("0").await;
    connection.head().await;
    let event = connection.next_message().await;
    assert_eq!(event.json()["params"]["data"], "0");
    (connection, event)
}

fn data(messages: &[Value]) -> Vec<&str> {
    messages
        .iter()
        .filter_map(|message| message["params"]["data"].as_str())
        .collect()
}
