//! Prompts: without arguments, with some, with suggestions, with a question.

use lmcp::{
    Completing, Content, Cx, NoArgs, Prompt, PromptMessage, ResourceContents, Server, ToolError,
    ToolResult,
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::asking::Name;

pub(crate) fn add(server: Server) -> Server {
    let review = Prompt::new("review", review)
        .title("Review")
        .about("Review some code.")
        .complete("language", languages)
        .complete("focus", focuses);
    server
        .prompt(Prompt::new("plain", plain).about("A greeting."))
        .prompt(Prompt::new("dialogue", dialogue).about("Several messages."))
        .prompt(Prompt::new("broken", broken))
        .prompt(Prompt::new("asks", asks).about("Ask the user first."))
        .prompt(review)
}

async fn plain(_: NoArgs, _: Cx) -> &'static str {
    "Say hello."
}

async fn dialogue(_: NoArgs, _: Cx) -> Vec<PromptMessage> {
    vec![
        PromptMessage::user(Content::image(b"\x89PNG\r\n\x1a\n", "image/png")),
        PromptMessage::assistant(Content::text("A picture.")),
        PromptMessage::user(Content::resource(ResourceContents::text("note://1", "one"))),
    ]
}

async fn broken(_: NoArgs, _: Cx) -> ToolResult<String> {
    Err(ToolError::new("the template is gone"))
}

async fn asks(_: NoArgs, cx: Cx) -> ToolResult<String> {
    let answer: Name = cx.ask("name", "Who reads?").await?;
    Ok(format!("Greet {}.", answer.name))
}

#[derive(Deserialize, JsonSchema)]
struct Review {
    /// The code.
    code: String,
    /// The language it is written in.
    language: Option<String>,
    /// What to look at most.
    focus: Option<String>,
    /// How many remarks at most.
    most: Option<u8>,
}

async fn review(args: Review, _: Cx) -> String {
    let Review {
        code,
        language,
        focus,
        most,
    } = args;
    format!("Review {code:?} ({language:?}, {focus:?}, {most:?}).")
}

/// 250 of them, of which a client sees a hundred.
async fn languages(completing: Completing, _: Cx) -> Vec<String> {
    let all = (0..250).map(|number| format!("lang{number:03}"));
    all.filter(|name| name.starts_with(&completing.value))
        .collect()
}

/// Depends on what was filled in before.
async fn focuses(completing: Completing, _: Cx) -> ToolResult<Vec<String>> {
    match completing.filled.get("language").map(String::as_str) {
        Some("rust") => Ok(vec!["ownership".into(), "errors".into()]),
        Some("none") => Err(ToolError::new("nothing to look at")),
        _ => Ok(vec!["clarity".into()]),
    }
}
