//! `shell`: runs a command, and answers when the command has ended, or when it takes too long for the client to wait.

use std::{io, path::Path, sync::Arc, time::Duration};

use lmcp_core::{Cx, Handler, Progress, Tool, ToolError, ToolResult, WithState};
use lmcp_wire::{Content, resource::Resource, task};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until};

use super::{
    attend::AFTER_KILL,
    commands::{Input, Keep, RunningCommand, Wanted},
    exit,
    protocol::{End, Extent, Size, Waits, Word},
    show::{self, Shown},
    spool::Record,
    variables::Variables,
};
use crate::{Host, answer::Answer, blocking::housekeeping, room::Room, schemas, time::millis};

/// The timeout when the caller names none.
const TIMEOUT: Duration = Duration::from_secs(120);
/// When a command becomes a job, if the caller names no time. The first client gives up after 60 s, well after this.
const YIELD_AFTER: Duration = Duration::from_secs(45);
/// When signs of life of a silent command are sent: the first early, the others before any client gives up.
const FIRST_SIGN: Duration = Duration::from_secs(2);
const NEXT_SIGN: Duration = Duration::from_secs(15);
/// The most bytes of new output in one progress message.
const NEWS_BYTES: usize = 2048;

pub(crate) fn tool() -> Tool<Host> {
    define(shell)
}

/// Defines the tool as models know it, with the handler that does the work.
pub fn define<S: Send + Sync + 'static>(
    handler: impl Handler<S, Args, ToolResult<Answer<Ran>>, WithState>,
) -> Tool<S> {
    schemas::tool("shell", handler)
        .title("Run a command")
        .about(
            "Run a command; get exit code, stdout and stderr. Not interactive. One that runs long becomes a job: read it with \
             job_output. For servers and watchers use shell_bg; for files prefer the file tools.",
        )
        .alias("command", ["cmd", "script"])
        .alias("cwd", super::FOLDER_NAMES)
        .alias("timeout", ["timeout_seconds", "timeout_s"])
        .alias("run_in_background", ["is_background", "background"])
        .ignore(["description", "explanation", "justification", "sandbox_permissions"])
        .ask_for(["command"])
        .unlisted(["argv", "run_in_background"])
        .show_as("env", Variables::shown())
        .also_called([
            "bash",
            "sh",
            "exec",
            "execute",
            "exec_command",
            "execute_command",
            "run_command",
            "run_shell_command",
            "run_terminal_cmd",
            "local_shell",
            "terminal",
            "start_process",
        ])
        .destructive()
        .open_world()
        // The command's own limit comes first; this one only bounds the handler.
        .deadline(Duration::from_secs(48 * 60 * 60))
}

/// Arguments of `shell`.
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
    /// Its standard input.
    pub(crate) stdin: Option<String>,
    /// Seconds after which it is killed. Default: 120.
    pub(crate) timeout: Option<f64>,
    /// Seconds after which it becomes a job. Default: 45; 0: never.
    pub(crate) yield_after: Option<f64>,
    /// Run it on a terminal.
    #[serde(default)]
    pub(crate) tty: bool,
    /// Become a job at once, as other shells call it.
    #[serde(default)]
    pub(crate) run_in_background: bool,
}

/// What `shell` returns.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Ran {
    /// Absent if a signal ended it, or if it still runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    /// The signal that ended it: `SIGKILL`, say.
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<String>,
    /// It was killed because its time was over.
    timed_out: bool,
    /// It was ended because somebody asked for it.
    cancelled: bool,
    /// How long it ran.
    duration_ms: u64,
    /// What it wrote. Bytes that are no text are shown as U+FFFD.
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout: Option<String>,
    /// What it wrote on its standard error.
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr: Option<String>,
    /// Is output left out in the middle?
    truncated: bool,
    /// How much of it.
    omitted_bytes: u64,
    /// A resource with all of it; job_output reads and searches it, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<String>,
    /// Why the output could not be recorded. What of it is kept is here.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_recorded: Option<String>,
    /// Processor time of the command and what it waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_ms: Option<u64>,
    /// Memory of its largest process.
    #[serde(skip_serializing_if = "Option::is_none")]
    peak_memory_bytes: Option<u64>,
    /// Processes it left running. They end with the server.
    left_running: Vec<i32>,
    /// What may have been in its way.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    /// It still runs, as this job: see job_output, job_input, job_stop.
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<String>,
}

