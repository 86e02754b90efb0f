//! Tools that go on after they were answered.

use lmcp::{Cx, NoArgs, RpcError, Server, Tool, ToolError, ToolResult, ask::Form, wire::Content};

use crate::asking::Name;

pub(crate) fn add(server: Server) -> Server {
    let only = Tool::new("task_only", only)
        .about("Fail, and only as a task.")
        .read_only()
        .only_as_task();
    let refused = Tool::new("task_refused", refused)
        .about("End with a JSON-RPC error, as a task.")
        .read_only()
        .as_task();
    let asks = Tool::new("task_asks", asks)
        .about("Ask two questions, as a task.")
        .read_only()
        .as_task();
    server
        .tool(
            Tool::new("task", task)
                .about("Greet, as a task.")
                .read_only()
                .as_task(),
        )
        .tool(
            Tool::new("task_later", later)
                .about("Ask, then become a task.")
                .read_only(),
        )
        .tool(only)
        .tool(refused)
        .tool(asks)
}

async fn task(_: NoArgs, _: Cx) -> Vec<Content> {
    vec![Content::text("hello from the task")]
}

async fn only(_: NoArgs, _: Cx) -> ToolResult<String> {
    Err(ToolError::new("the task failed"))
}

async fn refused(_: NoArgs, _: Cx) -> ToolResult<String> {
    Err(ToolError::rpc(RpcError::internal("the task broke")))
}

async fn asks(_: NoArgs, cx: Cx) -> ToolResult<String> {
    let (host, guest) = cx
        .ask_all((
            Form::<Name>::new("host", "Who lives here?"),
            Form::<Name>::new("guest", "Who visits?"),
        ))
        .await?;
    Ok(format!("{} visits {}", guest.name, host.name))
}

async fn later(_: NoArgs, cx: Cx) -> ToolResult<String> {
    let answer: Name = cx.ask("name", "Who is there?").await?;
    cx.detach().await;
    Ok(format!("hello, {}", answer.name))
}
