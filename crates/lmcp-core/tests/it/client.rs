//! The client in the same process, as an author's own tests use it.

use std::sync::atomic::{AtomicUsize, Ordering};

use lmcp_core::{
    Client, Cx, Endpoint, NoArgs, Page, Payload, Replies, Request, Service, Tool, ToolResult,
    client::Event,
};
use lmcp_wire::{LoggingLevel, ProtocolVersion, discover::CacheHint};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::support::{all, hanging, server, soon};

#[tokio::test]
async fn a_call_tells_how_it_goes_and_how_it_ends() {
    async fn work(_: NoArgs, cx: Cx) -> &'static str {
        let progress = cx.progress(2);
        progress.step("one");
        cx.log(LoggingLevel::Notice, "half way");
        tokio::task::yield_now().await;
        progress.step("two");
        "done"
    }
    let client = server()
        .tool(Tool::new("work", work).read_only())
        .start()
        .unwrap()
        .client();
    let client = client.log_level(LoggingLevel::Info);
    let (events, result) = all(client.start_tool("work", json!({}))).await;
    let mut words = Vec::new();
    for event in events {
        words.push(match event {
            Event::Progress(progress) => progress.message.unwrap_or_default(),
            Event::Log(log) => log.data.as_str().unwrap_or_default().to_owned(),
            other => panic!("{other:?}"),
        });
    }
    assert!(words.contains(&"half way".to_owned()), "{words:?}");
    assert_eq!(words.last().map(String::as_str), Some("two"));
    assert_eq!(result.unwrap()["content"][0]["text"], "done");
}

#[tokio::test]
async fn after_the_end_there_is_nothing() {
    let tool = Tool::new("quick", |_: NoArgs, _: Cx| async { "quick" });
    let client = server().tool(tool.read_only()).start().unwrap().client();
    let mut calling = client.start_tool("quick", json!({}));
    assert!(matches!(
        soon(calling.next()).await,
        Some(Event::Done(Ok(_)))
    ));
    assert_eq!(soon(calling.next()).await, None);
    assert_eq!(soon(calling.next()).await, None);
}

#[tokio::test]
async fn a_call_runs_only_while_it_is_awaited_and_stops_when_dropped() {
    let (tool, mut watcher) = hanging("hang");
    let client = server().tool(tool).start().unwrap().client();
    drop(client.start_tool("hang", json!({})));
    let mut calling = client.start_tool("hang", json!({}));
    tokio::select! {
        biased;
        _ = calling.next() => panic!("it never ends"),
        () = watcher.started() => {}
    }
    drop(calling);
    watcher.dropped().await;
    let whole = client.call_tool("hang", json!({}));
    tokio::select! {
        biased;
        _ = whole => panic!("it never ends"),
        () = watcher.started() => {}
    }
    watcher.dropped().await;
}

#[tokio::test]
async fn an_unknown_tool_is_an_error_that_names_its_neighbours() {
    let tool = Tool::new("search", |_: NoArgs, _: Cx| async { "" });
    let client = server().tool(tool.read_only()).start().unwrap().client();
    let error = client.call_tool("serach", json!({})).await.unwrap_err();
    assert_eq!(error.code, -32602);
    assert!(error.message.contains("did you mean `search`?"), "{error}");
    let error = client.request("no/such", json!({})).await.unwrap_err();
    assert_eq!(error.code, -32601);
}

#[tokio::test]
async fn without_an_answerer_questions_are_handed_out() {
    #[derive(Deserialize, JsonSchema)]
    struct Word {
        word: String,
    }
    async fn asks(_: NoArgs, cx: Cx) -> ToolResult<String> {
        Ok(cx.ask::<Word>("word", "A word?").await?.word)
    }
    let server = server()
        .tool(Tool::new("asks", asks).read_only())
        .start()
        .unwrap();
    let declared = serde_json::from_value(json!({ "elicitation": {} })).unwrap();
    let client = server.client().capabilities(declared);
    let result = client
        .request("tools/call", json!({ "name": "asks" }))
        .await
        .unwrap();
    assert_eq!(result["resultType"], "input_required");
    let retry = json!({
        "name": "asks",
        "inputResponses": { "word": { "action": "accept", "content": { "word": "hm" } } },
        "requestState": result["requestState"],
    });
    let result = client.request("tools/call", retry).await.unwrap();
    assert_eq!(result["content"][0]["text"], "hm");
}

#[tokio::test]
async fn clients_of_one_server_are_independent() {
    let (tool, mut watcher) = hanging("hang");
    let quick = Tool::new("quick", |_: NoArgs, _: Cx| async { "quick" });
    let server = server().tool(tool).tool(quick.read_only()).start().unwrap();
    let mut calling = server.client().start_tool("hang", json!({}));
    tokio::select! {
        biased;
        _ = calling.next() => panic!("it never ends"),
        () = watcher.started() => {}
    }
    let result = server.client().call_tool("quick", json!({})).await.unwrap();
    assert_eq!(result.content[0].as_text(), Some("quick"));
    assert!(watcher.is_running());
}

/// Pages without end, each of a megabyte.
struct Endless(AtomicUsize);

impl Service for Endless {
    fn call(&self, _: Request) -> Replies {
        let tool = lmcp_wire::Tool::new("x".repeat(1 << 20), json!({}));
        let next = self.0.fetch_add(1, Ordering::Relaxed).to_string();
        let page = Page::new("tools", &[tool], Some(next));
        Replies::done(Payload::List(page, CacheHint::private(0)))
    }
}

#[tokio::test]
async fn a_list_without_end_is_an_error() {
    let client = Endpoint::new(Endless(AtomicUsize::new(0))).client();
    let words = client.list_tools().await.unwrap_err().to_string();
    assert!(words.contains("has more than 67108864 bytes"), "{words}");
}

#[tokio::test]
async fn a_revision_that_is_not_spoken_here_is_refused_with_the_way_to_it() {
    let builder = Client::builder().version(ProtocolVersion::V2025_06_18);
    let words = builder.connect(server()).await.unwrap_err().to_string();
    assert!(
        words.contains("`upstream::in_process(server)`") && words.contains("2025-06-18"),
        "{words}"
    );
    let newest = Client::builder().version(ProtocolVersion::NEWEST);
    newest.connect(server()).await.unwrap();
}
