//! Questions and results that older clients know in another shape, or not at all.

use lmcp::{
    Content, Cx, Json, NoArgs, Server, Tool, ToolResult,
    ask::Form,
    wire::{
        self,
        sampling::{CreateMessageParams, OneOrMany, SamplingMessage},
    },
};
use serde_json::json;

pub(crate) fn add(server: Server) -> Server {
    server
        .tool(
            Tool::new("ask_form", ask_form)
                .about("Ask with every kind of field that holds one value.")
                .read_only(),
        )
        .tool(
            Tool::new("ask_several", ask_several)
                .about("Ask for a choice of several.")
                .read_only(),
        )
        .tool(Tool::new("list", list).about("Return a list.").read_only())
        .tool(
            Tool::new("sample_tools", sample_tools)
                .about("Let the model use a tool.")
                .read_only(),
        )
}

async fn ask_form(_: NoArgs, cx: Cx) -> ToolResult<String> {
    let schema = json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "title": "Name", "minLength": 1, "default": "Ann" },
            "age": { "type": "integer", "minimum": 0, "default": 30 },
            "member": { "type": "boolean", "default": true },
            "size": { "type": "string", "enum": ["s", "l"], "default": "s" },
            "hat": {
                "type": "string",
                "oneOf": [
                    { "const": "r", "title": "Red" },
                    { "const": "g", "title": "Green" },
                ],
            },
        },
        "required": ["name"],
    });
    let answer = cx
        .ask_question(Form::raw("form", "Who are you?", schema))
        .await?;
    Ok(serde_json::to_string(&answer)?)
}

async fn ask_several(_: NoArgs, cx: Cx) -> ToolResult<String> {
    let colours = json!({ "type": "array", "items": { "type": "string", "enum": ["r", "g"] } });
    let schema = json!({ "type": "object", "properties": { "colours": colours } });
    let answer = cx
        .ask_question(Form::raw("colours", "Which ones?", schema))
        .await?;
    Ok(serde_json::to_string(&answer)?)
}

async fn list(_: NoArgs, _: Cx) -> Json<Vec<u8>> {
    Json(vec![1, 2])
}

/// A conversation in which a message has two blocks, and a tool that the model may use.
async fn sample_tools(_: NoArgs, cx: Cx) -> ToolResult<String> {
    let mut question = CreateMessageParams::ask("What is the weather?", 20);
    let blocks = vec![
        Content::text("Look here."),
        Content::audio(b"RIFF", "audio/wav"),
    ];
    let mut message = SamplingMessage::user(Content::text(""));
    message.content = OneOrMany::Many(blocks);
    question.messages.push(message);
    let tool = wire::Tool::new("weather", json!({ "type": "object" }));
    question.tools = Some(vec![tool]);
    question.tool_choice = Some(json!({ "mode": "auto" }));
    let answer = cx.sample("weather", question).await?;
    Ok(serde_json::to_string(&answer.content)?)
}
