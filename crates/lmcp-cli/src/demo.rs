//! Tools to try a client with: one answers, one computes, one takes its time, and one asks back.

use std::time::Duration;

use lmcp::{Cx, Json, Server, Tool, ToolError, ToolResult};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Returns a server with the demo tools.
pub(crate) fn server(name: &str) -> Server {
    Server::new(name, env!("CARGO_PKG_VERSION"))
        .title("lmcp")
        .about("A light MCP server with tools to try a client with")
        .instructions(
            "These tools are for trying out a connection. None of them touches this machine.",
        )
        .tool(
            Tool::new("echo", echo)
                .about("Return the text unchanged. To check that the connection works.")
                .read_only(),
        )
        .tool(
            Tool::new("add", add)
                .about("Add numbers; returns their sum and count.")
                .read_only(),
        )
        .tool(
            Tool::new("wait", wait)
                .about("Wait some seconds, with progress. To try progress and cancelling.")
                .read_only(),
        )
        .tool(
            Tool::new("greet", greet)
                .about("Ask the user for a name and greet them. To try questions.")
                .read_only(),
        )
}

#[derive(Deserialize, JsonSchema)]
struct Echo {
    /// What to return.
    text: String,
}

async fn echo(args: Echo, _cx: Cx) -> String {
    args.text
}

#[derive(Deserialize, JsonSchema)]
struct Add {
    /// The numbers.
    numbers: Vec<f64>,
}

#[derive(Serialize, JsonSchema)]
struct Sum {
    /// All added.
    sum: f64,
    /// How many there were.
    count: usize,
}

async fn add(args: Add, _cx: Cx) -> Json<Sum> {
    Json(Sum {
        sum: args.numbers.iter().sum(),
        count: args.numbers.len(),
    })
}

#[derive(Deserialize, JsonSchema)]
struct Wait {
    /// How long, at most 300.
    seconds: u32,
}

async fn wait(args: Wait, cx: Cx) -> ToolResult<String> {
    if args.seconds > 300 {
        return Err(ToolError::new(format!("{} s is too long", args.seconds))
            .hint("wait at most 300 seconds"));
    }
    let progress = cx.progress(args.seconds as usize);
    for second in 1..=args.seconds {
        tokio::time::sleep(Duration::from_secs(1)).await;
        progress.step(format!("{second} of {} s", args.seconds));
    }
    Ok(format!("waited {} s", args.seconds))
}

#[derive(Deserialize, JsonSchema)]
struct Greet {
    /// `Hello` if absent.
    greeting: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct Name {
    /// What to call you.
    name: String,
}

async fn greet(args: Greet, cx: Cx) -> ToolResult<String> {
    let Name { name } = cx.ask("name", "Who is to be greeted?").await?;
    Ok(format!(
        "{}, {name}!",
        args.greeting.as_deref().unwrap_or("Hello")
    ))
}
