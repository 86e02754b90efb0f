//! Connections that break: every request still has exactly one answer.

use lmcp_client::{Endpoint, Event, Settings};
use serde_json::{Value, json};

use crate::{
    site::{Site, events, json as answer, respond_with},
    support::{Client, LEGACY, MODERN, NEWEST, server, text, while_linked},
    wire::Wire,
};

/// Cuts the answer to a call after this number of bytes. Returns the final answer, and whether the answer was long enough to
/// be cut.
async fn cut_at(client: &mut Client, wire: &Wire, bytes: usize) -> (Value, bool) {
    let cuts = wire.cuts();
    wire.cut("tools/call", bytes);
    let id = client.begin_call("speak");
    let answer = client.answer(id).await;
    // The link still works, and no answer comes twice.
    let next = client.begin("tools/list", json!({}));
    let heard = client.answer_and_before(next).await;
    assert!(
        heard.iter().all(|message| message["id"] != id),
        "at {bytes}: {heard:?}"
    );
    assert!(heard.last().unwrap()["result"]["tools"].is_array());
    (answer, wire.cuts() > cuts)
}

#[tokio::test]
async fn wherever_an_answer_is_cut_its_request_has_one_answer() {
    for revision in LEGACY.into_iter().chain([MODERN]) {
        let wire = Wire::new().await;
        let _running = wire.serve(server()).await;
        let mut client = Client::ready(Settings::new(wire.url()), revision).await;
        let mut resumed = 0;
        for bytes in (0..).step_by(7) {
            let (answer, was_cut) = cut_at(&mut client, &wire, bytes).await;
            let is_whole = text(&answer) == "spoken";
            if !was_cut {
                assert!(is_whole, "{revision} at {bytes}: {answer}");
                break;
            }
            resumed += usize::from(is_whole);
            let is_error = answer["error"]["data"]["retriable"] == true;
            assert!(is_whole || is_error, "{revision} at {bytes}: {answer}");
        }
        // Once an event with an id has arrived, nothing is lost any more. Events of 2026-07-28 have no ids; but if the
        // connection is cut after the answer, the call is answered.
        assert!(
            resumed > if revision == MODERN { 0 } else { 10 },
            "{revision}: {resumed}"
        );
    }
}

#[tokio::test]
async fn a_stream_that_its_server_ended_is_resumed_when_the_server_said() {
    let mut site =
        Site::new(
            |request| match (&*request.method(), request.header("last-event-id")) {
                ("work", _) => Some(events("id: a-1\nretry: 30\ndata:\n\n")),
                ("GET", Some("a-1")) => Some(events(
                    "id: a-2\ndata: {\"jsonrpc\":\"2.0\",\ndata: \"method\":\"note\"}\n\n",
                )),
                ("GET", Some("a-2")) => Some(events(
                    "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\r\n\r\n",
                )),
                _ => None,
            },
        )
        .await;
    let mut client = Client::open(Settings::new(site.url()), NEWEST).await;
    let id = client.begin("work", json!({}));
    let heard = client.answer_and_before(id).await;
    assert_eq!(
        (heard.len(), &heard[0]["method"], &heard[1]["result"]),
        (2, &json!("note"), &json!({}))
    );
    assert_eq!(site.request().await.method(), "work");
    assert_eq!(
        site.request().await.header("accept"),
        Some("text/event-stream")
    );
}

#[tokio::test]
async fn a_stream_that_cannot_be_resumed_is_answered_with_an_error() {
    for status in [
        "204 No Content",
        "405 Method Not Allowed",
        "400 Bad Request",
    ] {
        let site = Site::new(move |request| match &*request.method() {
            "work" => Some(events("id: a-1\ndata:\n\n")),
            _ => Some(respond_with(status, &[], "")),
        })
        .await;
        let mut client = Client::open(Settings::new(site.url()), NEWEST).await;
        let answer = client.ask("work", json!({})).await;
        assert_eq!(
            answer["error"]["data"]["retriable"], true,
            "{status}: {answer}"
        );
    }
}

#[tokio::test]
async fn the_servers_own_stream_goes_on_after_a_break_and_misses_nothing() {
    let wire = Wire::new().await;
    let _running = wire.serve(server()).await;
    let mut client = Client::ready(Settings::new(wire.url()), NEWEST).await;
    for _ in 0..3 {
        let id = client.begin_call("grow");
        let (mut grown, mut told) = (false, false);
        while !(grown && told) {
            let message = client.message().await;
            grown |= message["id"] == id && text(&message) == "grown";
            told |= message["method"] == "notifications/tools/list_changed";
        }
        while_linked(&mut client, wire.cut_all()).await;
    }
}

#[tokio::test]
async fn a_subscription_goes_on_after_a_break() {
    let wire = Wire::new().await;
    let _running = wire.serve(server()).await;
    let mut client = Client::ready(Settings::new(wire.url()), MODERN).await;
    client.begin(
        "subscriptions/listen",
        json!({ "notifications": { "toolsListChanged": true } }),
    );
    for _ in 0..2 {
        let message = client.message().await;
        assert_eq!(
            message["method"],
            "notifications/subscriptions/acknowledged"
        );
        wire.cut_all().await;
    }
    assert_eq!(
        client.message().await["method"],
        "notifications/subscriptions/acknowledged"
    );
    client.begin_call("grow");
    while client.message().await["method"] != "notifications/tools/list_changed" {}
}

#[tokio::test]
async fn a_connection_that_was_closed_while_idle_costs_nothing() {
    let wire = Wire::new().await;
    let _running = wire.serve(server()).await;
    for revision in [NEWEST, MODERN] {
        let mut client = Client::ready(Settings::new(wire.url()), revision).await;
        for _ in 0..20 {
            assert_eq!(text(&client.call("quick").await), "quick");
            while_linked(&mut client, wire.cut_all()).await;
        }
    }
}

#[tokio::test]
async fn a_call_whose_server_died_with_it_is_lost_with_the_link() {
    let site = Site::new(|request| match &*request.method() {
        "initialize" => Some(answer(
            &json!({ "jsonrpc": "2.0", "id": 1, "result": { "protocolVersion": NEWEST } }),
        )),
        _ => None,
    })
    .await;
    let endpoint = Endpoint::new(Settings::new(site.url())).unwrap();
    let mut client = Client::at(&endpoint, NEWEST).await;
    let id = client.begin_handshake();
    client.answer(id).await;
    client.begin("work", json!({}));
    let mut site = site;
    while while_linked(&mut client, site.request()).await.method() != "work" {}
    drop(site);
    let events = client.end().await;
    assert!(matches!(&*events, [Event::Lost(_)]), "{events:?}");
    assert!(endpoint.open().await.is_err());
}
