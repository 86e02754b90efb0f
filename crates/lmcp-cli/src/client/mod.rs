//! The commands that call a server: `tools`, `call`, `read`, `prompt` and `ping`.
//!
//! | file | what lives there |
//! |---|---|
//! | `options` | the options of these commands |
//! | `target` | the server that a command line names |
//! | `arguments` | turns `NAME=VALUE` into JSON, as the tool's schema says |
//! | `show` | results, for people on a terminal or for programs |
//! | `describe` | lists of tools, prompts and resources, for people |
//! | `hub` | the state of a hub's servers, for people |
//! | `answers` | the answers of a command line to a server's questions |
//! | `ask`, `field` | turns a server's question into a prompt on the terminal, and checks the answers |
//! | `progress` | one line that shows the progress of a call |

mod answers;
mod arguments;
mod ask;
mod describe;
mod field;
mod hub;
mod options;
mod progress;
mod show;
mod target;

use std::{collections::BTreeMap, process::ExitCode, sync::Arc, time::Instant};

use lmcp::{
    Client,
    client::{Error, Fault},
    wire::{
        error::{METHOD_NOT_FOUND, MISSING_CLIENT_CAPABILITY},
        prompt::Prompt,
        tool::Tool,
    },
};
use serde_json::json;

use crate::{
    report::{self, Failure},
    signals::{Signals, stopped_by},
};

use answers::Answers;
pub(crate) use options::{
    AFTER, AFTER_CALL, CallOptions, Connection, HubStatusOptions, PingOptions, PromptOptions,
    ReadOptions, ToolsOptions,
};
use show::Output;
pub(crate) use target::Target;

/// The exit code if the server gave no answer.
const UNREACHABLE: u8 = 3;
/// The exit code if the server, or its tool, failed.
const FAILED: u8 = 1;

pub(crate) async fn tools(options: ToolsOptions) -> Result<ExitCode, Failure> {
    with_server(&options.connection, async |client, mut output| {
        let tools = match &options.tool {
            Some(name) => vec![find(client, name).await?],
            None => or_none(client.list_tools().await)?,
        };
        match (&output, &tools[..]) {
            (Output::Json, [tool]) if options.tool.is_some() => output.json(tool)?,
            (Output::Json, tools) => output.json(&json!({ "tools": tools }))?,
            (Output::Text, [tool]) if options.tool.is_some() => {
                output.line(&describe::tool(tool))?
            }
            (Output::Text, tools) => output.line(&describe::tools(tools))?,
        }
        Ok(ExitCode::SUCCESS)
    })
    .await
}

/// Finds the tool with this name. If it belongs to a hub's server that is still starting, waits for that server.
async fn find(client: &Client, name: &str) -> Result<Tool, Failure> {
    let mut is_starting = true;
    loop {
        let mut tools = or_none(client.list_tools().await)?;
        match arguments::find(&tools, name) {
            Ok(place) => return Ok(tools.swap_remove(place)),
            // The server may have started between the list and the question, so the list is requested once more.
            Err(unknown) if is_starting => {
                is_starting = hub::is_starting(client, name, unknown).await?;
            }
            Err(unknown) => return Err(unknown),
        }
    }
}

pub(crate) async fn call(options: CallOptions) -> Result<ExitCode, Failure> {
    let connection = &options.connection;
    let answers = match Answers::of(&options.answers) {
        Ok(answers) => Arc::new(answers),
        Err(failure) => return show::failure(connection.output(), failure),
    };
    with_answers(connection, &answers, async |client, mut output| {
        let tool = find(client, &options.tool).await?;
        let arguments = arguments::of_tool(&options.arguments, &tool)?;
        let result = client.call_tool(&tool.name, arguments).await;
        let result = result.map_err(|err| match asks(&err) {
            true => no_answer(err).hint(
                "the tool asks a question: run it in a terminal, or give --answer NAME=VALUE",
            ),
            false => no_answer(err),
        })?;
        for name in answers.unused() {
            report::note(&format!("no question has a field `{name}`"));
        }
        output.call(&result)?;
        Ok(match result.is_error {
            true => ExitCode::from(FAILED),
            false => ExitCode::SUCCESS,
        })
    })
    .await
}

pub(crate) async fn read(options: ReadOptions) -> Result<ExitCode, Failure> {
    with_server(&options.connection, async |client, mut output| {
        if let Some(uri) = &options.uri {
            let result = client.read(uri).await.map_err(no_answer)?;
            output.resource(&result)?;
            return Ok(ExitCode::SUCCESS);
        }
        let resources = or_none(client.list_resources().await)?;
        let templates = or_none(client.list_templates().await)?;
        match output {
            Output::Json => {
                output.json(&json!({ "resources": resources, "resourceTemplates": templates }))?;
            }
            Output::Text => output.line(&describe::resources(&resources, &templates))?,
        }
        Ok(ExitCode::SUCCESS)
    })
    .await
}

