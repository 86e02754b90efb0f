//! `job_output`: reads the output of a job by offset, from the end, by a search, or after a wait.

use std::sync::Arc;

use lmcp_core::{Cx, Handler, Tool, ToolError, ToolResult, WithState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    commands::Commands,
    exit,
    jobs::{how, is_gone, waits},
    page::{From, Page, Read, Which},
    pattern::Pattern,
    protocol::Waits,
    search::{MatchingLine, Watch},
    shell::render,
    show,
    store::{Job, State},
    wait::{self, MOST_WAIT, Outcome, WAIT, Waited},
};
use crate::{
    Host, answer::Answer, blocking::blocking, memory::blocking_within, room::Room, schemas,
};

pub(crate) fn tool() -> Tool<Host> {
    define(job_output)
}

/// Defines the tool as models know it, with the handler that does the work.
pub fn define<S: Send + Sync + 'static>(
    handler: impl Handler<S, Args, ToolResult<Answer<Output>>, WithState>,
) -> Tool<S> {
    schemas::tool("job_output", handler)
        .title("Read a job's output")
        .about(
            "Read what a job or a long command wrote: its end, from a byte offset, or lines that match. Can first wait for a \
             pattern or the exit. Also tells state and exit code.",
        )
        .alias("id", super::ID_NAMES)
        .alias("search", ["filter"])
        .ignore(["description", "explanation"])
        .unlisted(["tail", "limit", "stream"])
        .also_called(["bash_output", "task_output", "read_process_output", "read_output", "get_output", "tail"])
        .read_only()
        .deadline(MOST_WAIT + WAIT)
}

/// Arguments of `job_output`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    pub(crate) id: String,
    /// Byte to begin at: `next_offset`. Default: the end.
    offset: Option<u64>,
    /// So many bytes at the end, instead of `offset`.
    tail: Option<u64>,
    /// Bytes at most.
    limit: Option<usize>,
    /// Default: both, as they came.
    #[serde(default)]
    stream: Which,
    /// `screen`: what its terminal shows.
    view: Option<View>,
    /// Only lines that match.
    #[schemars(length(min = 1))]
    pub(crate) search: Option<String>,
    /// First wait for new output that matches.
    #[schemars(length(min = 1))]
    pub(crate) wait_for: Option<String>,
    /// First wait for its end.
    #[serde(default)]
    pub(crate) wait_exit: bool,
    /// Seconds to wait at most. Default: 30.
    pub(crate) wait: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum View {
    Text,
    Screen,
    Raw,
}

/// What a job wrote, and how it is.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// The job.
    id: String,
    /// `lost`: its guard was killed, and nobody knows how it ended.
    state: State,
    /// Once it has exited.
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    /// The signal that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<String>,
    /// Does it wait for somebody to type on its terminal?
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_for_input: Option<Waits>,
    /// What it wrote there. Bytes that are no text are shown as U+FFFD.
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<String>,
    /// Where that begins, in bytes of the whole output.
    offset: u64,
    /// Where to read on.
    next_offset: u64,
    /// All it has written so far.
    total_bytes: u64,
    /// What `wait_for` matched.
    #[serde(skip_serializing_if = "Option::is_none")]
    matched: Option<String>,
    /// How the wait ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    waited: Option<Outcome>,
    /// Lines that `search` found.
    #[serde(skip_serializing_if = "Option::is_none")]
    lines: Option<Vec<MatchingLine>>,
    /// How much between `offset` and `next_offset` is no longer kept.
    dropped_bytes: u64,
    /// What may have been in its way.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

async fn job_output(host: Arc<Host>, args: Args, cx: Cx) -> ToolResult<Answer<Output>> {
    let owner = cx.caller().owner();
    let wish = args.wish();
    let wait = wait::time(args.wait)?;
    let commands = host.commands()?;
    let job = commands.store.find(&args.id, &owner)?;
    let wait_for = Pattern::read(args.wait_for, &cx).await?;
    let search = Pattern::read(args.search, &cx).await?;
    let who = who(&cx);
    let seen = commands.reads.position(&who, &job.id);
    let watch = wait_for.map(|pattern| match args.offset {
        Some(offset) => Watch::new(pattern, offset),
        None => Watch::after(pattern, seen),
    });
    let is_watched = watch.is_some();
    let mut state = if is_watched || args.wait_exit {
        Waited::until(commands, &job, watch, wait, &cx).await?
    } else {
        Waited::not(commands, &job).await
    };
    let job = again(commands, job, &mut state, &owner).await?;
    let room = Room::of(&cx);
    let watched_from = is_watched.then_some(seen);
    let (page, view) = wish.page(&job.id, job.about.tty, search.is_some(), watched_from, room)?;
    let read = {
        let (job, own, extent) = (job.clone(), cx.clone(), state.extent);
        blocking_within(&cx, move |memory| match view {
            View::Screen => page.screen(&job, extent, &own, memory),
            View::Text | View::Raw => page.read(&job.dir, search.as_deref(), extent, &own),
        })
        .await?
    };
    if read.lines.is_none() {
        commands.reads.note(&who, &job.id, read.next);
    }
    let waits = waits(&job).await;
    let hint = hint(commands, &job, &read.text);
    let (output, text) = answer(job, read, (state, waits, hint), &room);
    Ok(Answer::new(output, text))
}

/// Which part of a job's output the caller wants, and in which form.
pub(crate) struct Wish {
    pub(crate) offset: Option<u64>,
    tail: Option<u64>,
    limit: Option<usize>,
    stream: Which,
    view: Option<View>,
}

