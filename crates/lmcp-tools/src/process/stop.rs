//! `job_stop`: ends a job with everything it started, signals it, or starts it again.

use std::{io, sync::Arc, time::Duration};

use lmcp_core::{Cx, Handler, Tool, ToolError, ToolResult, WithState};
use rustix::process::Pid;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::{
    attend::{AFTER_KILL, kill_tree},
    commands::Commands,
    exit::signal_number,
    jobs::{Listed, fresh, how, is_gone},
    link::Link,
    protocol::Ask,
    shell::seconds,
    store::{Job, State, clip},
    unwatched::{self, is_for_want_of_watches},
};
use crate::{Host, answer::Answer, schemas, time::millis};

pub(crate) fn tool() -> Tool<Host> {
    define(job_stop)
}

/// Defines the tool as models know it, with the handler that does the work.
pub fn define<S: Send + Sync + 'static>(
    handler: impl Handler<S, Args, ToolResult<Answer<Stopped>>, WithState>,
) -> Tool<S> {
    schemas::tool("job_stop", handler)
        .title("Stop a job")
        .about(
            "End a job and everything it started (TERM, then KILL), send it another signal, or start it again. Its output \
             stays.",
        )
        .alias("id", super::ID_NAMES)
        .ignore(["description", "explanation"])
        .unlisted(["grace"])
        .also_called(["kill_shell", "kill_bash", "kill_process", "force_terminate", "kill", "stop", "task_stop"])
        .destructive()
        .open_world()
}

/// Arguments of `job_stop`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    pub(crate) id: String,
    /// Default: TERM, then KILL.
    #[schemars(length(min = 1))]
    signal: Option<String>,
    /// Seconds between TERM and KILL. Default: 2.
    grace: Option<f64>,
    /// Then start it again, as a new job.
    #[serde(default)]
    pub(crate) restart: bool,
}

/// What `job_stop` returns.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Stopped {
    /// The job as it is now.
    job: Listed,
    /// The new one, after a restart.
    #[serde(skip_serializing_if = "Option::is_none")]
    restarted_as: Option<String>,
}

async fn job_stop(host: Arc<Host>, args: Args, cx: Cx) -> ToolResult<Answer<Stopped>> {
    let commands = host.commands()?;
    let owner = cx.caller().owner();
    let number = args.signal()?;
    let grace = args.grace(Duration::from_millis(host.settings.grace_ms))?;
    let job = fresh(commands.store.find(&args.id, &owner)?).await;
    // A job that cannot be started again is not stopped for a restart. A long command is in memory until the
    // new job has it.
    let (order, _memory) = match args.restart {
        true => {
            let memory = cx.reserve(job.order_weight()).await?;
            (Some(job.order()?), Some(memory))
        }
        false => (None, None),
    };
    let was_over = !job.runs();
    match number {
        _ if was_over => {}
        9 => end(commands, &job, Duration::ZERO).await?,
        15 => end(commands, &job, grace).await?,
        number => signal(&job, number).await?,
    }
    let job = fresh(commands.store.find(&args.id, &owner)?).await;
    if args.restart && job.state == State::Running {
        return Err(ToolError::new(format!("job `{}` still runs", job.id))
            .hint("stop it with TERM or KILL to start it again"));
    }
    let restarted_as = match order {
        Some(order) => {
            let log = job.about.log.as_deref();
            let again = commands.start_again(&host, log, order, &cx).await?;
            let id = again.id.clone();
            commands.let_go(again, &cx);
            Some(id)
        }
        None => None,
    };
    Ok(told(job, was_over, restarted_as))
}

