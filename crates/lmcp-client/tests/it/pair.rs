//! HTTP+SSE, the transport of 2024-11-05: used after the server refused the newer transport, and lost with its stream.

use lmcp_client::{Endpoint, Event, Settings};
use serde_json::json;

use crate::{
    site::{Request, Site, events, respond},
    support::{Client, LEGACY, MODERN, NEWEST, hanging, serve_at, server, text, while_linked},
};

fn at(address: impl std::fmt::Display) -> Settings {
    Settings::new(format!("http://{address}/sse"))
}

#[tokio::test]
async fn a_server_that_takes_no_post_is_spoken_with_by_its_stream() {
    let (hang, mut watcher) = hanging("hang");
    let old = serve_at("127.0.0.1:0", server().tool(hang), |http| http.legacy_sse()).await;
    for revision in LEGACY {
        let mut client = Client::ready(at(old.address), revision).await;
        assert_eq!(text(&client.call("quick").await), "quick", "{revision}");
        let id = client.begin_call("hang");
        while_linked(&mut client, watcher.started()).await;
        client.tell("notifications/cancelled", &json!({ "requestId": id }));
        while_linked(&mut client, watcher.dropped()).await;
        assert_eq!(text(&client.call("quick").await), "quick", "{revision}");
        client.link.close().await;
    }
}

#[tokio::test]
async fn a_question_of_a_revision_without_handshake_is_not_put_to_it() {
    let old = serve_at("127.0.0.1:0", server(), |http| http.legacy_sse()).await;
    let mut client = Client::open(at(old.address), MODERN).await;
    let answer = client.ask("server/discover", json!({})).await;
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
}

#[tokio::test]
async fn questions_of_the_server_are_answered_on_the_way() {
    let old = serve_at("127.0.0.1:0", server(), |http| http.legacy_sse()).await;
    let mut client = Client::ready(at(old.address), NEWEST).await;
    let id = client.begin_call("greet");
    let question = client.message().await;
    assert_eq!(question["method"], "elicitation/create");
    client.say(&json!({
        "jsonrpc": "2.0",
        "id": question["id"],
        "result": { "action": "accept", "content": { "name": "Ann" } },
    }));
    assert_eq!(text(&client.answer(id).await), "Hello, Ann!");
}

#[tokio::test]
async fn a_server_that_is_lost_is_spoken_with_again() {
    let mut old = serve_at("127.0.0.1:0", server(), |http| http.legacy_sse()).await;
    let endpoint = Endpoint::new(at(old.address)).unwrap();
    let mut client = Client::at(&endpoint, NEWEST).await;
    client.handshake().await;
    assert_eq!(text(&client.call("quick").await), "quick");
    old.kill().await;
    let [Event::Lost(why)] = &*client.end().await else {
        panic!("the stream is the session")
    };
    assert!(why.contains("/sse` closed its stream"), "{why}");
    let address = old.address.to_string();
    let mut again = serve_at(&address, server(), |http| http.legacy_sse()).await;
    let mut client = Client::at(&endpoint, NEWEST).await;
    client.handshake().await;
    assert_eq!(text(&client.call("quick").await), "quick");
    // The next server at this address may speak the newer transport.
    again.kill().await;
    let _newer = serve_at(&address, server(), |http| http.path("/sse")).await;
    let mut client = Client::at(&endpoint, NEWEST).await;
    client.handshake().await;
    assert_eq!(text(&client.call("quick").await), "quick");
}

/// Returns the event that a first request leads to, and the requests that the site got.
async fn first(stream: &'static str) -> (Event, Vec<String>) {
    let reply = move |request: &Request| {
        Some(match &*request.verb {
            "GET" => events(stream),
            _ => respond("405 Method Not Allowed", "text/plain", "no"),
        })
    };
    let mut site = Site::new(reply).await;
    let mut client = Client::open(Settings::new(site.url()), NEWEST).await;
    client.begin_handshake();
    let event = client.event().await;
    let mut asked = Vec::new();
    while site.has_request() {
        asked.push(site.request().await.verb);
    }
    (event, asked)
}

#[tokio::test]
async fn messages_go_to_nobody_else() {
    for stream in [
        "event: endpoint\ndata: http://127.0.0.1:1/messages\n\n",
        "event: endpoint\ndata: //localhost/messages\n\n",
        "event: endpoint\ndata: https://127.0.0.1/messages\n\n",
        "event: endpoint\ndata: file:///messages\n\n",
        "data: {}\n\n",
        "",
    ] {
        let (event, asked) = first(stream).await;
        assert!(
            matches!(&event, Event::Refused(why) if why.contains("405") && why.contains("no POST")),
            "{stream}: {event:?}"
        );
        assert_eq!(asked, ["POST", "GET"], "{stream}");
    }
}

#[tokio::test]
async fn an_answer_that_is_too_long_is_told_and_ends_the_stream() {
    let reply = |request: &Request| {
        let first = "event: endpoint\ndata: ?messages\n\n";
        Some(match (&*request.verb, request.target.contains('?')) {
            ("GET", _) => events(&format!("{first}data: {}\n\n", "x".repeat(2000))),
            (_, true) => return None,
            _ => respond("404 Not Found", "text/plain", "no"),
        })
    };
    let site = Site::new(reply).await;
    let mut settings = Settings::new(site.url());
    settings.message_bytes = 1000;
    let mut client = Client::open(settings, NEWEST).await;
    let id = client.begin_handshake();
    let events = client.end().await;
    let Some(Event::Lost(why)) = events.last() else {
        panic!("{events:?}")
    };
    assert!(why.contains("more at once"), "{why}");
    // The waiting request was failed, or its message comes back to be sent again.
    match &events[..events.len() - 1] {
        [Event::Failure(line)] => assert!(String::from_utf8_lossy(line).contains("1000 bytes")),
        [Event::Unsent(line)] => assert!(String::from_utf8_lossy(line).contains("initialize")),
        other => panic!("{id}: {other:?}"),
    }
}
