//! Tools that ask the client in the middle of a call, in every way a 2026-07-28 server can.
//!
//! The forms that only the set of 2025-11-25 looks at are in `forms`; questions of tasks are in `tasks`.

use lmcp::{
    Cx, NoArgs, Server, Tool, ToolResult,
    ask::{Form, Roots, Sample},
    wire::{
        roots::Root,
        sampling::{CreateMessageParams, CreateMessageResult},
    },
};
use schemars::JsonSchema;
use serde::Deserialize;

pub(crate) fn add(server: Server) -> Server {
    server
        .tool(
            asks("test_input_required_result_elicitation", name)
                .about("Asks for a name, and greets."),
        )
        .tool(
            asks("test_input_required_result_sampling", capital)
                .about("Asks the model, and returns its answer."),
        )
        .tool(
            asks("test_input_required_result_list_roots", folders)
                .about("Asks for the client's folders."),
        )
        .tool(
            asks("test_input_required_result_request_state", state)
                .about("Asks, and tells if its state came back."),
        )
        .tool(
            asks("test_input_required_result_multiple_inputs", several)
                .about("Asks three things at once."),
        )
        .tool(
            asks("test_input_required_result_multi_round", rounds)
                .about("Asks one thing, then another."),
        )
        .tool(asks("test_input_required_result_tampered_state", confirm).about("Asks for a yes."))
        .tool(
            asks("test_input_required_result_capabilities", possible)
                .about("Asks what the client can be asked."),
        )
        .tool(asks("test_missing_capability", capital).about("Needs a client with a model."))
        .tool(
            asks("test_streaming_elicitation", streaming)
                .about("Reports progress, then asks for a name."),
        )
}

fn asks<F>(name: &str, handler: impl Fn(NoArgs, Cx) -> F + Send + Sync + 'static) -> Tool
where
    F: Future<Output = ToolResult<String>> + Send + 'static,
{
    Tool::new(name, handler).read_only()
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Name {
    pub(crate) name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Color {
    color: String,
}

#[derive(Deserialize, JsonSchema)]
struct Confirmation {
    ok: bool,
}

async fn name(_: NoArgs, cx: Cx) -> ToolResult<String> {
    let user: Name = cx.ask("user_name", "What is your name?").await?;
    Ok(format!("Hello, {}!", user.name))
}

async fn capital(_: NoArgs, cx: Cx) -> ToolResult<String> {
    cx.ask_question(capital_question())
        .await
        .map(|answer| said(&answer))
}

async fn folders(_: NoArgs, cx: Cx) -> ToolResult<String> {
    let folders = cx.ask_question(Roots::new("client_roots")).await?;
    Ok(format!("The client works in {}.", listed(&folders)))
}

async fn state(_: NoArgs, cx: Cx) -> ToolResult<String> {
    let remembered: Option<String> = cx.recall();
    cx.remember(&"first round")?;
    let answer: Confirmation = cx.ask("confirm", "Please confirm").await?;
    let state = match remembered.as_deref() {
        Some("first round") => "state-ok",
        _ => "state-lost",
    };
    Ok(format!("{state}, ok: {}", answer.ok))
}

async fn several(_: NoArgs, cx: Cx) -> ToolResult<String> {
    let questions = (
        Form::<Name>::new("user_name", "What is your name?"),
        Sample::new(
            "greeting",
            CreateMessageParams::ask("Generate a greeting", 50),
        ),
        Roots::new("client_roots"),
    );
    let (user, greeting, folders) = cx.ask_all(questions).await?;
    Ok(format!(
        "{} {}, in {}",
        said(&greeting),
        user.name,
        listed(&folders)
    ))
}

async fn rounds(_: NoArgs, cx: Cx) -> ToolResult<String> {
    let user: Name = cx.ask("step1", "Step 1: What is your name?").await?;
    let favorite: Color = cx
        .ask("step2", "Step 2: What is your favorite color?")
        .await?;
    Ok(format!("{} likes {}.", user.name, favorite.color))
}

async fn confirm(_: NoArgs, cx: Cx) -> ToolResult<String> {
    let answer: Confirmation = cx.ask("confirm", "Please confirm").await?;
    Ok(format!("ok: {}", answer.ok))
}

async fn possible(_: NoArgs, cx: Cx) -> ToolResult<String> {
    if !cx.capabilities().has_form() {
        return capital(NoArgs::default(), cx).await;
    }
    let form = Form::<Name>::new("user_name", "What is your name?");
    if cx.capabilities().sampling.is_none() {
        return cx.ask_question(form).await.map(|user| user.name);
    }
    let (user, answer) = cx.ask_all((form, capital_question())).await?;
    Ok(format!("{}: {}", user.name, said(&answer)))
}

async fn streaming(_: NoArgs, cx: Cx) -> ToolResult<String> {
    cx.open_progress().step("about to ask");
    name(NoArgs::default(), cx).await
}

fn capital_question() -> Sample {
    Sample::new(
        "capital_question",
        CreateMessageParams::ask("What is the capital of France?", 100),
    )
}

/// What the model said, as far as it is text.
pub(crate) fn said(answer: &CreateMessageResult) -> String {
    let texts = answer
        .content
        .as_slice()
        .iter()
        .filter_map(|block| block.as_text());
    texts.collect::<Vec<_>>().join("\n")
}

fn listed(folders: &[Root]) -> String {
    let uris = folders.iter().map(|folder| folder.uri.as_str());
    uris.collect::<Vec<_>>().join(", ")
}
