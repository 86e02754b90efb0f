//! HTTP+SSE, the transport of 2024-11-05: off unless asked for, and no less safe than the other.

use lmcp_core::{Cx, NoArgs, Tool};
use lmcp_http::Http;
use serde_json::{Value, json};

use crate::{
    support::{Connection, Post, Running, body, hanging, limits, serve, serve_as, server, soon},
    visitor::puppet,
};

/// One stream and the address it was given.
struct Visit {
    stream: Connection,
    endpoint: String,
}

#[tokio::test]
async fn it_is_off_unless_asked_for() {
    let running = serve(server()).await;
    assert_eq!(running.ask(&get()).await.head.status, 404);
    let post = body("{}").path("/messages?session=x");
    assert_eq!(running.ask(&post).await.head.status, 404);
}

// L36: the first event is an address and nothing else.
#[tokio::test]
async fn the_stream_says_where_messages_go_and_brings_their_answers() {
    let running = both().await;
    let mut visit = Visit::open(&running).await;
    let answer = visit
        .ask(&running, "tools/call", json!({ "name": "quick" }))
        .await;
    assert_eq!(answer["result"]["content"][0]["text"], "quick");
    // The other transport is there as ever.
    let quick = crate::support::call("quick");
    assert_eq!(running.ask(&quick).await.head.status, 200);
}

#[tokio::test]
async fn a_message_may_be_written_on_several_lines() {
    let running = both().await;
    let mut visit = Visit::open(&running).await;
    let text = "{\n \"jsonrpc\": \"2.0\",\r\n \"id\": 5,\n \"method\": \"ping\"\n}\n";
    let taken = running.ask(&visit.post(text)).await;
    assert_eq!((taken.head.status, &*taken.body), (202, ""));
    assert_eq!(visit.message().await["id"], 5);
}

/// Newer clients try the other transport at the same address first, and go by what is allowed.
#[tokio::test]
async fn a_verb_that_is_not_allowed_is_told_the_one_that_is() {
    let running = both().await;
    for (path, verb, allowed) in [
        ("/sse", "POST", "GET"),
        ("/sse", "DELETE", "GET"),
        ("/messages?session=x", "GET", "POST"),
    ] {
        let answer = running.ask(&body("{}").path(path).verb(verb)).await;
        assert_eq!(answer.head.status, 405, "{verb} {path}");
        assert_eq!(answer.head.get("allow"), Some(allowed), "{verb} {path}");
        let said = answer.json()["error"]["message"].to_string();
        assert!(said.contains("a GET of /sse"), "{said}");
    }
}

/// Half a line would swallow the next one.
#[tokio::test]
async fn a_message_arrives_whole_or_not_at_all() {
    let running = both().await;
    let mut visit = Visit::open(&running).await;
    let large =
        json!({ "jsonrpc": "2.0", "method": "x", "params": { "junk": "x".repeat(3 << 20) } });
    let mut hasty = running.connect().await;
    hasty.send(&visit.post(&large.to_string())).await;
    drop(hasty);
    let answer = visit.ask(&running, "ping", json!({})).await;
    assert_eq!(answer["result"], json!({}));
}

/// What opens one transport opens nothing of the other.
#[tokio::test]
async fn the_address_of_messages_is_no_session() {
    let running = both().await;
    let visit = Visit::open(&running).await;
    let secret = visit.endpoint.split_once("session=").unwrap().1;
    let ping = body(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
    let answer = running.ask(&ping.with("mcp-session-id", secret)).await;
    assert_eq!(answer.head.status, 404);
}

// L4
#[tokio::test]
async fn a_foreign_page_gets_neither_a_stream_nor_a_message_through() {
    let running = both().await;
    let visit = Visit::open(&running).await;
    for post in [get(), visit.post("{}")] {
        for (field, value) in [("origin", "https://evil.example"), ("host", "evil.example")] {
            let answer = running.ask(&post.clone().with(field, value)).await;
            assert_eq!(answer.head.status, 403, "{field}");
        }
    }
    let form = visit.post("{}").with("content-type", "text/plain");
    assert_eq!(running.ask(&form).await.head.status, 415);
}

#[tokio::test]
async fn an_address_is_good_while_its_stream_is_open() {
    let (tool, mut watcher) = hanging("hang");
    let running = serve_as(server().tool(tool), Http::legacy_sse).await;
    let mut visit = Visit::open(&running).await;
    let (first, second) = (visit.endpoint.clone(), Visit::open(&running).await.endpoint);
    assert_ne!(first, second);
    assert!(
        first.len() > "/messages?session=".len() + 22,
        "{first} can be guessed"
    );
    let post = visit.post("{}");
    running.ask(&visit.call(1, "hang")).await;
    watcher.started().await;
    // Silence must not be mistaken for the end.
    assert_eq!(
        visit.ask(&running, "ping", json!({})).await["result"],
        json!({})
    );
    drop(visit.stream);
    watcher.dropped().await;
    while running.ask(&post).await.head.status != 404 {}
    for wrong in ["/messages", "/messages?session=", "/messages?session=none"] {
        let answer = running.ask(&body("{}").path(wrong)).await;
        assert_eq!(answer.head.status, 404, "{wrong}");
    }
}

// L6
#[tokio::test]
async fn one_stream_cannot_stop_the_calls_of_another() {
    let (tool, mut watcher) = hanging("hang");
    let running = serve_as(server().tool(tool), Http::legacy_sse).await;
    let (ann, mut bob) = (Visit::open(&running).await, Visit::open(&running).await);
    running.ask(&ann.call(7, "hang")).await;
    watcher.started().await;
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 7 } });
    running.ask(&bob.post(&cancel.to_string())).await;
    bob.ask(&running, "ping", json!({})).await;
    assert!(watcher.is_running());
    running.ask(&ann.post(&cancel.to_string())).await;
    watcher.dropped().await;
}