async fn shell(host: Arc<Host>, args: Args, cx: Cx) -> ToolResult<Answer<Ran>> {
    let commands = host.commands()?;
    let times = args.times(host.settings.most_timeout, Afterwards::of(&cx))?;
    let wanted = Wanted {
        command: args.command,
        argv: args.argv,
        cwd: args.cwd,
        env: args.env.into_map()?,
        stdin: args.stdin.map_or(Input::Closed, Input::Text),
        tty: args.tty.then_some(Size { rows: 24, cols: 80 }),
        timeout_ms: times.timeout.map(millis),
        keep: Keep::No,
        log: None,
    };
    let began = Instant::now();
    let mut running = commands.start(&host, wanted, &cx).await?;
    let mut signs = Signs::new(&cx, began);
    let mut yield_at = times.yield_after.and_then(|time| began.checked_add(time));
    let overdue = times
        .overdue(&host)
        .and_then(|time| began.checked_add(time));
    let room = Room::of(&cx);
    loop {
        tokio::select! {
            word = running.link.next() => match word {
                Some(Word::Ended(end)) => return ended(&host, running, end, &room).await,
                Some(Word::Grown { bytes, extent }) => signs.grown(&running, bytes, extent),
                Some(_) => {}
                None => return Err(ToolError::new(
                    "the guard of the command was killed or halted, and the command was ended with it; nobody knows how it went",
                )),
            },
            // Dropping the command ends it, by force if its guard does not.
            () = until(overdue) => return Err(ToolError::new(
                "the guard of the command does not answer; the command's time is over, and it is ended by force",
            )),
            () = signs.silence() => signs.alive(),
            () = until(yield_at) => {
                yield_at = None;
                if cx.capabilities().has_extension(task::EXTENSION) {
                    // The client asks for the result itself, whenever it likes.
                    cx.detach().await;
                } else if let Ok(_place) = commands.job_place(&cx).await && running.keep().await.is_ok() {
                    let waits = running.link.look().await;
                    let answer = handed_over(&running, began.elapsed(), waits, &room);
                    host.commands()?.let_go(running, &cx);
                    return answer;
                }
                // Either the command has just ended, and the next word says so; or there is no place for another job, and
                // the command goes on as a call.
            }
        }
    }
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Whether a client can come back for a command that its call does not wait for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Afterwards {
    /// The client can come back for the command: as a task, or with the tools for jobs.
    Followed,
    /// Nothing: the operator left these tools out.
    Lost,
}

impl Afterwards {
    fn of(cx: &Cx) -> Self {
        let server = cx.server();
        let jobs = ["job_output", "job_stop"];
        if jobs.iter().all(|name| server.has_tool(name))
            || cx.capabilities().has_extension(task::EXTENSION)
        {
            Self::Followed
        } else {
            Self::Lost
        }
    }
}

/// The times at which a command is killed, and at which it becomes a job.
pub(crate) struct Times {
    pub(crate) timeout: Option<Duration>,
    pub(crate) yield_after: Option<Duration>,
}

impl Args {
    pub(crate) fn times(&self, most: Duration, afterwards: Afterwards) -> ToolResult<Times> {
        // Some callers have to send a value for every argument, and send 0 for "none".
        let timeout = self
            .timeout
            .filter(|time| *time != 0.0)
            .map(|time| seconds("timeout", time))
            .transpose()?;
        if timeout.is_some_and(|timeout| timeout > most) {
            return Err(ToolError::new(format!(
                "`timeout` must be at most {} seconds",
                most.as_secs()
            ))
            .hint("start longer work with shell_bg"));
        }
        let yield_after = match self.yield_after {
            _ if self.run_in_background => Some(Duration::ZERO),
            Some(time) => Some(seconds("yield_after", time)?).filter(|time| !time.is_zero()),
            None => Some(YIELD_AFTER).filter(|_| afterwards == Afterwards::Followed),
        };
        if yield_after.is_some() && afterwards == Afterwards::Lost {
            let words = "a command cannot become a job here: this server offers no job_output and job_stop to follow it";
            let hint = "leave out `run_in_background` and `yield_after`, and give a `timeout`";
            return Err(ToolError::new(words).hint(hint));
        }
        // A timeout that the caller did not ask for does not hold beyond the hand-over: a build of ten minutes is no
        // mistake.
        let handed_over_first = yield_after.is_some_and(|time| time < TIMEOUT);
        let otherwise = (!handed_over_first).then_some(TIMEOUT);
        Ok(Times {
            timeout: timeout.or(otherwise),
            yield_after,
        })
    }
}

impl Times {
    /// Returns the time at which even a command that does not want to end must have ended.
    fn overdue(&self, host: &Host) -> Option<Duration> {
        let grace = Duration::from_millis(host.settings.grace_ms);
        Some(self.timeout? + grace + AFTER_KILL)
    }
}

/// Reads a number of seconds.
pub(super) fn seconds(name: &str, value: f64) -> ToolResult<Duration> {
    Duration::try_from_secs_f64(value)
        .map_err(|_| ToolError::new(format!("`{name}` is a number of seconds, not {value}")))
}

/// The progress messages that the client gets while the command runs.
struct Signs {
    progress: Progress,
    clock: tokio::time::Interval,
    told: u64,
    began: Instant,
}

impl Signs {
    fn new(cx: &Cx, began: Instant) -> Self {
        let mut clock = interval_at(began + FIRST_SIGN, NEXT_SIGN);
        clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            progress: cx.open_progress(),
            clock,
            told: 0,
            began,
        }
    }

    async fn silence(&mut self) {
        self.clock.tick().await;
    }

    fn alive(&self) {
        self.progress
            .step(format!("running for {} s", self.began.elapsed().as_secs()));
    }

    /// Sends the new output, or the end of it.
    fn grown(&mut self, running: &RunningCommand, bytes: u64, extent: Extent) {
        let from = self.told.max(bytes.saturating_sub(NEWS_BYTES as u64));
        self.told = bytes;
        let read =
            Record::open(running.dir(), extent).and_then(|record| record.read(from, NEWS_BYTES));
        if let Ok(news) = read {
            let clean = show::way(running.order.tty.is_some());
            self.progress.step(clean(&news));
        }
    }
}

