//! Tools that become tasks, and one that never does.

use std::time::Duration;

use lmcp::{Cx, NoArgs, RpcError, Server, Tool, ToolError, ToolResult, ask::Form};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::sleep;

use crate::ask::Name;

pub(crate) fn add(server: Server) -> Server {
    server
        .tool(
            Tool::new("greet", greet)
                .about("Greets by name, at once.")
                .read_only(),
        )
        .tool(
            Tool::new("slow_compute", slow_compute)
                .about("Returns a text, after as many seconds as it is told.")
                .read_only()
                .as_task(),
        )
        .tool(
            Tool::new("failing_job", failing_job)
                .about("Fails after a second. Only for clients that know tasks.")
                .read_only()
                .only_as_task(),
        )
        .tool(
            Tool::new("protocol_error_job", protocol_error_job)
                .about("Ends in a JSON-RPC error.")
                .read_only()
                .as_task(),
        )
        .tool(
            Tool::new("confirm_delete", confirm_delete)
                .about("Asks whether to delete a file, and deletes nothing.")
                .read_only()
                .as_task(),
        )
        .tool(
            Tool::new("multi_input", multi_input)
                .about("Asks two things at once.")
                .read_only()
                .as_task(),
        )
        .tool(
            Tool::new("test_tool_with_task", ask_then_work)
                .about("Asks for a name, then greets in a task.")
                .read_only(),
        )
}

#[derive(Deserialize, JsonSchema)]
struct Greet {
    /// Whom to greet.
    name: String,
}

async fn greet(args: Greet, _: Cx) -> String {
    format!("Hello, {}!", args.name)
}

#[derive(Deserialize, JsonSchema)]
struct SlowCompute {
    /// How long it takes.
    seconds: u64,
    /// What to call it.
    label: Option<String>,
}

async fn slow_compute(args: SlowCompute, _: Cx) -> String {
    sleep(Duration::from_secs(args.seconds)).await;
    let label = args.label.as_deref().unwrap_or("nothing");
    format!("computed {label} for {} s", args.seconds)
}

async fn failing_job(_: NoArgs, _: Cx) -> ToolResult<String> {
    sleep(Duration::from_secs(1)).await;
    Err(ToolError::new("this job always fails"))
}

async fn protocol_error_job(_: NoArgs, _: Cx) -> ToolResult<String> {
    Err(ToolError::rpc(RpcError::internal("this job always breaks")))
}

#[derive(Deserialize, JsonSchema)]
struct ConfirmDelete {
    /// Which file.
    filename: String,
}

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    confirm: bool,
}

async fn confirm_delete(args: ConfirmDelete, cx: Cx) -> ToolResult<String> {
    let file = &args.filename;
    let answer: Confirm = cx.ask("confirm", format!("Delete {file}?")).await?;
    Ok(if answer.confirm {
        format!("{file} would be deleted")
    } else {
        format!("{file} would be kept")
    })
}

async fn multi_input(_: NoArgs, cx: Cx) -> ToolResult<String> {
    let questions = (
        Form::<Name>::new("name", "What is your name?"),
        Form::<Confirm>::new("confirm", "Are you sure?"),
    );
    let (user, sure) = cx.ask_all(questions).await?;
    Ok(format!("{}, sure: {}", user.name, sure.confirm))
}

async fn ask_then_work(_: NoArgs, cx: Cx) -> ToolResult<String> {
    let user: Name = cx.ask("user_name", "What is your name?").await?;
    cx.detach().await;
    Ok(format!("Hello, {}!", user.name))
}
