//! The options of the commands that call a server.

use std::{
    ffi::OsString,
    io::{IsTerminal as _, stdin, stdout},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use clap::Args;
use lmcp::wire::LoggingLevel;
use lmcp::{
    Client,
    client::{Builder, Error},
};

use super::{
    Target,
    answers::Answers,
    ask, progress,
    show::{Output, visible},
};
use crate::report::{self, Failure};

/// The server, and how its answers are shown.
#[derive(Debug, Args)]
pub(crate) struct Connection {
    /// The server: a URL, or the path of a unix socket.
    /// [default: the server that `lmcp proxy` finds; started if need be]
    #[arg(
        long,
        value_name = "TARGET",
        conflicts_with = "command",
        verbatim_doc_comment
    )]
    at: Option<String>,

    /// The file with the token for a URL or socket; only you can read it.
    /// [env: LMCP_TOKEN_FILE, or the token itself in LMCP_TOKEN]
    #[arg(long, value_name = "FILE", requires = "at", verbatim_doc_comment)]
    token_file: Option<PathBuf>,

    /// Give up after this time.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,

    /// Print one JSON document. [default: if stdout is no terminal]
    #[arg(long, conflicts_with = "text")]
    json: bool,

    /// Print text for people. [default: if stdout is a terminal]
    #[arg(long)]
    text: bool,

    /// Show log messages of the server on stderr.
    #[arg(long)]
    log: bool,

    /// Command that starts the server, with its arguments.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// The options of `tools`.
#[derive(Debug, Args)]
pub(crate) struct ToolsOptions {
    /// The tool to describe. Without it, all tools are listed.
    #[arg(value_name = "TOOL")]
    pub(super) tool: Option<String>,

    #[command(flatten)]
    pub(super) connection: Connection,
}

/// The options of `call`.
#[derive(Debug, Args)]
pub(crate) struct CallOptions {
    /// The name of the tool.
    #[arg(value_name = "TOOL")]
    pub(super) tool: String,

    /// An argument of the tool; see below.
    #[arg(value_name = "NAME=VALUE")]
    pub(super) arguments: Vec<String>,

    /// The answer to a question of the tool, by the name of its field; may be
    /// repeated. See below.
    #[arg(long = "answer", value_name = "NAME=VALUE", verbatim_doc_comment)]
    pub(super) answers: Vec<String>,

    #[command(flatten)]
    pub(super) connection: Connection,
}

/// The options of `read`.
#[derive(Debug, Args)]
pub(crate) struct ReadOptions {
    /// The URI of the resource. Without it, all resources are listed.
    #[arg(value_name = "URI")]
    pub(super) uri: Option<String>,

    #[command(flatten)]
    pub(super) connection: Connection,
}

/// The options of `prompt`.
#[derive(Debug, Args)]
pub(crate) struct PromptOptions {
    /// The name of the prompt. Without it, all prompts are listed.
    #[arg(value_name = "NAME")]
    pub(super) prompt: Option<String>,

    /// An argument of the prompt.
    #[arg(value_name = "NAME=VALUE")]
    pub(super) arguments: Vec<String>,

    #[command(flatten)]
    pub(super) connection: Connection,
}

/// The options of `ping`.
#[derive(Debug, Args)]
pub(crate) struct PingOptions {
    #[command(flatten)]
    pub(super) connection: Connection,
}

/// The options of `hub status`.
#[derive(Debug, Args)]
pub(crate) struct HubStatusOptions {
    /// Go on until Ctrl-C. On a terminal the table is drawn again every
    /// second; elsewhere each change prints a table, or a line of JSON.
    #[arg(long, verbatim_doc_comment)]
    pub(super) watch: bool,

    #[command(flatten)]
    pub(super) connection: Connection,
}

pub(crate) const AFTER: &str = "\
Exit codes: 0 done, 1 the server or its tool failed, 2 the command line makes
no sense, 3 the server cannot be reached or gave no answer in time.
Ctrl-C cancels the call at the server.";

pub(crate) const AFTER_CALL: &str = "\
A VALUE is read as the tool's schema says: text, a number, true or false, or
JSON. NAME=VALUE may be repeated for a list. NAME=@FILE takes the value from a
file, NAME=- from stdin; NAME=@@TEXT begins with @. Without a NAME, {...},
@FILE and - are JSON with several arguments at once.

Some tools ask a question before they act. On a terminal the question is asked
here. In a script, --answer NAME=VALUE answers it: VALUE is what one would type
at the terminal. A question whose required fields all have an answer is
accepted; any other is declined, and stderr says what it needs.

  lmcp call read_file path=README.md
  lmcp call shell command='uname -a' --json
  lmcp call echo message=hi -- npx -y @modelcontextprotocol/server-everything
  lmcp call search_files pattern='fn main' --at http://127.0.0.1:8080/mcp
  lmcp call greet --answer name=Ada -- lmcp serve --demo --stdio

Exit codes: 0 done, 1 the server or its tool failed, 2 the command line makes
no sense, 3 the server cannot be reached or gave no answer in time.
Ctrl-C cancels the call at the server.";

impl Connection {
    pub(super) fn output(&self) -> Output {
        match self.text || !self.json && stdout().is_terminal() {
            true => Output::Text,
            false => Output::Json,
        }
    }

    /// Finds the server, and connects.
    pub(super) async fn connect(&self, answers: &Arc<Answers>) -> Result<Client, Failure> {
        let connecting = self.start(answers);
        let Some(most) = self.timeout else {
            return connecting.await;
        };
        let late = |_| {
            let words = format!("the server was not there within {} s", most.as_secs_f32());
            Failure::of(words).code(super::UNREACHABLE)
        };
        tokio::time::timeout(most, connecting).await.map_err(late)?
    }

    async fn start(&self, answers: &Arc<Answers>) -> Result<Client, Failure> {
        let target = Target::of(
            self.at.as_deref(),
            self.token_file.as_deref(),
            &self.command,
        )?;
        // A server that refuses us, or has no revision in common with us, counts as unreachable.
        let unreachable = |err: Error| {
            let failure = Failure::of(visible(&err.message)).code(super::UNREACHABLE);
            match err.is_unauthorized() {
                true => failure.hint("`--token-file FILE` or LMCP_TOKEN passes a token"),
                false => failure,
            }
        };
        self.builder(answers)
            .connect(target)
            .await
            .map_err(unreachable)
    }

    fn builder(&self, answers: &Arc<Answers>) -> Builder {
        let mut client = Client::builder().on_progress(progress::show);
        if self.log {
            client = client.on_log(LoggingLevel::Debug, |message| {
                let words = match &message.data {
                    serde_json::Value::String(text) => text.clone(),
                    data => data.to_string(),
                };
                report::note(&visible(&words));
            });
        }
        if let Some(most) = self.timeout {
            client = client.timeout(most);
        }
        let (has_answers, answers) = (!answers.is_empty(), Arc::clone(answers));
        if stdin().is_terminal() && self.output() == Output::Text {
            return client
                .on_question(move |asked| ask::person(asked, Arc::clone(&answers)))
                .capabilities(ask::capabilities());
        }
        // Without a terminal, nobody can be asked. The server is told that.
        match has_answers {
            true => client
                .on_question(move |asked| ask::answers(asked, Arc::clone(&answers)))
                .capabilities(ask::capabilities_of_answers()),
            false => client,
        }
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "it is not a number".to_owned())?;
    let time = Duration::try_from_secs_f64(seconds).map_err(|err| err.to_string())?;
    match time.is_zero() {
        true => Err("there must be some time".to_owned()),
        false => Ok(time),
    }
}