async fn ended(
    host: &Arc<Host>,
    running: RunningCommand,
    end: End,
    room: &Room,
) -> ToolResult<Answer<Ran>> {
    let id = running.id.clone();
    let shown = read_all(&running, &end, room);
    let commands = host.commands()?;
    if let Some(why) = &end.not_run {
        let failed = ToolError::new(why.clone());
        return Err(match commands.hint(Some(&running.order), Some(126), why) {
            Some(hint) => failed.hint(hint),
            None => failed,
        });
    }
    let hint = match end.exit_code {
        Some(0) | None => None,
        failed => commands.hint(Some(&running.order), failed, &shown.both),
    };
    let failed = is_error(host, &running, &end);
    let truncated = shown.omitted > 0;
    let (mut ran, text) = tell(&end, &shown, hint, room);
    ran.output = truncated.then(|| uri(&id));
    ran.cpu_ms = Some(end.cpu_ms);
    ran.peak_memory_bytes = Some(end.peak_memory_bytes);
    let unlisted = if end.left_running.is_empty() {
        Some(running)
    } else {
        running.list_rest(commands).await
    };
    let listed = unlisted.is_none();
    let truncated_on_disk = truncated && end.not_recorded.is_none();
    let kept = match unlisted.filter(|_| truncated_on_disk) {
        // If even this fails, the disk is full: the call is answered all the same.
        Some(mut running) => running.keep_record(&end).is_ok(),
        None => listed && truncated_on_disk,
    };
    if !kept {
        ran.output = None;
    }
    let mut answer = Answer::new(ran, text).failed_if(failed);
    if kept {
        answer = answer.with(link(&id, end.bytes));
    }
    if truncated || listed {
        let host = Arc::clone(host);
        housekeeping(move || {
            host.commands()?.store.prune();
            Ok(())
        })
        .await?;
    }
    Ok(answer)
}

/// Builds the answer for a command that has ended.
fn tell(end: &End, shown: &Shown, hint: Option<String>, room: &Room) -> (Ran, String) {
    let mut status = status(end);
    if let Some(hint) = &hint {
        status.push_str(&format!("\nhint: {hint}"));
    }
    let text = render(&shown.both, &status);
    let ran = Ran {
        exit_code: end.exit_code,
        signal: end.signal.map(exit::signal_name),
        timed_out: end.timed_out,
        cancelled: end.stopped,
        duration_ms: end.duration_ms,
        stdout: room.structured_copy(&shown.stdout),
        stderr: room.structured_copy(&shown.stderr),
        truncated: shown.omitted > 0,
        omitted_bytes: shown.omitted,
        output: None,
        not_recorded: end.not_recorded.clone(),
        cpu_ms: None,
        peak_memory_bytes: None,
        left_running: end.left_running.clone(),
        hint,
        job: None,
    };
    (ran, text)
}

fn handed_over(
    running: &RunningCommand,
    after: Duration,
    waits: Option<Waits>,
    room: &Room,
) -> ToolResult<Answer<Ran>> {
    let shown = read(running, Extent::default(), &room.share(4))
        .map_err(|err| ToolError::new("the output cannot be read").source(err))?;
    let (mut ran, text) = tell_handed_over(&running.id, &shown, after, waits, room);
    ran.output = Some(uri(&running.id));
    Ok(Answer::new(ran, text))
}

