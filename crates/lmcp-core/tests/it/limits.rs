//! The bounds of a request and of a server, each at its edge. Those of a connection are in `lines_limits`.

use std::{sync::Arc, time::Duration};

use lmcp_core::{
    Caller, CallerTransport, Client, Cx, Limits, NoArgs, Prompt, Resource, Server, Tasks, Tool,
    ToolResult, client::Event,
};
use lmcp_wire::{ClientCapabilities, LoggingLevel};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{sync::Notify, time::Instant};

use crate::support::{all, hanging, limits, server, soon};

#[tokio::test(start_paused = true)]
async fn a_request_ends_at_its_deadline() {
    let (tool, mut watcher) = hanging("hang");
    let (patient, mut other) = hanging("patient");
    let server = server()
        .tool(tool)
        .tool(patient.deadline(Duration::from_secs(7200)))
        .limits(limits(|limits| limits.deadline = Duration::from_secs(90)))
        .start()
        .unwrap();
    for (name, seconds, watcher) in [("hang", 90, &mut watcher), ("patient", 7200, &mut other)] {
        let asked = Instant::now();
        let error = server
            .client()
            .call_tool(name, json!({}))
            .await
            .unwrap_err();
        assert_eq!(error.code, -32603);
        assert_eq!(error.message, format!("no answer within {seconds} s"));
        assert_eq!(
            error.data,
            Some(json!({ "limit": "deadline", "seconds": seconds }))
        );
        assert_eq!(asked.elapsed().as_secs(), seconds);
        watcher.dropped().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_default_deadline_is_ten_minutes_for_resources_and_prompts_too() {
    async fn hang(_: NoArgs, _: Cx) -> String {
        std::future::pending().await
    }
    let server = server()
        .resource(Resource::new("x://hang", "hang", hang))
        .prompt(Prompt::new("hang", hang))
        .start()
        .unwrap();
    for (method, params) in [
        ("resources/read", json!({ "uri": "x://hang" })),
        ("prompts/get", json!({ "name": "hang" })),
    ] {
        let asked = Instant::now();
        let error = server.client().request(method, params).await.unwrap_err();
        assert_eq!(
            error.data,
            Some(json!({ "limit": "deadline", "seconds": 600 }))
        );
        assert_eq!(asked.elapsed().as_secs(), 600);
    }
}

#[tokio::test(start_paused = true)]
async fn work_elsewhere_learns_that_the_deadline_passed() {
    let (told, mut tells) = tokio::sync::mpsc::unbounded_channel();
    let elsewhere = Arc::new(Tasks::default());
    let tool = Tool::new("spawn", move |_: NoArgs, cx: Cx| {
        let (told, elsewhere) = (told.clone(), Arc::clone(&elsewhere));
        async move {
            elsewhere.spawn(async move {
                cx.cancelled().await;
                let _ = told.send(cx.is_cancelled());
            });
            std::future::pending::<&'static str>().await
        }
    });
    let client = server().tool(tool.read_only()).start().unwrap().client();
    assert!(client.call_tool("spawn", json!({})).await.is_err());
    assert_eq!(soon(tells.recv()).await, Some(true));
}

#[tokio::test]
async fn log_messages_past_the_queue_are_dropped_and_counted() {
    let drained = Arc::new(Notify::new());
    let waits = Arc::clone(&drained);
    let tool = Tool::new("log", move |_: NoArgs, cx: Cx| {
        let waits = Arc::clone(&waits);
        async move {
            for number in 0..100 {
                cx.log(LoggingLevel::Info, number);
            }
            waits.notified().await;
            cx.log(LoggingLevel::Info, "the last");
            "done"
        }
    });
    let server = server()
        .tool(tool.read_only())
        .limits(limits(|limits| limits.queue = 10));
    let client = server
        .start()
        .unwrap()
        .client()
        .log_level(LoggingLevel::Info);
    let mut calling = client.start_tool("log", json!({}));
    for number in 0..10 {
        assert_eq!(
            logged(soon(calling.next()).await),
            (LoggingLevel::Info, json!(number))
        );
    }
    drained.notify_one();
    let (level, note) = logged(soon(calling.next()).await);
    assert_eq!(level, LoggingLevel::Warning);
    assert!(
        note.as_str()
            .unwrap()
            .starts_with("90 log messages were dropped"),
        "{note}"
    );
    assert_eq!(
        logged(soon(calling.next()).await),
        (LoggingLevel::Info, json!("the last"))
    );
    assert!(matches!(
        soon(calling.next()).await,
        Some(Event::Done(Ok(_)))
    ));
}

#[tokio::test]
async fn questions_end_after_some_rounds() {
    #[derive(Deserialize, JsonSchema)]
    struct Word {
        #[expect(dead_code, reason = "only asked for")]
        word: String,
    }
    async fn curious(_: NoArgs, cx: Cx) -> ToolResult<String> {
        for number in 0.. {
            cx.ask::<Word>(&format!("q{number}"), "And then?").await?;
        }
        unreachable!("somebody ends it")
    }
    let asked = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let count = Arc::clone(&asked);
    let client = server()
        .tool(Tool::new("curious", curious).read_only())
        .limits(limits(|limits| limits.ask_rounds = 3))
        .start()
        .unwrap()
        .client()
        .answering(move |_, _| {
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            json!({ "action": "accept", "content": { "word": "go" } })
        });
    let error = client.call_tool("curious", json!({})).await.unwrap_err();
    assert!(error.message.contains("after 3 rounds"), "{error}");
    assert_eq!(asked.load(std::sync::atomic::Ordering::Relaxed), 3);
}

#[tokio::test]
async fn a_state_that_is_too_large_is_not_handed_out() {
    #[derive(Deserialize, JsonSchema)]
    struct Size {
        size: usize,
    }
    async fn hoard(args: Size, cx: Cx) -> ToolResult<String> {
        cx.remember(&"x".repeat(args.size))?;
        let _: Size = cx.ask("q", "How much?").await?;
        Ok("never".into())
    }
    let client = server()
        .tool(Tool::new("hoard", hoard).read_only())
        .limits(limits(|limits| limits.state_bytes = 1000))
        .start()
        .unwrap()
        .client()
        .capabilities(declared(json!({ "elicitation": {} })));
    let params = |size: usize| json!({ "name": "hoard", "arguments": { "size": size } });
    let result = client.request("tools/call", params(10)).await.unwrap();
    assert!(result["requestState"].as_str().unwrap().len() <= 1000);
    let error = client
        .request("tools/call", params(1000))
        .await
        .unwrap_err();
    assert_eq!(error.code, -32603);
    assert!(error.message.contains("at most 1000"), "{error}");
}

#[tokio::test]
async fn subscriptions_are_counted_and_freed() {
    let server = listened()
        .limits(limits(|limits| limits.listeners = 2))
        .start()
        .unwrap();
    let listen = || {
        let params = json!({ "notifications": { "toolsListChanged": true } });
        server.client().start("subscriptions/listen", params)
    };
    let (mut first, mut second, mut third) = (listen(), listen(), listen());
    assert!(matches!(soon(first.next()).await, Some(Event::Other(..))));
    assert!(matches!(soon(second.next()).await, Some(Event::Other(..))));
    let Some(Event::Done(Err(error))) = soon(third.next()).await else {
        panic!("the third is refused")
    };
    assert_eq!(
        error.data,
        Some(json!({ "limit": "listeners", "value": 2, "retriable": true }))
    );
    drop(first);
    assert!(matches!(
        soon(listen().next()).await,
        Some(Event::Other(..))
    ));
}

// D8
#[tokio::test]
async fn one_caller_cannot_take_all_subscriptions() {
    let server = listened()
        .limits(limits(|limits| limits.listeners = 6))
        .start()
        .unwrap();
    let listen = |name: &str| {
        let caller = Caller::new(CallerTransport::Memory).known_as(name);
        let params = json!({ "notifications": { "toolsListChanged": true } });
        let client = server.client().caller(caller);
        client.start("subscriptions/listen", params)
    };
    let mut open = Vec::new();
    for _ in 0..4 {
        let mut stream = listen("ann");
        assert!(matches!(soon(stream.next()).await, Some(Event::Other(..))));
        open.push(stream);
    }
    let mut fifth = listen("ann");
    let Some(Event::Done(Err(error))) = soon(fifth.next()).await else {
        panic!("the fifth is refused")
    };
    assert_eq!(
        error.data,
        Some(json!({ "limit": "listeners", "value": 6, "retriable": true }))
    );
    let mut other = listen("bob");
    assert!(matches!(soon(other.next()).await, Some(Event::Other(..))));
}

#[tokio::test]
async fn one_subscription_watches_so_many_resources() {
    let server = listened()
        .limits(limits(|limits| limits.watched = 2))
        .start()
        .unwrap();
    let listen = |uris: Value| {
        let params = json!({ "notifications": { "resourceSubscriptions": uris } });
        server.client().start("subscriptions/listen", params)
    };
    let mut fitting = listen(json!(["r:0", "r:1"]));
    assert!(matches!(soon(fitting.next()).await, Some(Event::Other(..))));
    let (_, result) = all(listen(json!(["r:0", "r:1", "r:2"]))).await;
    let error = result.unwrap_err();
    assert_eq!(error.data, Some(json!({ "limit": "watched", "value": 2 })));
}

#[tokio::test(start_paused = true)]
async fn tasks_past_the_limit_are_refused_until_one_is_forgotten() {
    let (tool, mut watcher) = hanging("hang");
    let server = server()
        .tool(tool.only_as_task())
        .limits(limits(|limits| limits.tasks = 2))
        .start()
        .unwrap();
    let client = server.client().capabilities(declared(tasks()));
    let first = begin(&client, "hang").await.unwrap()["taskId"].clone();
    watcher.started().await;
    begin(&client, "hang").await.unwrap();
    let error = begin(&client, "hang").await.unwrap_err();
    assert_eq!(error.code, -32603);
    assert_eq!(
        error.data,
        Some(json!({ "limit": "tasks", "value": 2, "retriable": true }))
    );
    let params = json!({ "taskId": first });
    client.request("tasks/cancel", params).await.unwrap();
    watcher.dropped().await;
    assert!(
        begin(&client, "hang").await.is_err(),
        "it can still be asked for"
    );
    tokio::time::advance(Limits::default().task_wait + Duration::from_secs(1)).await;
    begin(&client, "hang").await.unwrap();
}

// D8
#[tokio::test]
async fn one_caller_cannot_take_all_tasks() {
    let (tool, _watcher) = hanging("hang");
    let server = server()
        .tool(tool.only_as_task())
        .limits(limits(|limits| limits.tasks = 6))
        .start()
        .unwrap();
    let client = || server.client().capabilities(declared(tasks()));
    for _ in 0..4 {
        begin(&client(), "hang").await.unwrap();
    }
    // Nobody can tell these clients apart, so they are one caller.
    let error = begin(&client(), "hang").await.unwrap_err();
    assert_eq!(
        error.data,
        Some(json!({ "limit": "tasks", "value": 6, "retriable": true }))
    );
    let ann = Caller::new(CallerTransport::Memory).known_as("ann");
    begin(&client().caller(ann), "hang").await.unwrap();
}

#[tokio::test]
async fn a_tool_that_need_not_be_a_task_runs_without_one_past_the_limit() {
    let (tool, _watcher) = hanging("hang");
    let server = server()
        .tool(tool.only_as_task())
        .tool(Tool::new("quick", nothing).read_only().as_task())
        .limits(limits(|limits| limits.tasks = 1))
        .start()
        .unwrap();
    let client = server.client().capabilities(declared(tasks()));
    begin(&client, "hang").await.unwrap();
    let result = begin(&client, "quick").await.unwrap();
    assert_eq!(result["resultType"], "complete");
}

async fn begin(client: &Client, tool: &str) -> Result<Value, lmcp_core::client::Error> {
    soon(client.request("tools/call", json!({ "name": tool }))).await
}

fn tasks() -> Value {
    json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } })
}

fn declared(capabilities: Value) -> ClientCapabilities {
    serde_json::from_value(capabilities).expect("these are capabilities")
}

fn logged(event: Option<Event>) -> (LoggingLevel, Value) {
    match event {
        Some(Event::Log(log)) => (log.level, log.data),
        other => panic!("no log message: {other:?}"),
    }
}

async fn nothing(_: NoArgs, _: Cx) -> String {
    String::new()
}

/// A server with something to listen to.
fn listened() -> Server {
    server()
        .tool(Tool::new("t", nothing).read_only())
        .resource(Resource::text("r:0", "r", "text"))
}
