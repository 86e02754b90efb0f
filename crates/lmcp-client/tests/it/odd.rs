//! Servers that want something else, answer in odd ways, or are not MCP servers.

use lmcp_client::{Event, Secret, Settings};
use lmcp_http::bearer;
use serde_json::{Value, json};

use crate::{
    site::{Request, Site, events, json as answer, respond, respond_with},
    support::{Client, MODERN, NEWEST, serve_at, server, text},
};

#[tokio::test]
async fn a_token_opens_and_its_lack_is_told() {
    let running = serve_at("127.0.0.1:0", server(), |http| {
        http.identify(|headers| match bearer(headers) {
            Some("s3cret") => Ok(None),
            _ => Err("a token is needed".into()),
        })
    })
    .await;
    for revision in [NEWEST, MODERN] {
        let mut settings = Settings::new(running.url());
        settings.bearer = Some(Secret::new("s3cret\n"));
        let mut client = Client::ready(settings, revision).await;
        assert_eq!(text(&client.call("quick").await), "quick");
        for token in [None, Some(Secret::new("wrong"))] {
            let mut settings = Settings::new(running.url());
            settings.bearer = token;
            let mut client = Client::open(settings, revision).await;
            client.begin_call("quick");
            let [Event::Unauthorized(words)] = &*client.end().await else {
                panic!("nobody is let in without")
            };
            assert!(
                words.contains("401") && words.contains("wants a token"),
                "{words}"
            );
            assert!(!words.contains("--token-file"), "{words}");
            assert!(!words.contains("wrong"), "{words}");
        }
    }
}

/// Returns the event that a first request leads to.
async fn first(reply: impl Fn(&Request) -> Option<Vec<u8>> + Send + Sync + 'static) -> Event {
    let site = Site::new(reply).await;
    let mut client = Client::open(Settings::new(site.url()), NEWEST).await;
    client.begin_handshake();
    client.event().await
}

#[tokio::test]
async fn what_is_no_mcp_server_is_refused_with_words() {
    for (reply, words) in [
        (
            respond("200 OK", "text/html; charset=utf-8", "<html>"),
            "`text/html`",
        ),
        (respond("200 OK", "application/json", ""), "empty"),
        (
            respond("200 OK", "application/json", "{}"),
            "not one to this request",
        ),
        (respond("200 OK", "image/png", "x"), "`image/png`"),
        (respond("404 Not Found", "text/html", "<html>"), "/mcp"),
        (
            respond("405 Method Not Allowed", "text/html", ""),
            "no POST",
        ),
        (respond("403 Forbidden", "text/plain", "go away"), "403"),
        (respond("202 Accepted", "text/plain", ""), "empty"),
        (
            respond_with(
                "302 Found",
                &[("location", "https://there.example/mcp")],
                "",
            ),
            "`https://there.example/mcp`",
        ),
        (
            respond_with(
                "200 OK",
                &[
                    ("content-type", "application/json"),
                    ("content-encoding", "gzip"),
                ],
                "x",
            ),
            "compressed",
        ),
    ] {
        let shown = String::from_utf8_lossy(&reply).into_owned();
        let event = first(move |_| Some(reply.clone())).await;
        let Event::Refused(found) = &event else {
            panic!("{shown}: {event:?}")
        };
        assert!(found.contains(words), "{shown}: {found}");
    }
}

#[tokio::test]
async fn a_gateway_without_a_server_behind_it_is_a_server_that_is_gone() {
    for status in [
        "502 Bad Gateway",
        "503 Service Unavailable",
        "429 Too Many Requests",
    ] {
        let event = first(move |_| Some(respond(status, "text/html", "<html>"))).await;
        assert!(matches!(event, Event::Lost(_)), "{status}: {event:?}");
    }
    // A port where no HTTP is spoken.
    let event = first(|_| Some(b"SSH-2.0-OpenSSH_9.9\r\n".to_vec())).await;
    let Event::Failure(line) = event else {
        panic!("{event:?}")
    };
    let line: Value = serde_json::from_slice(&line).unwrap();
    assert_eq!(line["error"]["data"]["retriable"], true);
}

/// Returns the messages that a request leads to, at a server that has spoken MCP before.
async fn later(reply: impl Fn(&Value) -> Vec<u8> + Send + Sync + 'static) -> Vec<Value> {
    let site = Site::new(move |request| {
        let message = request.json();
        Some(match request.method() == "odd" {
            true => reply(&message),
            false => answer(&json!({ "jsonrpc": "2.0", "id": message["id"], "result": {} })),
        })
    })
    .await;
    let mut settings = Settings::new(site.url());
    settings.message_bytes = 1 << 16;
    let mut client = Client::open(settings, NEWEST).await;
    client.ask("ping", json!({})).await;
    let id = client.begin("odd", json!({}));
    let heard = client.answer_and_before(id).await;
    // The link still works, and no answer comes twice.
    let next = client.begin("ping", json!({}));
    assert_eq!(client.answer_and_before(next).await.len(), 1);
    heard
}

#[tokio::test]
async fn answers_that_are_begun_and_never_ended_are_held_in_bounded_memory() {
    for kind in ["application/json", "text/event-stream"] {
        let site = Site::new(move |request| {
            let message = request.json();
            let head = format!(
                "HTTP/1.1 200 OK\r\nconnection: keep-alive\r\ncontent-type: {kind}\r\n\r\ndata: "
            );
            Some(match request.method() == "odd" {
                true => (head + &"x".repeat(900_000)).into_bytes(),
                false => answer(&json!({ "jsonrpc": "2.0", "id": message["id"], "result": {} })),
            })
        })
        .await;
        let mut settings = Settings::new(site.url());
        settings.message_bytes = 1 << 20;
        let mut client = Client::open(settings, NEWEST).await;
        client.ask("ping", json!({})).await;
        for _ in 0..6 {
            client.begin("odd", json!({}));
        }
        for _ in 0..2 {
            let refused = client.message().await;
            assert_eq!(refused["error"]["data"]["retriable"], true, "{refused}");
        }
        assert_eq!(client.ask("ping", json!({})).await["result"], json!({}));
    }
}

