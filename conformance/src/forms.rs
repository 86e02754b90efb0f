//! Tools that ask as the set of 2025-11-25 wants it: every kind of field, with defaults and choices.
//!
//! That set answers them while the call waits; on 2026-07-28 the same handlers ask by returning.

use lmcp::{
    Cx, NoArgs, Server, Tool, ToolResult,
    ask::Form,
    wire::{Object, sampling::CreateMessageParams},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::ask::said;

pub(crate) fn add(server: Server) -> Server {
    server
        .tool(
            Tool::new("test_sampling", sampling)
                .about("Asks the model, and returns its answer.")
                .read_only(),
        )
        .tool(
            Tool::new("test_elicitation", elicitation)
                .about("Asks the user who they are, and returns it.")
                .read_only(),
        )
        .tool(
            Tool::new("test_elicitation_sep1034_defaults", defaults)
                .about("Shows a form whose every field has a default, and returns it.")
                .read_only(),
        )
        .tool(
            Tool::new("test_elicitation_sep1330_enums", choices)
                .about("Shows a form with every kind of choice, and returns it.")
                .read_only(),
        )
}

#[derive(Deserialize, JsonSchema)]
struct Sampling {
    /// What to ask the model.
    prompt: String,
}

async fn sampling(args: Sampling, cx: Cx) -> ToolResult<String> {
    let params = CreateMessageParams::ask(args.prompt, 100);
    let answer = cx.sample("answer", params).await?;
    Ok(format!("LLM response: {}", said(&answer)))
}

#[derive(Deserialize, JsonSchema)]
struct Elicitation {
    /// What the user is to read.
    message: String,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct User {
    /// User's response
    username: String,
    /// User's email address
    email: String,
}

async fn elicitation(args: Elicitation, cx: Cx) -> ToolResult<String> {
    let user: Option<User> = cx.ask_opt("user", args.message).await?;
    Ok(match user {
        Some(user) => format!("User response: accept, {} <{}>", user.username, user.email),
        None => "User response: no".into(),
    })
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(default)]
struct Profile {
    name: String,
    age: i64,
    score: f64,
    status: Status,
    verified: bool,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Status {
    Active,
    Inactive,
    Pending,
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            name: "John Doe".into(),
            age: 30,
            score: 95.5,
            status: Status::Active,
            verified: true,
        }
    }
}

async fn defaults(_: NoArgs, cx: Cx) -> ToolResult<String> {
    let profile: Profile = cx.ask("profile", "Please check your profile").await?;
    let profile = serde_json::to_string(&profile)?;
    Ok(format!(
        "Elicitation completed: action=accept, content={profile}"
    ))
}

async fn choices(_: NoArgs, cx: Cx) -> ToolResult<String> {
    // A Rust type has no titles for its values, so this form is written by hand.
    let form = Form::raw("choices", "Please choose", choices_schema());
    let answer: Object = cx.ask_question(form).await?;
    let answer = Value::Object(answer);
    Ok(format!(
        "Elicitation completed: action=accept, content={answer}"
    ))
}

fn choices_schema() -> Value {
    let titled = |titles: [&str; 3]| {
        let choice = |(index, title)| json!({ "const": format!("value{index}"), "title": title });
        Value::Array((1..).zip(titles).map(choice).collect())
    };
    let options = json!(["option1", "option2", "option3"]);
    json!({
        "type": "object",
        "properties": {
            "untitledSingle": { "type": "string", "enum": options },
            "titledSingle": { "type": "string", "oneOf": titled(["First Option", "Second Option", "Third Option"]) },
            "legacyEnum": {
                "type": "string",
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"],
            },
            "untitledMulti": { "type": "array", "items": { "type": "string", "enum": options } },
            "titledMulti": {
                "type": "array",
                "items": { "anyOf": titled(["First Choice", "Second Choice", "Third Choice"]) },
            },
        },
    })
}
