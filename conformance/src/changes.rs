//! Tools that change what the server offers, so that subscriptions have something to tell.

use lmcp::{Cx, NoArgs, Prompt, Server, Tool, ToolResult};

pub(crate) fn add(server: Server) -> Server {
    server
        .tool(
            Tool::new("test_trigger_tool_change", change_tools)
                .about("Adds a tool, or removes it again.")
                .writes(),
        )
        .tool(
            Tool::new("test_trigger_prompt_change", change_prompts)
                .about("Adds a prompt, or removes it again.")
                .writes(),
        )
}

async fn change_tools(_: NoArgs, cx: Cx) -> ToolResult<&'static str> {
    let server = cx.server();
    if server.remove_tool(PASSING) {
        return Ok("The tool is gone.");
    }
    server.add_tool(
        Tool::new(PASSING, passing)
            .about("Comes and goes.")
            .read_only(),
    )?;
    Ok("The tool is there.")
}

async fn change_prompts(_: NoArgs, cx: Cx) -> ToolResult<&'static str> {
    let server = cx.server();
    if server.remove_prompt(PASSING) {
        return Ok("The prompt is gone.");
    }
    server.add_prompt(Prompt::new(PASSING, passing).about("Comes and goes."))?;
    Ok("The prompt is there.")
}

async fn passing(_: NoArgs, _: Cx) -> &'static str {
    "Here for now."
}

const PASSING: &str = "test_passing";