/// Once, interim answers were read in one go for as long as they came, and no other task had a turn.
#[tokio::test]
async fn an_answer_behind_interim_ones_without_end_is_refused_in_words() {
    for (count, is_heard) in [(0, true), (100, true), (40_000, false)] {
        let heard = later(move |message| {
            let mut text = b"HTTP/1.1 100 Continue\r\n\r\n".repeat(count);
            let result = json!({ "jsonrpc": "2.0", "id": message["id"], "result": {} });
            text.extend(answer(&result));
            text
        })
        .await;
        let [one] = &*heard else {
            panic!("one answer: {heard:?}")
        };
        assert_eq!(one["result"].is_object(), is_heard, "{count}: {one}");
        let words = one["error"]["message"].as_str().unwrap_or_default();
        assert_eq!(
            words.contains("256 KiB of interim answers"),
            !is_heard,
            "{words}"
        );
    }
}

type Reply = Box<dyn Fn(&Value) -> Vec<u8> + Send + Sync>;

/// Responses that are not answers, each with its name and whether another try helps.
fn odd_answers() -> Vec<(&'static str, Reply, bool)> {
    let result = |id: &Value| json!({ "jsonrpc": "2.0", "id": id, "result": { "fine": true } });
    vec![
        (
            "html",
            Box::new(|_| respond("200 OK", "text/html", "<html>")),
            false,
        ),
        (
            "503",
            Box::new(|_| respond("503 Busy", "text/plain", "later")),
            true,
        ),
        (
            "404",
            Box::new(|_| respond("404 Not Found", "text/plain", "")),
            false,
        ),
        (
            "405",
            Box::new(|_| respond("405 No", "text/plain", "")),
            false,
        ),
        (
            "empty",
            Box::new(|_| respond("200 OK", "application/json", "")),
            false,
        ),
        (
            "202",
            Box::new(|_| respond("202 Accepted", "text/plain", "")),
            false,
        ),
        (
            "cut json",
            Box::new(|_| respond("200 OK", "application/json", "{\"id\"")),
            false,
        ),
        (
            "other id",
            Box::new(move |_| answer(&result(&json!(999)))),
            false,
        ),
        ("end", Box::new(|_| Vec::new()), true),
        ("no events", Box::new(|_| events("")), true),
        (
            "half an event",
            Box::new(|_| events("data: {\"jsonrpc\"")),
            true,
        ),
        (
            "only comments",
            Box::new(|_| events(": a\n\n: b\n\n")),
            true,
        ),
        ("not json", Box::new(|_| events("data: hello\n\n")), true),
        (
            "too long",
            Box::new(|_| respond("200 OK", "application/json", &"x".repeat((1 << 16) + 1))),
            false,
        ),
        (
            "too long without a length",
            Box::new(|_| {
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n";
                [head, &"x".repeat((1 << 16) + 1)].concat().into_bytes()
            }),
            false,
        ),
        (
            "event too long",
            Box::new(|_| events(&format!("data: {}", "x".repeat(1 << 17)))),
            false,
        ),
    ]
}

#[tokio::test]
async fn every_odd_answer_is_an_answer() {
    for (name, reply, is_retriable) in odd_answers() {
        let heard = later(reply).await;
        let answer = heard.last().unwrap();
        assert_eq!(
            answer["error"]["data"]["retriable"], is_retriable,
            "{name}: {heard:?}"
        );
        assert_eq!(heard.len(), 1, "{name}: {heard:?}");
    }
}

#[tokio::test]
async fn strange_forms_of_good_answers_are_understood() {
    let result = r#"{ "jsonrpc": "2.0",
        "id": 2, "result": {} }"#;
    let replies: Vec<(Reply, usize)> = vec![
        (
            Box::new(move |_| respond("200 OK", "application/json; charset=utf-8", result)),
            1,
        ),
        (
            Box::new(move |_| respond("200 OK", "Application/JSON", &format!("\r\n{result}\n"))),
            1,
        ),
        (Box::new(move |_| respond("200 OK", "", result)), 1),
        (
            Box::new(move |_| respond("400 Bad Request", "application/json", result)),
            1,
        ),
        (
            Box::new(move |_| events(&format!("data: {}\n\n", result.replace('\n', "\ndata: ")))),
            1,
        ),
        (
            Box::new(move |_| {
                events(
                    "\u{feff}event: message\r\ndata: {\"method\":\"a\"}\r\n\r\ndata: {\"id\":2,\"result\":{}}\r\n\r\n",
                )
            }),
            2,
        ),
        // The same answer twice counts once.
        (
            Box::new(move |_| {
                events("data: {\"id\":2,\"result\":{}}\n\ndata: {\"id\":2,\"result\":{}}\n\n")
            }),
            1,
        ),
    ];
    for (at, (reply, count)) in replies.into_iter().enumerate() {
        let heard = later(reply).await;
        assert_eq!(heard.len(), count, "{at}: {heard:?}");
        assert_eq!(heard.last().unwrap()["result"], json!({}), "{at}");
    }
}

#[tokio::test]
async fn an_error_without_an_id_is_the_answer_to_what_was_sent() {
    let body =
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no","data":{"a":1}}}"#;
    let heard = later(|_| respond("400 Bad Request", "application/json", body)).await;
    assert_eq!(
        heard[0]["error"],
        json!({ "code": -32000, "message": "no", "data": { "a": 1 } })
    );
}
