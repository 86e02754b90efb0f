//! `shell_bg`: starts a command as a job.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use lmcp_core::{Cx, Tool, ToolError, ToolResult};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    commands::{Input, Keep, Wanted},
    shell::seconds,
    store::State,
    words::Size,
};
use crate::{Host, answer::Answer, time::millis};

pub(crate) fn tool() -> Tool<Host> {
    Tool::new("shell_bg", shell_bg)
        .title("Start a job")
        .about(
            "Start a command that goes on in the background: a server, a watcher, a long build. Get its job id at once; \
             follow it with job_output. Not for commands whose result you need now: use shell.",
        )
        .destructive()
        .open_world()
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// A line for the shell (bash where there is one).
    command: Option<String>,
    /// A program and its arguments, run without a shell. Instead of `command`.
    argv: Option<Vec<String>>,
    /// The folder to run in.
    cwd: Option<String>,
    /// Variables to add to the environment.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Run it on a terminal, for programs that want one.
    #[serde(default)]
    tty: bool,
    /// The terminal's rows; 24 by default.
    rows: Option<u16>,
    /// The terminal's columns; 80 by default.
    cols: Option<u16>,
    /// Seconds after which it is killed. Without it, it has all the time.
    timeout: Option<f64>,
    /// A file that gets its output, too, at its end.
    log: Option<String>,
    /// End it with this session. Without it, it outlives even the server.
    #[serde(default)]
    end_with_session: bool,
}

#[derive(Serialize, JsonSchema)]
struct Started {
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
    let timeout = args
        .timeout
        .map(|time| seconds("timeout", time))
        .transpose()?;
    if timeout.is_some_and(|timeout| timeout.is_zero()) {
        return Err(ToolError::new("`timeout` must be above 0")
            .hint("leave it out for a job that may run for ever"));
    }
    let size = Size {
        rows: args.rows.unwrap_or(24),
        cols: args.cols.unwrap_or(80),
    };
    let wanted = Wanted {
        command: args.command,
        argv: args.argv,
        cwd: args.cwd,
        env: args.env,
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
    let log = running.about.log.clone();
    let written = log
        .as_ref()
        .map(|log| format!(", log {}", log.display()))
        .unwrap_or_default();
    let text = format!("started job {}, pid {}{written}", running.id, running.pid);
    let started = Started {
        id: running.id.clone(),
        pid: running.pid,
        state: State::Running,
        log,
    };
    host.commands()?.let_go(running, &cx);
    Ok(Answer::new(started, text))
}
