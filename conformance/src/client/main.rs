//! The client that the official conformance suite puts to its servers.
//!
//! It does with every server the same, as far as the server offers it: everything is listed, every tool is called, every
//! resource read, every prompt rendered. Only what the suite asks of a scenario by name is told apart.

use std::process::ExitCode;

use lmcp::{
    Client,
    client::{Asked, Error},
    upstream,
    wire::input::InputRequest,
};
use serde::Deserialize;
use serde_json::{Value, json};

/// The context that the suite gives beside the name of a scenario.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Context {
    #[serde(default)]
    tool_calls: Vec<ToolCall>,
}

#[derive(Deserialize)]
struct ToolCall {
    name: String,
    arguments: Value,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Some(url) = std::env::args().nth(1) else {
        return ExitCode::from(2);
    };
    match visit(&url).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&error);
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stderr, reason = "the suite shows it to people")]
fn report(error: &Error) {
    eprintln!("conformance-client: {error} ({:?})", error.fault());
}

async fn visit(url: &str) -> Result<(), Error> {
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    let context = std::env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_default();
    let context: Context = serde_json::from_str(&context).unwrap_or_default();
    let client = Client::builder()
        .named("conformance-client", env!("CARGO_PKG_VERSION"))
        .on_question(async |asked| Ok(answer(&asked)))
        .connect(upstream::url(url))
        .await?;
    let offered = client.server_capabilities().await?;
    if offered.tools.is_some() {
        call_tools(&client, &scenario, context).await?;
    }
    if offered.resources.is_some() {
        for resource in client.list_resources().await? {
            client.read(&resource.uri).await?;
        }
    }
    if offered.prompts.is_some() {
        for prompt in client.list_prompts().await? {
            client.get_prompt(&prompt.name, json!({})).await?;
        }
    }
    Ok(())
}

async fn call_tools(client: &Client, scenario: &str, context: Context) -> Result<(), Error> {
    let tools = client.list_tools().await?;
    match scenario {
        // This server has nothing but the list.
        "json-schema-ref-no-deref" => return Ok(()),
        "json-schema-2020-12-preservation" => {
            let schema = tools
                .iter()
                .find(|tool| tool.name == "json_schema_2020_12_tool");
            let schema = schema.map(|tool| &tool.input_schema);
            let arguments = json!({ "schema": schema });
            client.call_tool("json_schema_echo", arguments).await?;
            return Ok(());
        }
        _ => {}
    }
    if context.tool_calls.is_empty() {
        for tool in tools {
            let arguments = json!({ "a": 2, "b": 3 });
            client.call_tool(&tool.name, arguments).await?;
        }
        return Ok(());
    }
    for call in context.tool_calls {
        client.call_tool(&call.name, call.arguments).await?;
    }
    Ok(())
}

/// Agrees to everything, with the values that forms suggest.
fn answer(asked: &Asked) -> Value {
    match &asked.question {
        InputRequest::Elicit(_) => json!({ "action": "accept", "content": asked.defaults() }),
        InputRequest::Roots(_) => json!({ "roots": [] }),
        _ => {
            let content = json!({ "type": "text", "text": "a word" });
            json!({ "role": "assistant", "content": content, "model": "none" })
        }
    }
}
