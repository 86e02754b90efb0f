//! Sessions of the older revisions: the headers of every request, the server's own messages, and the end of a session.

use lmcp_client::{Event, Settings};
use serde_json::{Value, json};

use crate::{
    site::{Request, Site, accepted, events, json as answer, respond, respond_with},
    support::{
        Client, LEGACY, MODERN, NEWEST, serve, serve_at, server, text, unsent, while_linked,
    },
};

/// Makes handshakes, answers everything, and has no standing stream.
fn plain(request: &Request) -> Option<Vec<u8>> {
    let message = request.json();
    let result = |result: Value| {
        json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }).to_string()
    };
    Some(match &*request.method() {
        "initialize" => {
            let version = &message["params"]["protocolVersion"];
            let body =
                result(json!({ "protocolVersion": version, "capabilities": {}, "serverInfo": {} }));
            respond_with(
                "200 OK",
                &[
                    ("content-type", "application/json"),
                    ("mcp-session-id", "abc"),
                ],
                &body,
            )
        }
        "GET" => respond_with("405 Method Not Allowed", &[], ""),
        _ if message["id"].is_null() || message["method"].is_null() => accepted(),
        _ => answer(&serde_json::from_str(&result(json!({}))).unwrap()),
    })
}

#[tokio::test]
async fn session_and_revision_go_with_everything_after_the_handshake() {
    let mut site = Site::new(plain).await;
    let mut settings = Settings::new(site.url());
    settings.headers.insert("x-own", "here".parse().unwrap());
    let mut client = Client::ready(settings, "2025-06-18").await;
    client.ask("ping", json!({})).await;
    client.tell("notifications/progress", &json!({}));
    let mut requests = Vec::new();
    while_linked(&mut client, async {
        while requests.len() < 5 {
            requests.push(site.request().await);
        }
    })
    .await;
    client.link.close().await;
    requests.push(site.request().await);
    let mut seen = Vec::new();
    for request in requests {
        assert_eq!(request.header("x-own"), Some("here"));
        assert_eq!(request.header("host"), Some(&*site.address.to_string()));
        let is_first = request.method() == "initialize";
        let expected = (!is_first).then_some(("abc", "2025-06-18"));
        let sent = request
            .header("mcp-session-id")
            .zip(request.header("mcp-protocol-version"));
        assert_eq!(sent, expected, "{request:?}");
        if request.verb == "POST" {
            assert_eq!(
                request.header("accept"),
                Some("application/json, text/event-stream")
            );
            assert_eq!(request.header("content-type"), Some("application/json"));
        }
        seen.push(request.method());
    }
    seen.sort();
    assert_eq!(
        seen,
        [
            "DELETE",
            "GET",
            "initialize",
            "notifications/initialized",
            "notifications/progress",
            "ping"
        ]
    );
}

#[tokio::test]
async fn a_new_handshake_begins_without_the_old_session() {
    let mut site = Site::new(plain).await;
    let mut client = Client::ready(Settings::new(site.url()), NEWEST).await;
    client.handshake().await;
    client.ask("ping", json!({})).await;
    let mut handshakes = 0;
    while handshakes < 2 {
        let request = site.request().await;
        if request.method() == "initialize" {
            handshakes += 1;
            assert_eq!(request.header("mcp-session-id"), None);
        }
    }
}

#[tokio::test]
async fn what_changes_is_told_on_the_servers_own_stream() {
    let running = serve(server()).await;
    for revision in LEGACY {
        let mut client = Client::ready(Settings::new(running.url()), revision).await;
        let id = client.begin_call("grow");
        let (mut grown, mut told) = (false, false);
        while !(grown && told) {
            let message = client.message().await;
            grown |= message["id"] == id;
            told |= message["method"] == "notifications/tools/list_changed";
        }
    }
}

#[tokio::test]
async fn what_changes_is_told_to_a_subscription() {
    let running = serve(server()).await;
    let mut client = Client::ready(Settings::new(running.url()), MODERN).await;
    let filter = json!({ "notifications": { "toolsListChanged": true } });
    client.begin("subscriptions/listen", filter);
    assert_eq!(
        client.message().await["method"],
        "notifications/subscriptions/acknowledged"
    );
    let id = client.begin_call("grow");
    let (mut grown, mut told) = (false, false);
    while !(grown && told) {
        let message = client.message().await;
        grown |= message["id"] == id;
        told |= message["method"] == "notifications/tools/list_changed";
    }
}

