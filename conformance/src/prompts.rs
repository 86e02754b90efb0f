//! Prompts: plain, with arguments, with a resource, with a picture, and one that asks first.

use lmcp::{
    Completing, Content, Cx, NoArgs, Prompt, PromptMessage, ResourceContents, Server, ToolResult,
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::media;

pub(crate) fn add(server: Server) -> Server {
    server
        .prompt(Prompt::new("test_simple_prompt", simple).about("A prompt without arguments."))
        .prompt(
            Prompt::new("test_prompt_with_arguments", with_arguments)
                .about("A prompt with two arguments.")
                .complete("arg1", suggest),
        )
        .prompt(
            Prompt::new("test_prompt_with_embedded_resource", with_resource)
                .about("A prompt that embeds a resource."),
        )
        .prompt(Prompt::new("test_prompt_with_image", with_image).about("A prompt with a picture."))
        .prompt(
            Prompt::new("test_input_required_result_prompt", asks_first)
                .about("A prompt that asks for its context first."),
        )
}

async fn simple(_: NoArgs, _: Cx) -> &'static str {
    "This is a simple prompt for testing."
}

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    /// First test argument
    arg1: String,
    /// Second test argument
    arg2: String,
}

async fn with_arguments(args: Arguments, _: Cx) -> String {
    let Arguments { arg1, arg2 } = args;
    format!("Prompt with arguments: arg1='{arg1}', arg2='{arg2}'")
}

async fn suggest(completing: Completing, _: Cx) -> Vec<String> {
    let known = ["paris", "park", "party"].map(String::from);
    known
        .into_iter()
        .filter(|value| value.starts_with(&completing.value))
        .collect()
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Embed {
    /// URI of the resource to embed
    resource_uri: String,
}

async fn with_resource(args: Embed, _: Cx) -> Vec<PromptMessage> {
    let contents =
        ResourceContents::text(args.resource_uri, "Embedded resource content for testing.");
    vec![
        PromptMessage::user(Content::resource(contents.mime("text/plain"))),
        PromptMessage::user(Content::text("Please process the embedded resource above.")),
    ]
}

async fn with_image(_: NoArgs, _: Cx) -> Vec<PromptMessage> {
    vec![
        PromptMessage::user(media::picture()),
        PromptMessage::user(Content::text("Please analyze the image above.")),
    ]
}

#[derive(Deserialize, JsonSchema)]
struct Context {
    context: String,
}

async fn asks_first(_: NoArgs, cx: Cx) -> ToolResult<String> {
    let answer: Context = cx
        .ask("user_context", "What context should the prompt use?")
        .await?;
    Ok(format!("Answer in this context: {}", answer.context))
}
