//! A server with a tool or resource of every kind.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use lmcp_core::{Cx, NoArgs, Prompt, Resource, Server, Tool, ToolResult};
use lmcp_wire::{Content, LoggingLevel, PromptMessage, sampling::CreateMessageParams};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize, JsonSchema)]
struct Text {
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Journey {
    #[schemars(extend("x-mcp-header" = "Region"))]
    region: String,
}

/// Counts cancelled calls.
struct Stopped(Arc<AtomicUsize>);

impl Drop for Stopped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

pub(crate) fn server() -> Server {
    let stopped = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&stopped);
    let hang = move |_: NoArgs, cx: Cx| {
        let stopped = Stopped(Arc::clone(&count));
        async move {
            cx.open_progress().step("it hangs");
            let () = std::future::pending().await;
            drop(stopped);
            ""
        }
    };
    let stopped = move |_: NoArgs, _: Cx| {
        let stopped = stopped.load(Ordering::Acquire);
        async move { stopped.to_string() }
    };
    Server::new("probe", "1.0.0")
        .instructions("Handle with care.")
        .tool(Tool::new("echo", echo).read_only())
        .tool(Tool::new("travel", travel).read_only())
        .tool(Tool::new("greet", greet).read_only())
        .tool(Tool::new("sample", sample).read_only())
        .tool(Tool::new("folders", folders).read_only())
        .tool(Tool::new("work", work).read_only())
        .tool(Tool::new("hang", hang).read_only())
        .tool(Tool::new("stopped", stopped).read_only())
        .tool(Tool::new("grow", grow).writes())
        .tool(Tool::new("die", die).destructive())
        .tool(Tool::new("slow", slow).read_only().as_task())
        .resource(Resource::text("probe://text", "text", "some text"))
        .prompt(Prompt::new("hello", |_: NoArgs, _: Cx| async {
            vec![PromptMessage::user(Content::text("hello"))]
        }))
}

async fn echo(args: Text, _: Cx) -> String {
    args.text
}

async fn travel(journey: Journey, _: Cx) -> String {
    format!("to the {}", journey.region)
}

async fn greet(_: NoArgs, cx: Cx) -> ToolResult<String> {
    let Name { name } = cx.ask("name", "Who?").await?;
    Ok(format!("Hello, {name}!"))
}

async fn sample(_: NoArgs, cx: Cx) -> ToolResult<String> {
    let params = json!({
        "messages": [{ "role": "user", "content": { "type": "text", "text": "hm?" } }],
        "maxTokens": 5,
    });
    let params: CreateMessageParams = serde_json::from_value(params)?;
    let said = cx.sample("word", params).await?;
    Ok(said.model)
}

async fn folders(_: NoArgs, cx: Cx) -> ToolResult<String> {
    let roots = cx.roots().await?;
    let roots: Vec<_> = roots.into_iter().map(|root| root.uri).collect();
    Ok(roots.join(" "))
}

async fn work(_: NoArgs, cx: Cx) -> &'static str {
    let progress = cx.progress(3);
    for step in ["one", "two", "three"] {
        progress.step(step);
        tokio::task::yield_now().await;
    }
    cx.log(LoggingLevel::Error, "worked");
    "worked"
}

async fn grow(_: NoArgs, cx: Cx) -> ToolResult<&'static str> {
    let new = Tool::new("new", |_: NoArgs, _: Cx| async { "new" });
    cx.server().remove_tool("new");
    cx.server().add_tool(new.read_only())?;
    cx.server().resource_updated("probe://text");
    Ok("grown")
}

async fn die(_: NoArgs, _: Cx) -> &'static str {
    std::process::abort();
}

async fn slow(_: NoArgs, cx: Cx) -> ToolResult<String> {
    cx.detach().await;
    let Name { name } = cx.ask("name", "Who?").await?;
    Ok(format!("slow {name}"))
}