#[tokio::test]
async fn a_question_is_answered_while_its_call_waits() {
    let running = serve(server()).await;
    for revision in ["2025-06-18", NEWEST] {
        let mut settings = Settings::new(running.url());
        // The call takes the only place for requests; an answer needs none.
        settings.requests = 1;
        let mut client = Client::ready(settings, revision).await;
        let id = client.begin_call("greet");
        let after = client.begin_call("quick");
        let question = client.message().await;
        assert_eq!(question["method"], "elicitation/create");
        let result = json!({ "action": "accept", "content": { "name": "Ann" } });
        client.say(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": result }));
        assert_eq!(text(&client.answer(id).await), "Hello, Ann!");
        assert_eq!(text(&client.answer(after).await), "quick");
    }
}

#[tokio::test]
async fn a_session_that_is_not_known_any_more_loses_the_link_and_nothing_else() {
    let mut before = serve(server()).await;
    let address = before.address.to_string();
    let mut client = Client::ready(Settings::new(before.url()), NEWEST).await;
    assert_eq!(text(&client.call("quick").await), "quick");
    before.kill().await;
    // With another key, the server knows none of the earlier sessions.
    let after = serve_at(&address, server(), |http| http).await;
    let ids = [client.begin_call("quick"), client.begin_call("quick")];
    let events = client.end().await;
    let call = |id: i64| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": "quick" } });
    let handed_back = events
        .iter()
        .filter(|event| matches!(event, Event::Unsent(_)));
    let expected = ids.map(|id| unsent(&call(id)));
    assert_eq!(handed_back.cloned().collect::<Vec<_>>(), expected);
    assert!(matches!(events.last(), Some(Event::Lost(_))), "{events:?}");
    let mut again = Client::ready(Settings::new(after.url()), NEWEST).await;
    assert_eq!(text(&again.call("quick").await), "quick");
}

#[tokio::test]
async fn servers_that_say_400_for_a_session_they_do_not_know_are_understood() {
    let site = Site::new(|request| match &*request.method() {
        "ping" => {
            let body = r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}"#;
            Some(respond("400 Bad Request", "application/json", body))
        }
        _ => plain(request),
    })
    .await;
    let mut client = Client::ready(Settings::new(site.url()), NEWEST).await;
    client.begin("ping", json!({}));
    let events = client.end().await;
    assert!(
        matches!(&*events, [Event::Unsent(_), Event::Lost(_)]),
        "{events:?}"
    );
}

#[tokio::test]
async fn a_stream_of_the_servers_own_is_opened_again_where_it_ended() {
    let mut site = Site::new(|request| match (&*request.method(), request.header("last-event-id")) {
        ("GET", None) => Some(events("id: 7\nretry: 20\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"a\"}\n\n")),
        ("GET", Some("7")) => Some(events("data: {\"jsonrpc\":\"2.0\",\"method\":\"b\"}\n\n: x\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":9,\"result\":{}}\n\nid: 8\n\n")),
        ("GET", Some(_)) => None,
        _ => plain(request),
    })
    .await;
    let mut client = Client::ready(Settings::new(site.url()), NEWEST).await;
    assert_eq!(client.message().await["method"], "a");
    assert_eq!(client.message().await["method"], "b");
    // The standing stream brings no answers. The third time, it stays open without an event, and everything else works.
    assert_eq!(client.ask("ping", json!({})).await["result"], json!({}));
    while_linked(&mut client, async {
        while site.request().await.header("last-event-id") != Some("8") {}
    })
    .await;
}

#[tokio::test]
async fn the_stream_of_the_server_is_opened_before_anything_is_asked() {
    let mut site = Site::new(plain).await;
    let mut client = Client::ready(Settings::new(site.url()), NEWEST).await;
    client.ask("ping", json!({})).await;
    let mut seen = Vec::new();
    for _ in 0..4 {
        seen.push(site.request().await.method());
    }
    let expected = ["initialize", "notifications/initialized", "GET", "ping"];
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn an_answer_on_the_stream_of_the_server_is_an_answer() {
    let site = Site::new(|request| match &*request.method() {
        "ping" => None,
        // The handshake was the first request.
        "GET" => Some(events(
            "retry: 1\ndata: {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"here\":true}}\n\n",
        )),
        _ => plain(request),
    })
    .await;
    let mut client = Client::ready(Settings::new(site.url()), NEWEST).await;
    let answer = client.ask("ping", json!({})).await;
    assert_eq!(answer["result"]["here"], true, "{answer}");
}
