//! What handlers may return, and what becomes of their errors.

use std::io;

use lmcp_core::{Cx, Json, NoArgs, Prompt, Resource, Tool, ToolError, ToolResult};
use lmcp_wire::{
    CallToolResult, Content, PromptMessage, ResourceContents, RpcError, prompt::GetPromptResult,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::support::server;

#[tokio::test]
async fn every_kind_of_output_becomes_a_result() {
    #[derive(Serialize, JsonSchema)]
    struct Sum {
        sum: i64,
    }
    let structured = |text: &str| {
        let mut result = CallToolResult::new(vec![Content::text(text)]);
        result.structured_content = Some(json!({ "sum": 3 }));
        result
    };
    let client = server()
        .tool(tool("string", || "text".to_owned()))
        .tool(tool("str", || "text"))
        .tool(tool("json", || Json(Sum { sum: 3 })))
        .tool(tool("json_text", || {
            Json(Sum { sum: 3 }).with_text("three")
        }))
        .tool(tool("content", || Content::image(b"hi", "image/png")))
        .tool(tool("contents", || {
            vec![Content::text("a"), Content::audio(b"hi", "audio/wav")]
        }))
        .tool(tool("empty", Vec::<Content>::new))
        .tool(tool("result", || CallToolResult::error("bad")))
        .tool(tool("ok", || ToolResult::Ok("fine")))
        .tool(tool("err", || {
            ToolResult::<String>::Err(ToolError::new("no").hint("try yes"))
        }))
        .tool(tool("io", || {
            io::Result::<String>::Err(io::Error::other("disk"))
        }))
        .start()
        .unwrap()
        .client();
    let of = |content| CallToolResult::new(content);
    for (name, expected) in [
        ("string", of(vec![Content::text("text")])),
        ("str", of(vec![Content::text("text")])),
        ("json", structured("{\"sum\":3}")),
        ("json_text", structured("three")),
        ("content", of(vec![Content::image(b"hi", "image/png")])),
        (
            "contents",
            of(vec![Content::text("a"), Content::audio(b"hi", "audio/wav")]),
        ),
        ("empty", of(Vec::new())),
        ("result", CallToolResult::error("bad")),
        ("ok", of(vec![Content::text("fine")])),
        ("err", CallToolResult::error("no\nhint: try yes")),
        ("io", CallToolResult::error("disk")),
    ] {
        let mut result = client.call_tool(name, json!({})).await.unwrap();
        result.meta = None;
        assert_eq!(result, expected, "{name}");
    }
    let list = client.request("tools/list", json!({})).await.unwrap();
    for tool in list["tools"].as_array().unwrap() {
        let promised = tool["name"].as_str().unwrap().starts_with("json");
        assert_eq!(tool.get("outputSchema").is_some(), promised, "{tool}");
    }
}

#[tokio::test]
async fn errors_leave_a_handler_by_the_question_mark() {
    async fn read(_: NoArgs, _: Cx) -> ToolResult<String> {
        let text = std::fs::read_to_string("/no/such/file")?;
        let number: u32 = text.parse()?;
        Ok(number.to_string())
    }
    async fn refuse(_: NoArgs, _: Cx) -> ToolResult<String> {
        Err(ToolError::rpc(RpcError::new(7, "for the program")))
    }
    let client = server()
        .tool(Tool::new("read", read).read_only())
        .tool(Tool::new("refuse", refuse).read_only())
        .start()
        .unwrap()
        .client();
    let result = client.call_tool("read", json!({})).await.unwrap();
    assert!(result.is_error);
    assert!(
        result.content[0]
            .as_text()
            .unwrap()
            .starts_with("No such file")
    );
    let error = client.call_tool("refuse", json!({})).await.unwrap_err();
    assert_eq!((error.code, &*error.message), (7, "for the program"));
}

#[tokio::test]
async fn a_failure_outside_a_tool_is_an_error_of_the_protocol() {
    async fn broken(_: NoArgs, _: Cx) -> ToolResult<String> {
        Err(ToolError::new("the disk is gone"))
    }
    async fn missing(_: NoArgs, _: Cx) -> ToolResult<String> {
        Err(ToolError::not_found())
    }
    let client = server()
        .resource(Resource::new("x://broken", "broken", broken))
        .resource(Resource::new("x://missing", "missing", missing))
        .resource(Resource::new(
            "x://empty",
            "empty",
            |_: NoArgs, _: Cx| async { Vec::<ResourceContents>::new() },
        ))
        .prompt(Prompt::new("broken", broken))
        .start()
        .unwrap()
        .client();
    for (method, params, code) in [
        ("resources/read", json!({ "uri": "x://broken" }), -32603),
        ("resources/read", json!({ "uri": "x://missing" }), -32602),
        ("resources/read", json!({ "uri": "x://empty" }), -32602),
        ("prompts/get", json!({ "name": "broken" }), -32603),
    ] {
        let error = client.request(method, params.clone()).await.unwrap_err();
        assert_eq!(error.code, code, "{params}: {error}");
        if code == -32602 {
            assert_eq!(error.data.as_ref().unwrap()["uri"], params["uri"]);
        }
    }
}

#[tokio::test]
async fn resources_and_prompts_may_return_several_kinds() {
    async fn several(args: Name, _: Cx) -> Vec<ResourceContents> {
        vec![
            ResourceContents::text(format!("x://{}/1", args.name), "one"),
            ResourceContents::blob("x://2", b"two").mime("a/b"),
        ]
    }
    async fn whole(_: NoArgs, _: Cx) -> ToolResult<GetPromptResult> {
        Ok(GetPromptResult::new(vec![PromptMessage::user(
            Content::text("whole"),
        )]))
    }
    let client = server()
        .resource(
            Resource::new("x://bytes", "bytes", |_: NoArgs, _: Cx| async {
                vec![1_u8]
            })
            .mime("a/c"),
        )
        .resource(Resource::template("x://all/{name}", "all", several))
        .prompt(Prompt::new(
            "text",
            |args: Name, _: Cx| async move { args.name },
        ))
        .prompt(Prompt::new("whole", whole).about("All of it."))
        .start()
        .unwrap()
        .client();
    for (method, params, pointer, expected) in [
        (
            "resources/read",
            json!({ "uri": "x://bytes" }),
            "/contents",
            json!([{ "uri": "x://bytes", "mimeType": "a/c", "blob": "AQ==" }]),
        ),
        (
            "resources/read",
            json!({ "uri": "x://all/n" }),
            "/contents",
            json!([{ "uri": "x://n/1", "text": "one" }, { "uri": "x://2", "mimeType": "a/b", "blob": "dHdv" }]),
        ),
        (
            "prompts/get",
            json!({ "name": "text", "arguments": { "name": "n" } }),
            "/messages",
            json!([{ "role": "user", "content": { "type": "text", "text": "n" } }]),
        ),
        (
            "prompts/get",
            json!({ "name": "whole" }),
            "/description",
            json!("All of it."),
        ),
    ] {
        let result = client.request(method, params).await.unwrap();
        assert_eq!(result.pointer(pointer), Some(&expected));
    }
}

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

/// A tool that returns what this makes.
fn tool<R>(name: &str, make: impl Fn() -> R + Send + Sync + 'static) -> Tool
where
    R: lmcp_core::tool::IntoToolOutput + 'static,
{
    Tool::new(name, move |_: NoArgs, _: Cx| std::future::ready(make())).read_only()
}