/// Builds the answer for a job that was stopped or signalled.
pub(crate) fn told(job: Job, was_over: bool, restarted_as: Option<String>) -> Answer<Stopped> {
    let listed = Listed::of(job);
    let state = how(listed.state, listed.exit_code, listed.signal.as_deref());
    let mut text = if listed.state == State::Lost {
        format!(
            "job {} is lost: its guard was killed, and nobody knows how it ended; its first process was {}",
            listed.id,
            listed.pid.unwrap_or_default()
        )
    } else if was_over {
        format!("job {} had ended: {state}", listed.id)
    } else {
        format!("job {}: {state}", listed.id)
    };
    if let Some(id) = &restarted_as {
        text.push_str(&format!("; started again as job {id}"));
    }
    Answer::new(
        Stopped {
            job: listed,
            restarted_as,
        },
        text,
    )
}

impl Args {
    /// Returns the number of the signal to send; 15 means to end the job.
    pub(crate) fn signal(&self) -> ToolResult<i32> {
        match &self.signal {
            Some(name) => signal_number(name).ok_or_else(|| {
                ToolError::new(format!("`{}` is not a signal", clip(name)))
                    .hint("TERM, INT, KILL, say")
            }),
            None => Ok(15),
        }
    }

    /// Returns how long a job has to end before it is killed.
    pub(crate) fn grace(&self, otherwise: Duration) -> ToolResult<Duration> {
        let grace = self.grace.map(|time| seconds("grace", time)).transpose()?;
        Ok(grace.unwrap_or(otherwise).min(Duration::from_secs(600)))
    }
}

/// Ends a job whose guard does not end it, because the guard was halted, perhaps.
async fn end_by_force(job: &Job, guard: Option<Pid>) {
    // As long as the guard holds its lock, no other process has its number.
    if let Some(guard) = guard.filter(|_| job.is_guarded()) {
        kill_tree(guard).await;
    }
}

/// Asks the guard of a job for something. Returns its answer, with the guard's process.
async fn ask(job: &Job, ask: &Ask) -> ToolResult<unwatched::GuardAnswer> {
    let cannot = |err| ToolError::new(format!("job `{}` cannot be reached", job.id)).source(err);
    let mut link = match Link::find(job).await {
        Err(err) if is_for_want_of_watches(&err) => {
            return unwatched::ask(job, ask).await.map_err(cannot);
        }
        found => found.map_err(cannot)?,
    };
    Ok(unwatched::GuardAnswer {
        guard: link.guard(),
        said: link.ask(ask).await,
    })
}

/// Ends everything of a job, and waits until all of it is gone.
async fn end(commands: &Commands, job: &Job, grace: Duration) -> ToolResult<()> {
    let asked = async {
        let grace_ms = millis(grace);
        // The connection to the guard is closed at once, so that its place is free for others who want to end
        // the job sooner.
        let answer = ask(job, &Ask::Stop { grace_ms }).await?;
        let asked = match answer.said {
            Err(err) if err.kind() == io::ErrorKind::TimedOut => {
                end_by_force(job, answer.guard).await;
                Ok(())
            }
            asked => asked,
        };
        asked.map_err(|err| ToolError::new(format!("job `{}` was not stopped", job.id)).source(err))
    };
    let asked = asked.await;
    let gone = async {
        if asked.is_ok() {
            let mut following = commands.follow(job);
            // The guard ends when nothing of the job is left.
            while following.next().await.is_some() {}
        }
        // If the job cannot be followed, the lock of its guard tells when it is gone.
        while !is_gone(job).await && asked.is_ok() {}
        !job.is_guarded()
    };
    match timeout(grace + AFTER_KILL, gone).await {
        // The job may have ended by itself just when it was asked to.
        Ok(true) => Ok(()),
        Ok(false) | Err(_) => asked.and_then(|()| {
            let words = format!("job `{}` was killed and is still there", job.id);
            Err(ToolError::new(words).hint("the kernel may need time to free what it holds; a process that waits for a device cannot be ended"))
        }),
    }
}

async fn signal(job: &Job, number: i32) -> ToolResult<()> {
    let sent = ask(job, &Ask::Signal { number }).await?.said;
    sent.map_err(|err| ToolError::new(format!("job `{}` cannot be signalled", job.id)).source(err))
}
