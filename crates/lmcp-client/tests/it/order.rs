//! The order of the client's messages, and the limit of requests that run at once.

use lmcp_client::{Event, Settings};
use serde_json::json;

use crate::{
    site::{Site, accepted, json as answer},
    support::{Client, MODERN, NEWEST, hanging, serve, server, text, while_linked},
};

fn echo(request: &crate::site::Request) -> Option<Vec<u8>> {
    let message = request.json();
    Some(match (&message["id"], &message["method"]) {
        (id, method) if !id.is_null() && !method.is_null() => {
            answer(&json!({ "jsonrpc": "2.0", "id": id, "result": {} }))
        }
        _ => accepted(),
    })
}

#[tokio::test]
async fn messages_begin_in_the_order_in_which_they_were_sent() {
    let mut site = Site::new(echo).await;
    let mut client = Client::open(Settings::new(site.url()), NEWEST).await;
    let mut last = 0;
    for _ in 0..100 {
        last = client.begin("ping", json!({ "padding": "x".repeat(2000) }));
        client.tell("notifications/progress", &json!({ "after": last }));
    }
    // Requests may be answered in any order; the server's side shows that all are answered.
    let mut answered = 0;
    while answered < 100 {
        match client.event().await {
            Event::Line(_) => answered += 1,
            Event::Room => {}
            other => panic!("{other:?}"),
        }
    }
    client.ask("ping", json!({})).await;
    let mut requests = Vec::new();
    for _ in 0..200 {
        requests.push(site.request().await.json());
    }
    // A notification arrives after its request and before the next one, because the link waits until it is accepted.
    let place =
        |wanted: &dyn Fn(&serde_json::Value) -> bool| requests.iter().position(wanted).unwrap();
    for id in 1..=last {
        let request = place(&|message| message["id"] == id);
        let after = place(&|message| message["params"]["after"] == id);
        assert!(request / 2 == after / 2, "{id}: {request} {after}");
    }
}

#[tokio::test]
async fn a_call_that_takes_long_holds_up_nobody() {
    let (tool, mut watcher) = hanging("hang");
    let running = serve(server().tool(tool)).await;
    for revision in [NEWEST, MODERN] {
        let mut client = Client::ready(Settings::new(running.url()), revision).await;
        client.begin_call("hang");
        while_linked(&mut client, watcher.started()).await;
        for _ in 0..20 {
            assert_eq!(text(&client.call("quick").await), "quick");
        }
    }
}

#[tokio::test]
async fn no_more_requests_are_on_their_way_than_allowed() {
    let mut site = Site::new(|request| match &*request.method() {
        "hang" => None,
        _ => echo(request),
    })
    .await;
    let mut settings = Settings::new(site.url());
    settings.requests = 3;
    let mut client = Client::open(settings, NEWEST).await;
    for _ in 0..5 {
        client.begin("hang", json!({}));
    }
    client.tell("notifications/progress", &json!({}));
    let mut seen = Vec::new();
    while_linked(&mut client, async {
        while seen.len() < 4 {
            seen.push(site.request().await.method());
        }
    })
    .await;
    // The notification overtook the two waiting requests.
    seen.sort();
    assert_eq!(seen, ["hang", "hang", "hang", "notifications/progress"]);
    // The link waits until the notification is accepted before it begins anything else.
    client.tell("notifications/progress", &json!({}));
    assert_eq!(
        while_linked(&mut client, site.request()).await.method(),
        "notifications/progress"
    );
    assert!(!site.has_request());
}

#[tokio::test]
async fn a_full_queue_says_so_and_says_when_it_is_not() {
    let site = Site::new(echo).await;
    let mut client = Client::open(Settings::new(site.url()), NEWEST).await;
    let mut sent = 0;
    while client.link.has_room() {
        client.begin("ping", json!({}));
        sent += 1;
        assert!(sent < 1000);
    }
    let (mut answered, mut has_room) = (0, 0);
    while answered < sent {
        match client.event().await {
            Event::Line(_) => answered += 1,
            Event::Room => has_room += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((has_room, client.link.has_room()), (1, true));
}

#[tokio::test]
async fn what_no_queue_takes_is_answered_all_the_same() {
    let site = Site::new(|_| None).await;
    let mut client = Client::open(Settings::new(site.url()), NEWEST).await;
    for _ in 0..4096 {
        client.begin("ping", json!({}));
    }
    let over = client.begin("ping", json!({}));
    client.tell("notifications/progress", &json!({}));
    let answer = client.answer(over).await;
    assert_eq!(answer["error"]["data"]["retriable"], true, "{answer}");
}
