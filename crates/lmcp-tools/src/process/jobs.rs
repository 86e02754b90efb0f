//! `jobs`: lists the jobs that run and those that have ended.

use std::{path::PathBuf, sync::Arc, time::Duration};

use lmcp_core::{Cx, Handler, Tool, ToolError, ToolResult, WithState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::{sleep, timeout};

use super::{
    exit,
    link::Link,
    protocol::{End, Waits, Word},
    store::{Job, State},
};
use crate::{Host, answer::Answer, blocking::blocking, schemas, time::rfc3339};

/// A guard answers at once, unless it was halted.
const SOON: Duration = Duration::from_secs(1);

pub(crate) fn tool() -> Tool<Host> {
    define(jobs)
}

/// Defines the tool as models know it, with the handler that does the work.
pub fn define<S: Send + Sync + 'static>(
    handler: impl Handler<S, Args, ToolResult<Answer<Jobs>>, WithState>,
) -> Tool<S> {
    schemas::tool("jobs", handler)
        .title("List jobs")
        .about(
            "List your jobs, running ones first, then those of this session that have ended, with state and exit code. For \
             what one wrote use job_output.",
        )
        .show_as(
            "state",
            json!({ "type": "string", "enum": ["running", "exited", "killed", "lost"], "description": "Only such." }),
        )
        .also_called(["list_jobs", "list_sessions", "list_processes", "ps"])
        .read_only()
}

/// Arguments of `jobs`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    state: Option<State>,
    /// Also kept outputs, and ended jobs of other sessions.
    #[serde(default)]
    all: bool,
}

/// What `jobs` returns.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Jobs {
    /// Those that run first, the newest first.
    jobs: Vec<Listed>,
    /// So many more are listed with `all`.
    more: usize,
}

/// A job.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Listed {
    /// For job_output, job_input and job_stop.
    pub(super) id: String,
    /// What it runs, or the beginning of it.
    pub(super) command: String,
    /// `lost`: its guard was killed, and nobody knows how it ended.
    pub(super) state: State,
    /// Its first process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pid: Option<i32>,
    /// Once it has exited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) exit_code: Option<i32>,
    /// The signal that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) signal: Option<String>,
    /// Does it wait for somebody to type on its terminal?
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_for_input: Option<Waits>,
    /// It was killed because its time was over.
    timed_out: bool,
    /// When it was started.
    started: String,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<String>,
    /// What it has written so far.
    output_bytes: u64,
    /// It has ended, and these processes of it have not.
    left_running: Vec<i32>,
    /// The file that gets its output, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<PathBuf>,
}

async fn jobs(host: Arc<Host>, args: Args, cx: Cx) -> ToolResult<Answer<Jobs>> {
    let (owner, session) = (cx.caller().owner(), cx.session_name());
    let found = {
        let host = Arc::clone(&host);
        blocking(&cx, move || host.commands()?.store.list(&owner)).await?
    };
    let wanted = found.into_iter().filter(|job| args.wants(job));
    let (mut jobs, mut more) = (Vec::new(), 0);
    for job in wanted {
        let job = fresh(job).await;
        if args.shows(&job, session.as_deref()) {
            let waits_for_input = waits(&job).await;
            jobs.push(Listed {
                waits_for_input,
                ..Listed::of(job)
            });
        } else {
            more += 1;
        }
    }
    Ok(told(jobs, more))
}

impl Args {
    fn wants(&self, job: &Job) -> bool {
        self.state.is_none_or(|state| job.state == state)
    }

    /// Returns whether a job is listed. The others are only counted.
    fn shows(&self, job: &Job, session: Option<&str>) -> bool {
        let is_ours = job.about.session.as_deref() == session && !job.about.is_answered;
        self.all || is_ours || job.runs()
    }

    /// Builds the answer for jobs of another host.
    pub(crate) fn answer(&self, jobs: Vec<Job>, session: Option<&str>) -> Answer<Jobs> {
        let wanted = jobs.into_iter().filter(|job| self.wants(job));
        let (shown, others): (Vec<_>, Vec<_>) = wanted.partition(|job| self.shows(job, session));
        told(shown.into_iter().map(Listed::of).collect(), others.len())
    }
}