/// Builds the answer for a command that has become a job.
fn tell_handed_over(
    id: &str,
    shown: &Shown,
    after: Duration,
    waits: Option<Waits>,
    room: &Room,
) -> (Ran, String) {
    let status = format!(
        "still running after {} s, as job {id}{}: job_output with wait_exit waits for its end, job_stop ends it",
        after.as_secs(),
        Waits::words(waits)
    );
    let text = render(&shown.both, &status);
    let ran = Ran {
        exit_code: None,
        signal: None,
        timed_out: false,
        cancelled: false,
        duration_ms: millis(after),
        stdout: room.structured_copy(&shown.stdout),
        stderr: room.structured_copy(&shown.stderr),
        truncated: shown.omitted > 0,
        omitted_bytes: shown.omitted,
        output: None,
        not_recorded: None,
        cpu_ms: None,
        peak_memory_bytes: None,
        left_running: Vec::new(),
        hint: None,
        job: Some(id.to_owned()),
    };
    (ran, text)
}

/// Reads the output of a command on another host from the copy that was made here.
fn read_copy(record: &Path, id: &str, room: &Room) -> ToolResult<Shown> {
    let note = |omitted| left_out(id, omitted);
    show::output((record, Extent::default()), show::way(false), room, note)
        .map_err(|err| ToolError::new("the output cannot be read").source(err))
}

/// Builds the answer for a command that has ended on another host. The second value says whether its record is still needed.
pub(crate) fn ended_elsewhere(
    id: &str,
    record: &Path,
    end: &End,
    room: &Room,
) -> ToolResult<(Answer<Ran>, bool)> {
    let shown = read_copy(record, id, room)?;
    let (ran, text) = tell(end, &shown, None, room);
    let is_needed = ran.truncated || !end.left_running.is_empty();
    let failed = end.timed_out || end.stopped;
    Ok((Answer::new(ran, text).failed_if(failed), is_needed))
}

/// Builds the answer for a command that has become a job on another host.
pub(crate) fn handed_over_elsewhere(
    id: &str,
    record: &Path,
    after: Duration,
    room: &Room,
) -> ToolResult<Answer<Ran>> {
    let shown = read_copy(record, id, &room.share(4))?;
    let (ran, text) = tell_handed_over(id, &shown, after, None, room);
    Ok(Answer::new(ran, text))
}

/// Returns the note that stands in place of output that is left out.
fn left_out(id: &str, omitted: u64) -> String {
    format!("[… {omitted} bytes left out; job_output with id={id} reads them …]")
}

/// Reads the output of a command that has ended. A record that cannot be read does not make the command a failure.
fn read_all(running: &RunningCommand, end: &End, room: &Room) -> Shown {
    let mut shown = read(running, end.extent, room).unwrap_or_else(|_| Shown {
        omitted: end.bytes,
        ..Shown::default()
    });
    shown.omitted = shown.omitted.max(end.lost);
    shown
}

fn read(running: &RunningCommand, extent: Extent, room: &Room) -> io::Result<Shown> {
    let id = &running.id;
    let note = |omitted| match extent.memory {
        Some(_) => format!("[… {omitted} bytes left out, which could not be recorded …]"),
        None => left_out(id, omitted),
    };
    let clean = show::way(running.order.tty.is_some());
    show::output((running.dir(), extent), clean, room, note)
}

/// Returns whether the answer is an error. A command that ran is an answer, however it ended; one that the server ended is
/// an error, and the operator may want failures to be errors.
fn is_error(host: &Host, running: &RunningCommand, end: &End) -> bool {
    let failed =
        host.settings.exit_code_is_error && exit::is_failure(&running.order.shown(), end.exit_code);
    end.timed_out || end.stopped || failed
}

/// Returns the status, then the output as it came.
pub(super) fn render(output: &str, status: &str) -> String {
    if output.is_empty() {
        return status.to_owned();
    }
    format!("{status}\n{output}")
}

/// Returns how the command ended, in a line.
pub(super) fn status(end: &End) -> String {
    let mut words = match (end.exit_code, end.signal) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(number)) => format!("ended by {}", exit::signal_name(number)),
        (None, None) => "ended".to_owned(),
    };
    if end.timed_out {
        words.push_str(", killed because its time was over");
    } else if end.stopped {
        words.push_str(", stopped because somebody asked for it");
    }
    words.push_str(&format!(
        ", {:.1} s",
        Duration::from_millis(end.duration_ms).as_secs_f64()
    ));
    if let Some(why) = &end.not_recorded {
        words.push_str(&format!(", the output could not be recorded: {why}"));
    }
    if !end.left_running.is_empty() {
        let pids: Vec<_> = end.left_running.iter().map(ToString::to_string).collect();
        words.push_str(&format!(", left running: {}", pids.join(" ")));
    }
    words
}

/// Returns the address of the whole output.
pub(super) fn uri(id: &str) -> String {
    format!("job://{id}/output")
}

fn link(id: &str, bytes: u64) -> Content {
    let mut resource = Resource::new(uri(id), format!("output of {id}"));
    resource.mime_type = Some("text/plain".into());
    resource.size = Some(bytes);
    Content::link(resource)
}