// L16
#[tokio::test]
async fn a_slow_call_delays_nobody_and_says_how_it_goes() {
    let (tool, mut puppet) = puppet("work");
    let running = serve_as(server().tool(tool), Http::legacy_sse).await;
    let mut visit = Visit::open(&running).await;
    running.ask(&visit.call(1, "work")).await;
    puppet.started().await;
    assert_eq!(
        visit.ask(&running, "ping", json!({})).await["result"],
        json!({})
    );
    puppet.act(|cx| cx.progress(2).step("half")).await;
    assert_eq!(visit.message().await["method"], "notifications/progress");
    puppet.finish().await;
    assert_eq!(
        visit.message().await["result"]["content"][0]["text"],
        "done"
    );
}

#[tokio::test]
async fn a_message_that_is_too_large_is_refused() {
    let small = limits(|limits| limits.body_bytes = 1000);
    let running = serve_as(server().limits(small), Http::legacy_sse).await;
    let mut visit = Visit::open(&running).await;
    let refused = running.ask(&visit.post(&" ".repeat(1001))).await;
    assert_eq!(refused.head.status, 413);
    assert_eq!(refused.json()["error"]["data"]["limit"], "body_bytes");
    assert_eq!(
        visit.ask(&running, "ping", json!({})).await["result"],
        json!({})
    );
}

// L28
#[tokio::test]
async fn what_is_no_message_is_told_on_the_stream() {
    let running = both().await;
    let mut visit = Visit::open(&running).await;
    for text in ["1", "{", "[]", "{}", "\"text\""] {
        assert_eq!(
            running.ask(&visit.post(text)).await.head.status,
            202,
            "{text}"
        );
        assert!(visit.message().await["error"]["code"].is_i64(), "{text}");
    }
}

#[tokio::test]
async fn streams_end_with_the_server() {
    let mut running = both().await;
    let mut visit = Visit::open(&running).await;
    running.stop();
    while visit.stream.event().await.is_some() {}
    running.ended().await.unwrap();
}

// D44
#[tokio::test]
async fn an_answer_on_a_stream_that_nobody_reads_is_counted_until_it_is_gone() {
    // More than the sockets take in themselves.
    const HUGE: usize = 24 << 20;
    let huge = Tool::new("huge", |_: NoArgs, _: Cx| async { "x".repeat(HUGE) });
    let room = limits(|limits| limits.memory_bytes = 256 << 20);
    let server = server().tool(huge.read_only()).limits(room);
    let running = serve_as(server, Http::legacy_sse).await;
    let mut visit = Visit::open(&running).await;
    running.ask(&visit.call(1, "huge")).await;
    // Its first bytes are there: it waits in no queue of the engine any more.
    visit.stream.readable().await;
    for _ in 0..20 {
        let quick = crate::support::call("quick");
        assert_eq!(running.ask(&quick).await.head.status, 200);
    }
    assert!(running.budget.used() >= HUGE, "{}", running.budget.used());
    let text = visit.message().await["result"]["content"][0]["text"].to_string();
    assert_eq!(text.len(), HUGE + 2);
    soon(async {
        while running.budget.used() >= HUGE {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

impl Visit {
    async fn open(running: &Running) -> Self {
        let mut stream = running.connect().await;
        stream.open_stream(&get()).await;
        let first = stream.event().await.expect("a stream begins");
        let endpoint = first.strip_prefix("event: endpoint\ndata: ");
        let endpoint = endpoint.unwrap_or_else(|| panic!("{first}")).to_owned();
        assert!(endpoint.starts_with("/messages?"), "{endpoint}");
        let mut visit = Self { stream, endpoint };
        let info = json!({ "name": "old", "version": "1" });
        let params =
            json!({ "protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": info });
        let answer = visit.ask(running, "initialize", params).await;
        assert_eq!(answer["result"]["protocolVersion"], "2024-11-05");
        visit
    }

    fn post(&self, text: &str) -> Post {
        body(text).path(&self.endpoint)
    }

    fn call(&self, id: i64, tool: &str) -> Post {
        let params = json!({ "name": tool, "_meta": { "progressToken": 1 } });
        let message =
            json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
        self.post(&message.to_string())
    }

    /// Sends a request and returns its answer, which must be what comes next.
    async fn ask(&mut self, running: &Running, method: &str, params: Value) -> Value {
        let message = json!({ "jsonrpc": "2.0", "id": 99, "method": method, "params": params });
        let taken = running.ask(&self.post(&message.to_string())).await;
        assert_eq!((taken.head.status, &*taken.body), (202, ""));
        let answer = self.message().await;
        assert_eq!(answer["id"], 99, "{answer}");
        answer
    }

    /// The next message; comments are passed over.
    async fn message(&mut self) -> Value {
        loop {
            let event = self.stream.event().await.expect("the stream goes on");
            if let Some(data) = event.strip_prefix("event: message\ndata: ") {
                return serde_json::from_str(data).expect("data is JSON");
            }
            assert!(event.starts_with(':'), "{event}");
        }
    }
}

fn get() -> Post {
    let get = body("").verb("GET").path("/sse").without("content-type");
    get.with("accept", "text/event-stream")
}

async fn both() -> Running {
    serve_as(server(), Http::legacy_sse).await
}
