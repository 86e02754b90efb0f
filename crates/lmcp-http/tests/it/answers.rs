//! In which form answers come: one JSON object, or a stream where something must come before the end.

use std::time::Duration;

use lmcp_core::{Cx, NoArgs, Server, Tool};
use serde_json::{Value, json};

use crate::support::{call, hanging, limits, request, serve, server};

#[tokio::test]
async fn the_form_of_an_answer_follows_the_accept_header() {
    let running = serve(speaking()).await;
    for (accept, status, streams) in [
        (None, 200, false),
        (Some("application/json"), 200, false),
        (Some("text/event-stream"), 200, true),
        (Some("application/json, text/event-stream"), 200, true),
        (
            Some("TEXT/Event-Stream;q=0.9 , application/JSON;q=0.1"),
            200,
            true,
        ),
        (Some("*/*"), 200, true),
        (Some("text/html"), 406, false),
    ] {
        let with = |post: crate::support::Post| match accept {
            Some(accept) => post.with("accept", accept),
            None => post.without("accept"),
        };
        let quick = running.ask(&with(call("quick"))).await;
        assert_eq!(quick.head.status, status, "{accept:?}");
        // Plain, unless the client takes nothing but events.
        let kind = match accept {
            Some("text/event-stream") => "text/event-stream",
            _ => "application/json",
        };
        assert_eq!(quick.head.get("content-type"), Some(kind), "{accept:?}");
        let spoken = running.ask(&with(call("speak"))).await;
        assert_eq!(spoken.head.status, status, "{accept:?}");
        if streams {
            assert_eq!(spoken.head.get("content-type"), Some("text/event-stream"));
            let messages = messages(&spoken.body);
            assert_eq!(messages[0]["method"], "notifications/progress");
            assert_eq!(messages[1]["result"]["content"][0]["text"], "spoken");
            assert_eq!(messages.len(), 2);
        } else if status == 200 {
            assert_eq!(spoken.json()["result"]["content"][0]["text"], "spoken");
        }
    }
}

#[tokio::test]
async fn a_subscription_needs_a_stream() {
    let running = serve(server()).await;
    let listen = request("subscriptions/listen", json!({ "notifications": {} }));
    for post in [
        listen.clone().with("accept", "application/json"),
        listen.without("accept"),
    ] {
        let answer = running.ask(&post).await;
        assert_eq!(answer.head.status, 406);
        assert_eq!(answer.json()["id"], 1);
    }
}

#[tokio::test]
async fn a_stream_is_not_to_be_buffered_or_cached() {
    let running = serve(speaking()).await;
    let answer = running.ask(&call("speak")).await;
    assert_eq!(answer.head.get("x-accel-buffering"), Some("no"));
    assert_eq!(answer.head.get("cache-control"), Some("no-cache"));
    for field in ["id:", "retry:"] {
        let mut lines = answer.body.lines();
        assert!(
            !lines.any(|line| line.starts_with(field)),
            "nothing can be resumed"
        );
    }
}

#[tokio::test]
async fn errors_come_with_a_status_even_to_those_who_take_streams() {
    let running = serve(server()).await;
    for (post, status, code) in [
        (request("no/such", json!({})), 404, -32601),
        (call("nobody"), 400, -32602),
        (call("quick").with("mcp-method", "tools/list"), 400, -32020),
        (call("quick").without("mcp-protocol-version"), 400, -32020),
    ] {
        let answer = running.ask(&post).await;
        assert_eq!(answer.head.status, status);
        assert_eq!(answer.head.get("content-type"), Some("application/json"));
        assert_eq!(
            (&answer.json()["error"]["code"], &answer.json()["id"]),
            (&json!(code), &json!(1))
        );
    }
}

#[tokio::test]
async fn a_panic_costs_one_answer() {
    async fn panics(_: NoArgs, _: Cx) -> String {
        panic!("a secret")
    }
    let running = serve(server().tool(Tool::new("panics", panics).read_only())).await;
    let mut connection = running.connect().await;
    let answer = connection.ask(&call("panics")).await;
    assert_eq!(answer.json()["error"]["code"], -32603);
    assert!(!answer.body.contains("secret"));
    assert_eq!(connection.ask(&call("quick")).await.head.status, 200);
}

#[tokio::test]
async fn a_long_silence_becomes_a_stream_with_comments() {
    let (tool, mut watcher) = hanging("hang");
    let short = limits(|limits| limits.keep_alive = Duration::from_millis(10));
    let running = serve(server().tool(tool).limits(short)).await;
    let mut connection = running.connect().await;
    connection.send(&call("hang")).await;
    watcher.started().await;
    let head = connection.head().await;
    assert_eq!(head.get("content-type"), Some("text/event-stream"));
    for _ in 0..3 {
        let comment = connection.event().await.unwrap();
        assert!(comment.starts_with(':'), "{comment}");
    }
    assert!(watcher.is_running());
}

#[tokio::test]
async fn a_subscription_that_hears_nothing_is_kept_alive() {
    let short = limits(|limits| limits.keep_alive = Duration::from_millis(10));
    let running = serve(server().limits(short)).await;
    let mut connection = running.connect().await;
    connection
        .send(&request(
            "subscriptions/listen",
            json!({ "notifications": { "toolsListChanged": true } }),
        ))
        .await;
    assert_eq!(
        connection.head().await.get("content-type"),
        Some("text/event-stream")
    );
    let acknowledged = connection.message().await;
    assert_eq!(
        acknowledged["method"],
        "notifications/subscriptions/acknowledged"
    );
    assert!(connection.event().await.unwrap().starts_with(':'));
}

#[tokio::test]
async fn a_stream_ends_with_the_response_and_the_connection_goes_on() {
    let running = serve(speaking()).await;
    let mut connection = running.connect().await;
    for _ in 0..3 {
        connection.send(&call("speak")).await;
        connection.head().await;
        assert_eq!(
            connection.message().await["method"],
            "notifications/progress"
        );
        assert_eq!(connection.message().await["id"], 1);
        assert_eq!(connection.event().await, None);
    }
    assert_eq!(connection.ask(&call("quick")).await.head.status, 200);
}

#[tokio::test]
async fn a_large_answer_arrives_whole() {
    let large = Tool::new("large", |_: NoArgs, _: Cx| async { "x".repeat(1 << 20) });
    let running = serve(server().tool(large.read_only())).await;
    let answer = running.ask(&call("large")).await;
    let length = answer.json()["result"]["content"][0]["text"]
        .as_str()
        .map(str::len);
    assert_eq!(length, Some(1 << 20));
}

#[tokio::test]
async fn a_handler_reads_the_headers_of_its_request() {
    async fn header(_: NoArgs, cx: Cx) -> String {
        format!(
            "{:?} {:?} {:?}",
            cx.caller().transport(),
            cx.header("x-trace"),
            cx.header("x-none")
        )
    }
    let running = serve(server().tool(Tool::new("header", header).read_only())).await;
    let answer = running.ask(&call("header").with("X-Trace", "abc")).await;
    assert_eq!(
        answer.json()["result"]["content"][0]["text"],
        "Http Some(\"abc\") None"
    );
}

fn speaking() -> Server {
    async fn speak(_: NoArgs, cx: Cx) -> &'static str {
        cx.progress(1).step("speaking");
        tokio::task::yield_now().await;
        "spoken"
    }
    server().tool(Tool::new("speak", speak).read_only())
}

/// The messages of a whole stream.
fn messages(stream: &str) -> Vec<Value> {
    let data = stream
        .lines()
        .filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).expect("data is JSON"))
        .collect()
}