pub(crate) async fn prompt(options: PromptOptions) -> Result<ExitCode, Failure> {
    with_server(&options.connection, async |client, mut output| {
        let Some(name) = &options.prompt else {
            let prompts = or_none(client.list_prompts().await)?;
            match output {
                Output::Json => output.json(&json!({ "prompts": prompts }))?,
                Output::Text => output.line(&describe::prompts(&prompts))?,
            }
            return Ok(ExitCode::SUCCESS);
        };
        let arguments = prompt_arguments(&options.arguments)?;
        let result = client.get_prompt(name, &arguments).await;
        output.prompt(&result.map_err(no_answer)?)?;
        Ok(ExitCode::SUCCESS)
    })
    .await
}

/// Reads the arguments of a prompt. Their values are always text.
fn prompt_arguments(words: &[String]) -> Result<BTreeMap<String, String>, Failure> {
    let pairs = words.iter().map(|word| {
        let (name, value) = arguments::split(word)?;
        Ok((name.to_owned(), arguments::text_of(value)?))
    });
    pairs.collect()
}

pub(crate) async fn ping(options: PingOptions) -> Result<ExitCode, Failure> {
    with_server(&options.connection, async |client, mut output| {
        let info = client.server_info().await.map_err(no_answer)?;
        let begun = Instant::now();
        client.ping().await.map_err(no_answer)?;
        let milliseconds = begun.elapsed().as_secs_f64() * 1000.0;
        match output {
            Output::Json => {
                output.json(&json!({ "server": info, "milliseconds": milliseconds }))?
            }
            Output::Text => {
                output.line(&format!(
                    "{} {}, {milliseconds:.2} ms",
                    info.name, info.version
                ))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    })
    .await
}

pub(crate) async fn hub_status(options: HubStatusOptions) -> Result<ExitCode, Failure> {
    with_server(&options.connection, async |client, mut output| {
        if options.watch {
            return hub::watch(client, output).await;
        }
        let status = hub::status(client).await?;
        match output {
            Output::Json => output.json(&status)?,
            Output::Text => output.line(&hub::table(&status)?)?,
        }
        Ok(ExitCode::SUCCESS)
    })
    .await
}

/// Connects, does the work, and disconnects. If that fails, programs read the reason on stdout.
async fn with_server(
    connection: &Connection,
    work: impl AsyncFnOnce(&Client, Output) -> Result<ExitCode, Failure>,
) -> Result<ExitCode, Failure> {
    with_answers(connection, &Arc::default(), work).await
}

/// Does the same, with answers to questions of the server.
async fn with_answers(
    connection: &Connection,
    answers: &Arc<Answers>,
    work: impl AsyncFnOnce(&Client, Output) -> Result<ExitCode, Failure>,
) -> Result<ExitCode, Failure> {
    let output = connection.output();
    let done = until_signal(connection, answers, async |client| {
        work(client, output).await
    });
    let done = done.await;
    done.or_else(|failure| show::failure(output, failure))
}

/// Does the same, and reports nothing. A signal cancels the work at the server.
async fn until_signal(
    connection: &Connection,
    answers: &Arc<Answers>,
    work: impl AsyncFnOnce(&Client) -> Result<ExitCode, Failure>,
) -> Result<ExitCode, Failure> {
    let mut signals = Signals::listen()?;
    let client = tokio::select! {
        client = connection.connect(answers) => client?,
        kind = signals.next() => return Err(stopped_by(kind).silent()),
    };
    let done = tokio::select! {
        done = work(&client) => done,
        kind = signals.next() => Err(stopped_by(kind).silent()),
    };
    progress::clear();
    // Dropping the work has cancelled it; the server must be told before the connection ends.
    tokio::select! {
        () = client.close() => {}
        _ = signals.next() => {}
    }
    done
}

/// Returns a list, which is empty if the server does not know the method.
fn or_none<T>(list: Result<Vec<T>, Error>) -> Result<Vec<T>, Failure> {
    match list {
        Err(err) if err.code == METHOD_NOT_FOUND => Ok(Vec::new()),
        list => list.map_err(no_answer),
    }
}

/// Returns the reason why there is no result: the server cannot be reached, or refused.
#[expect(clippy::needless_pass_by_value, reason = "it is passed to `map_err`")]
fn no_answer(err: Error) -> Failure {
    if err.fault() == Fault::Transport || err.is_unauthorized() {
        return Failure::of(err.message.clone()).code(UNREACHABLE);
    }
    let failure = Failure::of(lmcp::error::chain(&err)).code(FAILED);
    if asks(&err) {
        return failure.hint("the server asks a question: run it in a terminal");
    }
    match err.is_retriable() {
        true => failure.hint("the server says that trying again may help"),
        false => failure,
    }
}

/// Returns whether the server wants to ask somebody, and was told that nobody is there.
fn asks(err: &Error) -> bool {
    let needed = err.data.as_ref().map(|data| &data["requiredCapabilities"]);
    err.code == MISSING_CLIENT_CAPABILITY
        && needed.is_some_and(|needed| needed.get("elicitation").is_some())
}

/// Returns the form of a prompt on the command line.
fn usage(prompt: &Prompt) -> String {
    let arguments = prompt.arguments.iter().map(|argument| {
        let name = &argument.name;
        match argument.required == Some(true) {
            true => format!(" {name}=…"),
            false => format!(" [{name}=…]"),
        }
    });
    format!("{}{}", prompt.name, arguments.collect::<String>())
}
