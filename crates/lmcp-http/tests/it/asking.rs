//! Questions of handlers in a session over HTTP, and batches.

use lmcp_core::{Cx, NoArgs, Server, Tool, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::{
    support::{Answer, body, hanging, serve, server, soon},
    visitor::{NEWEST, Visitor},
};

#[tokio::test]
async fn a_question_is_answered_by_another_post() {
    let running = serve(greeting()).await;
    for version in ["2025-06-18", NEWEST] {
        let visitor = Visitor::of(&running, version).await;
        let mut connection = running.connect().await;
        connection.open_stream(&visitor.call(1, "greet")).await;
        let question = connection.next_message().await.json();
        assert_eq!(question["method"], "elicitation/create");
        assert_eq!(question["params"]["message"], "Who?");
        let answer = running
            .ask(&visitor.answer(&question["id"], named("Ann")))
            .await;
        assert_eq!((answer.head.status, &*answer.body), (202, ""));
        let rest = connection.rest().await;
        assert_eq!(rest[0]["result"]["content"][0]["text"], "Hello, Ann!");
    }
}

#[tokio::test]
async fn a_question_survives_its_connection() {
    let running = serve(greeting()).await;
    let visitor = Visitor::new(&running).await;
    let mut connection = running.connect().await;
    connection.open_stream(&visitor.call(1, "greet")).await;
    let name = connection.next_event().await.unwrap();
    let question = connection.next_message().await.json();
    drop(connection);
    let mut again = running.connect().await;
    again.open_stream(&visitor.get_after(&name.id)).await;
    assert_eq!(
        again.next_message().await.json(),
        question,
        "the same question, not another"
    );
    running
        .ask(&visitor.answer(&question["id"], named("Ann")))
        .await;
    assert_eq!(
        again.rest().await[0]["result"]["content"][0]["text"],
        "Hello, Ann!"
    );
}

#[tokio::test]
async fn an_end_while_a_question_waits_stops_the_handler() {
    let (dropped, mut drops) = mpsc::unbounded_channel();
    let tool = Tool::new("greet", move |_: NoArgs, cx: Cx| {
        let held = Dropped(dropped.clone());
        async move {
            let _held = held;
            let Name { name } = cx.ask("name", "Who?").await?;
            ToolResult::Ok(name)
        }
    });
    let running = serve(server().tool(tool.read_only())).await;
    for end in ["delete", "cancel"] {
        let visitor = Visitor::new(&running).await;
        let mut connection = running.connect().await;
        connection.open_stream(&visitor.call(1, "greet")).await;
        let question = connection.next_message().await.json();
        let post = if end == "delete" {
            visitor.delete()
        } else {
            visitor.cancel(1)
        };
        running.ask(&post).await;
        soon(drops.recv()).await.unwrap();
        let rest = connection.rest().await;
        assert!(
            rest.iter().all(|said| said.get("result").is_none()),
            "{end}: {rest:?}"
        );
        let late = running
            .ask(&visitor.answer(&question["id"], named("Ann")))
            .await;
        let expected = if end == "delete" { 404 } else { 202 };
        assert_eq!(late.head.status, expected, "{end}");
    }
}

// L28
#[tokio::test]
async fn an_answer_nobody_waits_for_is_accepted() {
    let running = serve(greeting()).await;
    let visitor = Visitor::new(&running).await;
    let mut connection = running.connect().await;
    connection.open_stream(&visitor.call(1, "greet")).await;
    let question = connection.next_message().await.json();
    running
        .ask(&visitor.answer(&question["id"], named("Ann")))
        .await;
    connection.rest().await;
    // The call has ended; or there never was one.
    for id in [
        &question["id"],
        &json!(1),
        &json!("srv-1"),
        &json!(i64::MAX),
    ] {
        let answer = running.ask(&visitor.answer(id, named("Eve"))).await;
        assert_eq!((answer.head.status, &*answer.body), (202, ""));
    }
    let error = json!({ "jsonrpc": "2.0", "id": 5, "error": { "code": -1, "message": "no" } });
    assert_eq!(running.ask(&visitor.send(&error)).await.head.status, 202);
}

#[tokio::test]
async fn a_refusal_and_an_error_end_the_question() {
    let running = serve(greeting()).await;
    let visitor = Visitor::new(&running).await;
    let mut connection = running.connect().await;
    for member in ["result", "error"] {
        connection.open_stream(&visitor.call(1, "greet")).await;
        let question = connection.next_message().await.json();
        let mut answer = json!({ "jsonrpc": "2.0", "id": question["id"] });
        answer[member] = match member {
            "result" => json!({ "action": "decline" }),
            _ => json!({ "code": -1, "message": "the user is away" }),
        };
        running.ask(&visitor.send(&answer)).await;
        let rest = connection.rest().await;
        assert_eq!(rest[0]["result"]["isError"], true, "{member}: {rest:?}");
    }
}

#[tokio::test]
async fn who_cannot_be_asked_is_told_so_at_once() {
    let running = serve(greeting()).await;
    let mute = Visitor::with(&running, NEWEST, "mute", json!({})).await;
    let old = Visitor::of(&running, "2025-03-26").await;
    let new = Visitor::new(&running).await;
    for post in [
        mute.call(1, "greet"),
        old.call(1, "greet"),
        // Without a stream there is no way to ask.
        new.call(1, "greet").with("accept", "application/json"),
    ] {
        let answer = running.ask(&post).await.json();
        assert_eq!(answer["result"]["isError"], true, "{answer}");
    }
}

#[tokio::test]
async fn a_batch_is_answered_with_an_array() {
    let running = serve(greeting()).await;
    let visitor = Visitor::of(&running, "2025-03-26").await;
    let batch = json!([
        { "jsonrpc": "2.0", "id": 1, "method": "ping" },
        { "jsonrpc": "2.0", "method": "notifications/unheard-of" },
        { "jsonrpc": "2.0", "id": "two", "method": "tools/call", "params": { "name": "quick" } },
        { "jsonrpc": "2.0", "id": 3, "method": "no/such" },
        { "jsonrpc": "2.0", "id": 4, "method": "initialize", "params": {} },
        { "id": 5, "method": "ping" },
        1,
    ]);
    // Who says no revision and has no session speaks 2025-03-26.
    for post in [visitor.send(&batch), body(&batch.to_string())] {
        for accept in ["application/json", "application/json, text/event-stream"] {
            let answer = running.ask(&post.clone().with("accept", accept)).await;
            assert_eq!(answer.head.get("content-type"), Some("application/json"));
            let answers = answers(&answer);
            assert_eq!(answers.len(), 6, "{}", answer.body);
            let of = |id: Value| answers.iter().find(|answer| answer["id"] == id).unwrap();
            assert_eq!(of(json!(1))["result"], json!({}));
            assert_eq!(of(json!("two"))["result"]["content"][0]["text"], "quick");
            assert_eq!(of(json!(3))["error"]["code"], -32601);
            assert_eq!(of(json!(4))["error"]["code"], -32600);
            assert_eq!(of(json!(5))["error"]["code"], -32600);
        }
    }
}

#[tokio::test]
async fn a_batch_that_says_something_is_a_stream_with_one_response_each() {
    let running = serve(greeting()).await;
    let visitor = Visitor::of(&running, "2025-03-26").await;
    let call = |id: i64, name: &str| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": name } });
    let mut connection = running.connect().await;
    connection
        .open_stream(&visitor.send(&json!([
            call(1, "speak"),
            call(2, "quick"),
            call(3, "speak")
        ])))
        .await;
    let mut ids = Vec::new();
    let mut words = 0;
    for said in connection.rest().await {
        let said = if said.is_array() {
            said.as_array().cloned().unwrap()
        } else {
            vec![said]
        };
        for said in said {
            match said["id"].as_i64() {
                Some(id) => ids.push(id),
                None => words += 1,
            }
        }
    }
    ids.sort_unstable();
    assert_eq!((ids, words), (vec![1, 2, 3], 2));
}

/// No answer may push another out of what is kept for those whose connection breaks.
#[tokio::test]
async fn every_answer_of_a_batch_arrives_however_large() {
    let running = serve(greeting()).await;
    let visitor = Visitor::of(&running, "2025-03-26").await;
    let call = |id: i64| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": "large" } });
    for accept in [
        "application/json",
        "application/json, text/event-stream",
        "text/event-stream",
    ] {
        let post = visitor
            .send(&json!([call(1), call(2), call(3)]))
            .without("accept")
            .with("accept", accept);
        let answer = running.ask(&post).await;
        let events = answers(&answer);
        // One event may be the whole array.
        let all = events.iter().flat_map(|event| match event {
            Value::Array(answers) => answers.as_slice(),
            answer => std::slice::from_ref(answer),
        });
        let ids: Vec<_> = all.filter_map(|answer| answer["id"].as_i64()).collect();
        assert_eq!(ids.len(), 3, "{accept}: {ids:?}");
    }
}

/// Two answers of one id cannot be told apart, and of two calls only one could be cancelled.
#[tokio::test]
async fn an_id_stands_once_in_a_batch() {
    let running = serve(greeting()).await;
    let visitor = Visitor::of(&running, "2025-03-26").await;
    let call = |id: i64| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": "quick" } });
    let answer = running
        .ask(&visitor.send(&json!([call(1), call(2), call(1)])))
        .await;
    // The second use of it is refused, or the batch as a whole.
    assert!(answer.body.contains("-32600"), "{}", answer.body);
}

#[tokio::test]
async fn a_batch_of_what_wants_no_answer_is_accepted() {
    let (tool, mut watcher) = hanging("hang");
    let running = serve(server().tool(tool)).await;
    let visitor = Visitor::of(&running, "2025-03-26").await;
    let mut connection = running.connect().await;
    connection.send(&visitor.call(7, "hang")).await;
    watcher.started().await;
    let batch = json!([
        { "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 7 } },
        { "jsonrpc": "2.0", "id": 1, "result": {} },
    ]);
    let answer = running.ask(&visitor.send(&batch)).await;
    assert_eq!((answer.head.status, &*answer.body), (202, ""));
    watcher.dropped().await;
}

// L28
#[tokio::test]
async fn only_one_revision_has_batches() {
    let running = serve(server()).await;
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    for version in ["2024-11-05", "2025-06-18", NEWEST] {
        let visitor = Visitor::of(&running, version).await;
        let answer = running.ask(&visitor.send(&json!([ping]))).await;
        assert_eq!(answer.head.status, 400, "{version}");
        assert_eq!(answer.json()["error"]["code"], -32600, "{version}");
    }
    let visitor = Visitor::of(&running, "2025-03-26").await;
    let empty = running.ask(&visitor.send(&json!([]))).await;
    assert_eq!(
        (empty.head.status, &empty.json()["error"]["code"]),
        (400, &json!(-32600))
    );
    let many = vec![ping; 257];
    let answer = running.ask(&visitor.send(&many.into())).await;
    assert_eq!(answer.head.status, 400);
}

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

struct Dropped(mpsc::UnboundedSender<()>);

impl Drop for Dropped {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

fn greeting() -> Server {
    async fn greet(_: NoArgs, cx: Cx) -> ToolResult<String> {
        let Name { name } = cx.ask("name", "Who?").await?;
        Ok(format!("Hello, {name}!"))
    }
    async fn speak(_: NoArgs, cx: Cx) -> &'static str {
        cx.log(lmcp_wire::LoggingLevel::Error, "a word");
        tokio::task::yield_now().await;
        "spoken"
    }
    async fn large(_: NoArgs, _: Cx) -> String {
        tokio::task::yield_now().await;
        "x".repeat(100_000)
    }
    server()
        .tool(Tool::new("greet", greet).read_only())
        .tool(Tool::new("speak", speak).read_only())
        .tool(Tool::new("large", large).read_only())
}

fn named(name: &str) -> Value {
    json!({ "action": "accept", "content": { "name": name } })
}

/// The answers of a batch: an array, or a stream of them.
fn answers(answer: &Answer) -> Vec<Value> {
    let text = match answer.head.get("content-type") {
        Some("text/event-stream") => {
            let data = answer
                .body
                .lines()
                .filter_map(|line| line.strip_prefix("data: "));
            format!("[{}]", data.collect::<Vec<_>>().join(","))
        }
        _ => answer.body.clone(),
    };
    serde_json::from_str(&text).unwrap_or_else(|_| panic!("no array: {}", answer.body))
}