impl Args {
    /// Returns the job's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the part that the caller wants, without the patterns for waiting and searching.
    pub(crate) fn wish(&self) -> Wish {
        Wish {
            offset: self.offset,
            tail: self.tail,
            limit: self.limit,
            stream: self.stream,
            view: self.view,
        }
    }
}

impl Wish {
    /// Returns the page of a job. `watched_from` is the position up to which the reader has seen the output, if it waits
    /// for a pattern.
    ///
    /// # Errors
    /// The caller wants a screen, and the job has no terminal.
    pub(super) fn page(
        &self,
        id: &str,
        has_terminal: bool,
        is_search: bool,
        watched_from: Option<u64>,
        room: Room,
    ) -> ToolResult<(Page, View)> {
        let from = match (self.offset, self.tail, watched_from) {
            (Some(offset), ..) => From::Offset(offset),
            (None, Some(tail), _) => From::Tail(tail),
            (None, None, _) if is_search => From::Offset(0),
            (None, None, Some(seen)) => From::New(seen),
            (None, None, None) if self.limit.is_none() => From::End,
            (None, None, None) => From::Tail(room.bytes as u64),
        };
        let is_plain =
            self.offset.is_none() && self.tail.is_none() && !is_search && watched_from.is_none();
        let view = match self.view {
            Some(View::Screen) if !has_terminal => {
                return Err(ToolError::new(format!("job `{id}` has no terminal")));
            }
            Some(view) => view,
            None if has_terminal && is_plain => View::Screen,
            None => View::Text,
        };
        let page = Page {
            from,
            limit: self.limit.unwrap_or(usize::MAX),
            stream: self.stream,
            clean: match view {
                View::Raw => show::lossy,
                View::Text | View::Screen => show::way(has_terminal),
            },
            room,
        };
        Ok((page, view))
    }
}

/// Reads the output of a job since an offset, after a wait. The second value is the same as text.
pub(super) async fn since(
    host: &Host,
    job: Job,
    offset: u64,
    mut waited: Waited,
    cx: &Cx,
) -> ToolResult<(Output, String)> {
    let commands = host.commands()?;
    let owner = cx.caller().owner();
    let job = again(commands, job, &mut waited, &owner).await?;
    let room = Room::of(cx);
    let page = Page {
        from: From::New(offset),
        limit: usize::MAX,
        stream: Which::Both,
        clean: show::way(job.about.tty),
        room,
    };
    let read = {
        let (dir, own, extent) = (job.dir.clone(), cx.clone(), waited.extent);
        blocking(cx, move || page.read(&dir, None, extent, &own)).await?
    };
    commands.reads.note(&who(cx), &job.id, read.next);
    let waits = waits(&job).await;
    Ok(answer(job, read, (waited, waits, None), &room))
}

/// Reads the job again: it may have ended during the wait.
async fn again(commands: &Commands, job: Job, waited: &mut Waited, owner: &str) -> ToolResult<Job> {
    if waited.guard_gone {
        is_gone(&job).await;
    }
    let job = commands.store.find(&job.id, owner)?;
    let ended = job.end.as_ref();
    waited.extent = ended.map_or(waited.extent, |end| end.extent);
    Ok(job)
}

/// Returns a hint about what may have been in the way of a job that failed.
fn hint(commands: &Commands, job: &Job, output: &str) -> Option<String> {
    let code = job.end.as_ref()?.exit_code.filter(|code| *code != 0)?;
    commands.hint(job.order().ok().as_ref(), Some(code), output)
}

/// Returns the name under which the positions of this caller are remembered: its session, or else its owner.
pub(crate) fn who(cx: &Cx) -> String {
    cx.session_name()
        .unwrap_or_else(|| cx.caller().owner().into_owned())
}

pub(super) fn answer(
    job: Job,
    read: Read,
    (waited, waits, hint): (Waited, Option<Waits>, Option<String>),
    room: &Room,
) -> (Output, String) {
    let end = job.end.unwrap_or_default();
    let signal = end.signal.map(exit::signal_name);
    let status = how(job.state, end.exit_code, signal.as_deref());
    let more = if read.next < read.total {
        format!(", next offset={}", read.next)
    } else {
        String::new()
    };
    let lost = match &end.not_recorded {
        Some(why) => format!("; {} bytes could not be recorded: {why}", end.lost),
        None => String::new(),
    };
    let expired = waited.words().map(|words| format!("; {words}"));
    let place = match &read.screen {
        Some(screen) => format!("{screen}, after {} bytes", read.total),
        None => format!("bytes {}-{} of {}", read.offset, read.next, read.total),
    };
    let status = format!(
        "{status}{}{}; {place}{more}{lost}",
        Waits::words(waits),
        expired.unwrap_or_default(),
    );
    let status = match &hint {
        Some(hint) => format!("{status}\nhint: {hint}"),
        None => status,
    };
    let text = render(&read.text, &status);
    let output = Output {
        id: job.id,
        state: job.state,
        exit_code: end.exit_code,
        signal,
        waits_for_input: waits,
        output: room
            .structured_copy(&read.text)
            .filter(|_| read.lines.is_none()),
        offset: read.offset,
        next_offset: read.next,
        total_bytes: read.total,
        matched: waited.matched,
        waited: waited.outcome,
        lines: read.lines.filter(|_| room.in_structured),
        dropped_bytes: read.dropped,
        hint,
    };
    (output, text)
}
