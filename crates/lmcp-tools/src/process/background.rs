//! `shell_bg`: starts a command as a job.

use std::{path::PathBuf, sync::Arc};

use lmcp_core::{Cx, Handler, Tool, ToolResult, WithState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    commands::{Input, Keep, Wanted},
    protocol::Size,
    shell::seconds,
    store::State,
    variables::Variables,
};
use crate::{Host, answer::Answer, schemas, time::millis};

pub(crate) fn tool() -> Tool<Host> {
    define(shell_bg)
}

/// Defines the tool as models know it, with the handler that does the work.
pub fn define<S: Send + Sync + 'static>(
    handler: impl Handler<S, Args, ToolResult<Answer<Started>>, WithState>,
) -> Tool<S> {
    schemas::tool("shell_bg", handler)
        .title("Start a job")
        .about(
            "Start a command in the background: a server, a watcher, a long build. Get its job id at once; follow it with \
             job_output. If you need the result now, use shell.",
        )
        .alias("command", ["cmd", "script"])
        .alias("cwd", super::FOLDER_NAMES)
        .ignore(["description", "explanation", "justification", "run_in_background"])
        .ask_for(["command"])
        .unlisted(["argv", "rows", "cols", "timeout", "log"])
        .show_as("env", Variables::shown())
        .also_called(["bash_bg", "start_job", "run_in_background", "spawn"])
        .destructive()
        .open_world()
}

/// Arguments of `shell_bg`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// A line for the shell.
    #[schemars(length(min = 1))]
    pub(crate) command: Option<String>,
    /// A program and its arguments, run without a shell. Instead of `command`.
    #[schemars(length(min = 1))]
    pub(crate) argv: Option<Vec<String>>,
    /// The folder to run in.
    #[schemars(length(min = 1))]
    pub(crate) cwd: Option<String>,
    /// Variables to add, as NAME=value.
    #[serde(default)]
    pub(super) env: Variables,
    /// Run it on a terminal.
    #[serde(default)]
    pub(crate) tty: bool,
    /// Default: 24.
    pub(crate) rows: Option<u16>,
    /// Default: 80.
    pub(crate) cols: Option<u16>,
    /// Seconds after which it is killed. Default: never.
    pub(crate) timeout: Option<f64>,
    /// A file to append its output to.
    #[schemars(length(min = 1))]
    pub(crate) log: Option<String>,
    /// End it with this session; else it outlives even the server.
    #[serde(default)]
    pub(crate) end_with_session: bool,
}

/// What `shell_bg` returns.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Started {
    /// The job, for job_output, job_input and job_stop.
    id: String,
    /// Its first process.
    pid: i32,
    /// Running, or else the call would have failed.
    state: State,
    /// The file that gets its output.
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<PathBuf>,
}

async fn shell_bg(host: Arc<Host>, args: Args, cx: Cx) -> ToolResult<Answer<Started>> {
    // Some callers have to send a value for every argument, and send 0 for "none".
    let timeout = args
        .timeout
        .filter(|time| *time != 0.0)
        .map(|time| seconds("timeout", time))
        .transpose()?;
    let size = Size {
        rows: args.rows.filter(|rows| *rows > 0).unwrap_or(24),
        cols: args.cols.filter(|cols| *cols > 0).unwrap_or(80),
    };
    let wanted = Wanted {
        command: args.command,
        argv: args.argv,
        cwd: args.cwd,
        env: args.env.into_map()?,
        stdin: Input::Open,
        tty: args.tty.then_some(size),
        timeout_ms: timeout.map(millis),
        keep: if args.end_with_session {
            Keep::SessionJob
        } else {
            Keep::Job
        },
        log: args.log,
    };
    let running = host.commands()?.start(&host, wanted, &cx).await?;
    let answer = started(&running.id, running.pid, running.about.log.clone());
    host.commands()?.let_go(running, &cx);
    Ok(answer)
}

/// Builds the answer for a job that was started.
pub(crate) fn started(id: &str, pid: i32, log: Option<PathBuf>) -> Answer<Started> {
    let written = log
        .as_ref()
        .map(|log| format!(", log {}", log.display()))
        .unwrap_or_default();
    let text = format!("started job {id}, pid {pid}{written}");
    let started = Started {
        id: id.to_owned(),
        pid,
        state: State::Running,
        log,
    };
    Answer::new(started, text)
}