/// Builds the answer for these jobs, and the number of those that are not listed.
fn told(jobs: Vec<Listed>, more: usize) -> Answer<Jobs> {
    let mut lines: Vec<_> = jobs.iter().map(Listed::line).collect();
    if lines.is_empty() {
        lines.push("no jobs".to_owned());
    }
    let are_more = match more {
        0 => None,
        1 => Some("1 more ended in another session or is the kept output of a command".into()),
        more => Some(format!(
            "{more} more ended in other sessions or are kept outputs of commands"
        )),
    };
    lines.extend(are_more.map(|are_more| are_more + "; all=true lists them"));
    Answer::new(Jobs { jobs, more }, lines.join("\n"))
}

/// Returns the job with its end as the guard knows it, if the command has ended and something of it
/// still runs.
pub(super) async fn fresh(mut job: Job) -> Job {
    if job.state == State::Running || !job.runs() {
        return job;
    }
    if let Ok(Some(end)) = timeout(SOON, ask(&job)).await {
        job.end = Some(end);
        return job;
    }
    if let Some(end) = &mut job.end {
        end.left_running.clear();
    }
    job
}

/// Returns whether a job waits for somebody to type on its terminal.
pub(super) async fn waits(job: &Job) -> Option<Waits> {
    if !job.about.tty || job.state != State::Running {
        return None;
    }
    let looked = timeout(SOON, async { Link::find(job).await.ok()?.look().await });
    looked.await.ok().flatten()
}

/// Connects to the guard of a job.
pub(super) async fn reach(job: &Job) -> ToolResult<Link> {
    let found = Link::find(job).await;
    found.map_err(|err| ToolError::new(format!("job `{}` cannot be reached", job.id)).source(err))
}

/// Returns whether a guard that hung up is gone. A guard that was killed lets go of its socket a
/// moment before its lock.
pub(super) async fn is_gone(job: &Job) -> bool {
    for _ in 0..20 {
        if !job.is_guarded() {
            return true;
        }
        sleep(Duration::from_millis(5)).await;
    }
    false
}

async fn ask(job: &Job) -> Option<End> {
    let mut link = Link::find(job).await.ok()?;
    loop {
        if let Word::Ended(end) = link.next().await? {
            return Some(end);
        }
    }
}

impl Listed {
    pub(super) fn of(job: Job) -> Self {
        let end = job.end.unwrap_or_default();
        let ended = (end.ended_at > 0).then(|| time(end.ended_at));
        let End {
            exit_code,
            signal,
            timed_out,
            left_running,
            ..
        } = end;
        Self {
            id: job.id,
            command: job.about.command,
            state: job.state,
            pid: job.pid,
            exit_code,
            signal: signal.map(exit::signal_name),
            waits_for_input: None,
            timed_out,
            started: time(job.about.started),
            ended,
            output_bytes: job.output_bytes,
            left_running,
            log: job.about.log,
        }
    }

    /// Returns the job as one line of text.
    fn line(&self) -> String {
        let how = how(self.state, self.exit_code, self.signal.as_deref());
        let left = match self.left_running.len() {
            0 => String::new(),
            1 => ", 1 process left".to_owned(),
            count => format!(", {count} processes left"),
        };
        let waits = Waits::words(self.waits_for_input);
        let first = self.command.lines().next().unwrap_or_default();
        format!(
            "{}  {how}{waits}{left}  {} bytes  {}  {first}",
            self.id, self.output_bytes, self.started
        )
    }
}

/// Returns the state of a job in a word or two.
pub(super) fn how(state: State, exit_code: Option<i32>, signal: Option<&str>) -> String {
    match (state, exit_code, signal) {
        (State::Running, ..) => "running".to_owned(),
        (State::Lost, ..) => "lost".to_owned(),
        (_, Some(code), _) => format!("exit code {code}"),
        (_, None, Some(signal)) => format!("ended by {signal}"),
        (_, None, None) => "ended".to_owned(),
    }
}

fn time(seconds: u64) -> String {
    rfc3339(i64::try_from(seconds).unwrap_or(i64::MAX), 0)
}
