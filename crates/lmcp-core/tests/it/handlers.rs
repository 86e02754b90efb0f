//! What a handler may be, and what it can learn of its request. What it may return is in `outputs`.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use lmcp_core::{
    Caller, CallerTransport, Completing, Cx, HeaderValue, Headers, NoArgs, Resource, Tool,
    ToolResult, ToolSet,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::{server, text};

#[tokio::test]
async fn functions_methods_and_closures_are_handlers() {
    struct Counter(AtomicU64);
    impl Counter {
        async fn next(self: Arc<Self>, _: NoArgs, _: Cx) -> String {
            self.0.fetch_add(1, Ordering::Relaxed).to_string()
        }
    }
    async fn peek(counter: Arc<Counter>, _: NoArgs, _: Cx) -> String {
        counter.0.load(Ordering::Relaxed).to_string()
    }
    let greeting = "hello".to_owned();
    let set = ToolSet::new(Counter(7.into()))
        .tool(Tool::new("next", Counter::next).writes())
        .tool(Tool::new("peek", peek).read_only())
        .tool(Tool::new("stateless", add).read_only());
    let client = server()
        .tools(set)
        .tool(Tool::new("add", add).read_only())
        .tool(
            Tool::new("greet", move |args: Name, _: Cx| {
                let greeting = greeting.clone();
                async move { format!("{greeting} {}", args.name) }
            })
            .read_only(),
        )
        .start()
        .unwrap()
        .client();
    for (tool, arguments, expected) in [
        ("add", json!({ "a": 1, "b": 2 }), "3"),
        ("stateless", json!({ "a": 1, "b": 2 }), "3"),
        ("greet", json!({ "name": "you" }), "hello you"),
        ("next", json!({}), "7"),
        ("next", json!({}), "8"),
        ("peek", json!({}), "9"),
    ] {
        assert_eq!(text(&client, tool, arguments).await, expected, "{tool}");
    }
}

#[tokio::test]
async fn a_raw_tool_gets_its_arguments_as_they_came() {
    let schema = json!({ "type": "object", "properties": { "a": { "type": "integer" } }, "required": ["a"] });
    let tool = Tool::raw("raw", schema, |args: Value, _: Cx| async move {
        args.to_string()
    });
    let client = server().tool(tool.read_only()).start().unwrap().client();
    let arguments = json!({ "a": 1, "more": [null] });
    assert_eq!(
        text(&client, "raw", arguments.clone()).await,
        arguments.to_string()
    );
    let result = client
        .call_tool("raw", json!({ "a": "one" }))
        .await
        .unwrap();
    assert!(result.is_error, "its schema is enforced");
}

#[tokio::test]
async fn completers_see_what_was_filled_in_and_may_have_state() {
    async fn cities(
        all: Arc<Vec<&'static str>>,
        completing: Completing,
        _: Cx,
    ) -> ToolResult<Vec<String>> {
        let land = completing.filled.get("land").map_or("?", String::as_str);
        let fitting = all
            .iter()
            .filter(|city| city.starts_with(&completing.value));
        Ok(fitting.map(|city| format!("{city} in {land}")).collect())
    }
    let set = ToolSet::new(vec!["bern", "basel", "chur"]).resource(
        Resource::template("city://{land}/{name}", "city", |_: Name, _: Cx| async {
            String::new()
        })
        .complete("name", cities),
    );
    let client = server().tools(set).start().unwrap().client();
    let params = json!({
        "ref": { "type": "ref/resource", "uri": "city://{land}/{name}" },
        "argument": { "name": "name", "value": "b" },
        "context": { "arguments": { "land": "ch" } },
    });
    let result = client.request("completion/complete", params).await.unwrap();
    assert_eq!(
        result["completion"]["values"],
        json!(["bern in ch", "basel in ch"])
    );
}

#[tokio::test]
async fn state_is_found_by_its_type() {
    struct Here(&'static str);
    struct Nowhere;
    let client = server()
        .state(Here("found"))
        .tool(
            Tool::new("here", |_: NoArgs, cx: Cx| async move {
                ToolResult::Ok(cx.state::<Here>()?.0)
            })
            .read_only(),
        )
        .tool(
            Tool::new("nowhere", |_: NoArgs, cx: Cx| async move {
                cx.state::<Nowhere>()?;
                ToolResult::Ok("found")
            })
            .read_only(),
        )
        .start()
        .unwrap()
        .client();
    assert_eq!(text(&client, "here", json!({})).await, "found");
    let result = client.call_tool("nowhere", json!({})).await.unwrap();
    assert!(result.is_error);
    assert!(result.content[0].as_text().unwrap().contains("Nowhere"));
}

#[tokio::test]
async fn a_handler_knows_who_asks() {
    struct One;
    impl Headers for One {
        fn get(&self, name: &str) -> HeaderValue<'_> {
            match name {
                "x-trace" => HeaderValue::Text("abc"),
                "x-twice" => HeaderValue::Malformed,
                "mcp-protocol-version" => HeaderValue::Text("2026-07-28"),
                "mcp-method" => HeaderValue::Text("tools/call"),
                "mcp-name" => HeaderValue::Text("who"),
                _ => HeaderValue::Absent,
            }
        }
    }
    async fn who(_: NoArgs, cx: Cx) -> String {
        let caller = cx.caller();
        format!(
            "{:?} {:?} {:?} {:?} {:?}",
            caller.transport(),
            caller.principal(),
            caller.peer().map(|process| process.uid),
            cx.header("x-trace"),
            cx.header("x-twice"),
        )
    }
    let client = server()
        .tool(Tool::new("who", who).read_only())
        .start()
        .unwrap()
        .client();
    for (caller, expected) in [
        (
            Caller::new(CallerTransport::Stdio),
            "Stdio None None None None",
        ),
        (
            Caller::new(CallerTransport::Memory).known_as("ann"),
            "Memory Some(\"ann\") None None None",
        ),
        (
            Caller::process(501, Some(7)),
            "Unix None Some(501) None None",
        ),
        (Caller::http(One), "Http None None Some(\"abc\") None"),
    ] {
        assert_eq!(
            text(&client.clone().caller(caller), "who", json!({})).await,
            expected
        );
    }
}

#[tokio::test]
async fn meta_goes_in_and_out() {
    async fn meta(_: NoArgs, cx: Cx) -> ToolResult<String> {
        cx.set_meta("com.example/seen", json!(true))?;
        let refused = cx.set_meta("not a key", json!(1)).is_err();
        let client = cx
            .client_info()
            .map(|client| client.name)
            .unwrap_or_default();
        let version = cx.meta()["io.modelcontextprotocol/protocolVersion"].clone();
        Ok(format!("{refused} {client} {version} {}", cx.id()))
    }
    let client = server()
        .tool(Tool::new("meta", meta).read_only())
        .start()
        .unwrap()
        .client();
    let result = client.call_tool("meta", json!({})).await.unwrap();
    assert_eq!(
        result.content[0].as_text(),
        Some("true lmcp in-process client \"2026-07-28\" 1")
    );
    let meta = result.meta.unwrap();
    assert_eq!(meta["com.example/seen"], true);
    assert_eq!(
        meta["io.modelcontextprotocol/serverInfo"],
        json!({ "name": "test", "version": "1.0.0" })
    );
}

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

async fn add(args: Add, _: Cx) -> String {
    (args.a + args.b).to_string()
}
