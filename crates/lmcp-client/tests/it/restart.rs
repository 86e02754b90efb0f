//! Servers that stop and start: lines that were not sent are handed back in order, and sent requests are answered or lost.

use std::{sync::Mutex, time::Duration};

use lmcp_client::{Endpoint, Error, Event, Settings};
use lmcp_core::{Cx, Limits, NoArgs, Tool};
use lmcp_testkit::soon;
use serde_json::{Value, json};
use tokio::{sync::oneshot, task::JoinSet, time::timeout};

use crate::support::{
    Client, MODERN, NEWEST, hanging, serve, serve_at, server, text, unsent, while_linked,
};

fn call(id: i64, tool: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": tool } })
}

#[tokio::test]
async fn a_server_that_is_not_there_cannot_be_opened() {
    let mut running = serve(server()).await;
    let endpoint = Endpoint::new(Settings::new(running.url())).unwrap();
    running.stop().await;
    let Err(Error::Unreachable(words)) = endpoint.open().await else {
        panic!("nobody is there")
    };
    assert!(
        words.contains(&running.url()) && words.contains("refused"),
        "{words}"
    );
}

#[tokio::test]
async fn what_was_not_sent_to_a_server_that_is_gone_comes_back_in_order() {
    let mut running = serve(server()).await;
    let endpoint = Endpoint::new(Settings::new(running.url())).unwrap();
    let mut client = Client::at(&endpoint, NEWEST).await;
    client.handshake().await;
    client.call("quick").await;
    running.kill().await;
    let ids = [(); 20].map(|()| client.begin_call("quick"));
    let progress = json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": {} });
    client.say(&progress);
    let events = client.end().await;
    let mut expected: Vec<_> = ids.map(|id| unsent(&call(id, "quick"))).into();
    expected.push(unsent(&progress));
    assert_eq!(events[..events.len() - 1], expected);
    assert!(
        matches!(events.last(), Some(Event::Lost(why)) if why.contains("refused")),
        "{events:?}"
    );
    // A line that is sent after the end comes back, too.
    client.say(&progress);
    assert_eq!(client.event().await, unsent(&progress));
    let address = running.address.to_string();
    let _after = serve_at(&address, server(), |http| http).await;
    let mut again = Client::at(&endpoint, NEWEST).await;
    again.handshake().await;
    assert_eq!(text(&again.call("quick").await), "quick");
}

#[tokio::test]
async fn an_idle_client_hears_that_its_server_is_gone() {
    let mut running = serve(server()).await;
    let mut client = Client::ready(Settings::new(running.url()), NEWEST).await;
    // The server's own stream is open after a message has come on it.
    client.begin_call("grow");
    while client.message().await["method"] != "notifications/tools/list_changed" {}
    running.kill().await;
    let events = client.end().await;
    assert!(
        matches!(&events[events.len() - 1], Event::Lost(_)),
        "{events:?}"
    );
}

#[tokio::test]
async fn a_server_that_is_closing_still_answers_what_it_has() {
    let (tool, mut watcher) = hanging("hang");
    let mut limits = Limits::default();
    limits.shutdown_wait = Duration::from_millis(200);
    let mut running = serve(server().tool(tool).limits(limits)).await;
    let mut client = Client::ready(Settings::new(running.url()), MODERN).await;
    let hung = client.begin_call("hang");
    while_linked(&mut client, watcher.started()).await;
    // The server is told to stop, and has a moment to end running calls.
    running.stop().await;
    let events = client.end().await;
    let told: Vec<Value> = events
        .iter()
        .filter_map(|event| match event {
            Event::Line(line) | Event::Failure(line) => serde_json::from_slice(line).ok(),
            _ => None,
        })
        .collect();
    assert!(
        told.len() <= 1 && told.iter().all(|line| line["id"] == hung),
        "{events:?}"
    );
}

#[tokio::test]
async fn a_call_of_a_session_is_answered_by_a_server_that_takes_no_more_connections() {
    let (begin, begun) = oneshot::channel::<()>();
    let (release, released) = oneshot::channel::<()>();
    let once = Mutex::new(Some((begin, released)));
    let tool = Tool::new("held", move |_: NoArgs, _: Cx| {
        let once = once.lock().unwrap().take();
        async move {
            let (begin, released) = once.expect("it is called once");
            drop(begin);
            let _ = released.await;
            "released"
        }
    });
    let mut limits = Limits::default();
    limits.shutdown_wait = Duration::from_secs(60);
    let mut running = serve(server().tool(tool.read_only()).limits(limits)).await;
    let mut client = Client::ready(Settings::new(running.url()), NEWEST).await;
    let held = client.begin_call("held");
    let _ = while_linked(&mut client, begun).await;
    let mut stopping = JoinSet::new();
    stopping.spawn(async move { running.stop().await });
    // Another call notices that the server takes no connections; both were given up 2 s later.
    let other = client.begin_call("quick");
    let early = timeout(Duration::from_secs(3), client.event()).await;
    assert!(early.is_err(), "{early:?}");
    drop(release);
    assert_eq!(text(&client.answer(held).await), "released");
    assert_eq!(client.event().await, unsent(&call(other, "quick")));
    assert!(matches!(client.event().await, Event::Lost(_)));
    soon(stopping.join_all()).await;
}

#[tokio::test]
async fn a_session_survives_a_restart_of_a_server_that_keeps_its_key() {
    let mut before = serve(server().key([9; 32])).await;
    let address = before.address.to_string();
    let mut client = Client::open(Settings::new(before.url()), NEWEST).await;
    // Without `initialized`, there is no standing stream whose end would be noticed.
    let id = client.begin_handshake();
    client.answer(id).await;
    assert_eq!(text(&client.call("quick").await), "quick");
    before.kill().await;
    let _after = serve_at(&address, server().key([9; 32]), |http| http).await;
    assert_eq!(text(&client.call("quick").await), "quick");
}
