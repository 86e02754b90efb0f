//! What each client is shown of a result.

use lmcp_core::{Cx, Json, NoArgs, Presentation, Server, Tool, ToolError, ToolResult};
use lmcp_wire::{CallToolResult, Content};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::support::{connect, server};

#[derive(Serialize, JsonSchema)]
struct Page {
    text: &'static str,
}

const PAGE: Page = Page { text: "line\nline" };

/// A server whose tools return text, an image and structure in all combinations.
fn tools() -> Server {
    async fn json(_: NoArgs, _: Cx) -> Json<Page> {
        Json(PAGE)
    }
    async fn short(_: NoArgs, _: Cx) -> lmcp_core::JsonText<Page> {
        Json(PAGE).with_text("one page")
    }
    async fn whole(_: NoArgs, _: Cx) -> CallToolResult {
        let blocks = vec![Content::text(PAGE.text), Content::image(b"hi", "image/png")];
        let mut result = CallToolResult::new(blocks);
        result.structured_content = Some(json!({ "text": PAGE.text }));
        result.text_is_whole = true;
        result
    }
    async fn fails(_: NoArgs, _: Cx) -> ToolResult<Json<Page>> {
        Err(ToolError::new("it failed"))
    }
    server()
        .tool(Tool::new("json", json).read_only())
        .tool(Tool::new("short", short).read_only())
        .tool(Tool::new("whole", whole).read_only())
        .tool(Tool::new("fails", fails).read_only())
}

/// The texts of a result, and whether there is structure and an image.
fn seen(result: &Value) -> (Vec<&str>, bool, bool) {
    let blocks = result["content"].as_array().expect("there is content");
    let texts = blocks
        .iter()
        .filter_map(|block| block["text"].as_str())
        .collect();
    let image = blocks.iter().any(|block| block["type"] == "image");
    (texts, result.get("structuredContent").is_some(), image)
}

const AS_JSON: &str = r#"{"text":"line\nline"}"#;

#[tokio::test]
async fn clients_that_show_structure_alone_get_none_and_miss_nothing() {
    for name in [
        "claude-code",
        "codex-mcp-client",
        "gemini-cli-mcp-client",
        "opencode",
    ] {
        let client = tools().start().unwrap().client().named(name);
        let list = client.request("tools/list", json!({})).await.unwrap();
        for tool in list["tools"].as_array().unwrap() {
            assert!(tool.get("outputSchema").is_none(), "{name}: {tool}");
        }
        for (tool, texts, image) in [
            ("json", vec![AS_JSON], false),
            ("short", vec!["one page", AS_JSON], false),
            ("whole", vec!["line\nline"], true),
            ("fails", vec!["it failed"], false),
        ] {
            let called = client
                .request("tools/call", json!({ "name": tool, "arguments": {} }))
                .await;
            assert_eq!(
                seen(&called.unwrap()),
                (texts, false, image),
                "{name} {tool}"
            );
        }
    }
}

#[tokio::test]
async fn programs_and_strangers_get_everything_once_in_each_place() {
    let client = tools().start().unwrap().client();
    let list = client.request("tools/list", json!({})).await.unwrap();
    let with_schema = |name: &str| {
        let mut tools = list["tools"].as_array().unwrap().iter();
        tools.any(|tool| tool["name"] == name && tool.get("outputSchema").is_some())
    };
    assert!(with_schema("json") && with_schema("short"), "{list}");
    for (tool, texts, structured) in [
        ("json", vec![AS_JSON], true),
        ("short", vec!["one page"], true),
        ("whole", vec!["line\nline"], true),
        ("fails", vec!["it failed"], false),
    ] {
        let called = client
            .request("tools/call", json!({ "name": tool, "arguments": {} }))
            .await;
        let called = called.unwrap();
        let (said, has, _) = seen(&called);
        assert_eq!((said, has), (texts, structured), "{tool}");
    }
}

#[tokio::test]
async fn older_revisions_get_no_payload_twice() {
    for (version, structured) in [("2025-03-26", false), ("2025-06-18", true)] {
        let (mut peer, _serving) = connect(&tools().start().unwrap());
        peer.shake_hands(version).await;
        for (tool, texts) in [("json", vec![AS_JSON]), ("whole", vec!["line\nline"])] {
            peer.ask(1, "tools/call", json!({ "name": tool })).await;
            let answer = peer.receive().await;
            let (said, has, _) = seen(&answer["result"]);
            assert_eq!((said, has), (texts, structured), "{version} {tool}");
        }
    }
}

#[tokio::test]
async fn a_client_is_known_by_its_handshake_however_much_it_says_of_itself() {
    for more in ["", &"x".repeat(5000)] {
        let (mut peer, _serving) = connect(&tools().start().unwrap());
        let opening = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": { "experimental": { "much": more } },
            "clientInfo": { "name": "claude-code", "version": "2.0.0" },
        });
        peer.ask(0, "initialize", opening).await;
        peer.receive().await;
        peer.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))
            .await;
        peer.ask(1, "tools/call", json!({ "name": "whole" })).await;
        let answer = peer.receive().await;
        assert_eq!(seen(&answer["result"]), (vec!["line\nline"], false, true));
    }
}

#[tokio::test]
async fn a_server_says_how_it_presents_to_a_client_and_handlers_ask() {
    async fn room(_: NoArgs, cx: Cx) -> String {
        let shown = cx.presentation();
        format!("{} {} {}", shown.structured, shown.bytes, shown.lines)
    }
    let handle = tools()
        .tool(Tool::new("room", room).read_only())
        .present("my-agent", Presentation::text(500, 5))
        .present("codex", Presentation::whole(1, 1))
        .start()
        .unwrap();
    for (name, expected) in [
        ("my-agent 2", "false 500 5"),
        ("codex-mcp-client", "true 1 1"),
        ("claude-code", "false 32768 2000"),
        ("somebody", "true 24576 2000"),
    ] {
        let client = handle.client().named(name);
        let result = client.call_tool("room", json!({})).await.unwrap();
        assert_eq!(result.content[0].as_text(), Some(expected), "{name}");
    }
}
