//! `job_output`: what a job wrote, by offset, from the end, by searching, or once something has happened.

use std::{io, path::Path, sync::Arc, time::Duration};

use lmcp_core::{Cx, Tool, ToolError, ToolResult};
use regex::bytes::{Regex, RegexBuilder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout, timeout_at};

use super::{
    commands::Commands,
    exit,
    follow::News,
    jobs::{how, is_gone},
    search::{self, Found, Watch},
    shell::seconds,
    show,
    spool::{Record, Stream, step_over},
    store::{Job, State, clip},
};
use crate::{Host, answer::Answer, blocking::blocking, room::Room};

/// How long is waited when nothing is said about it; well before the first client gives up.
const WAIT: Duration = Duration::from_secs(30);
/// Longer than anybody waits for an answer.
const MOST_WAIT: Duration = Duration::from_secs(60 * 60);
/// A guard answers at once, unless somebody halted it.
const SOON: Duration = Duration::from_secs(5);

pub(crate) fn tool() -> Tool<Host> {
    Tool::new("job_output", job_output)
        .title("Read a job's output")
        .about(
            "Read what a job or a long command wrote: its end, or from a byte offset, or lines that match. Can first wait \
             for a pattern or for the exit. Also tells state and exit code.",
        )
        .read_only()
        .deadline(MOST_WAIT + WAIT)
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// The job.
    id: String,
    /// Read from this byte on. `next_offset` of the last answer goes on where that ended.
    offset: Option<u64>,
    /// Read so many bytes at the end. What is read if neither this nor `offset` is given.
    tail: Option<u64>,
    /// At most so many bytes.
    limit: Option<usize>,
    /// Of which stream; both by default, as they came.
    #[serde(default)]
    stream: Which,
    /// Only lines that match this regular expression, with their offsets.
    search: Option<String>,
    /// First wait until the output, from `offset` on, matches this regular expression.
    wait_for: Option<String>,
    /// First wait until the job has ended.
    #[serde(default)]
    wait_exit: bool,
    /// How many seconds to wait at most; 30 by default. Then the answer says what there is.
    wait: Option<f64>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Which {
    #[default]
    Both,
    Stdout,
    Stderr,
}

#[derive(Serialize, JsonSchema)]
struct Output {
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
    /// What it wrote there. Bytes that are no text are shown as U+FFFD.
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<String>,
    /// Where that begins, in bytes of the whole output.
    offset: u64,
    /// Where to read on.
    next_offset: u64,
    /// All it has written so far.
    total_bytes: u64,
    /// What `wait_for` matched. Absent if it did not, in time.
    #[serde(skip_serializing_if = "Option::is_none")]
    matched: Option<String>,
    /// Lines that `search` found.
    #[serde(skip_serializing_if = "Option::is_none")]
    lines: Option<Vec<Found>>,
    /// How much between `offset` and `next_offset` is no longer kept.
    dropped_bytes: u64,
}

async fn job_output(host: Arc<Host>, args: Args, cx: Cx) -> ToolResult<Answer<Output>> {
    let owner = cx.caller().owner();
    let wait = args
        .wait
        .map(|time| seconds("wait", time))
        .transpose()?
        .unwrap_or(WAIT)
        .min(MOST_WAIT);
    let wait_for = args.wait_for.as_deref().map(regex).transpose()?;
    let search = args.search.as_deref().map(regex).transpose()?;
    let commands = host.commands()?;
    let store = &commands.store;
    let job = store.find(&args.id, &owner)?;
    let mut state = Waited::default();
    if wait_for.is_some() || args.wait_exit {
        let until = Instant::now() + wait;
        let watch = wait_for.map(|regex| Watch::new(regex, args.offset.unwrap_or(0)));
        state = Waited::until(commands, &job, watch, until, &cx).await?;
    } else if job.state == State::Running {
        state.dropped = dropped_now(commands, &job).await;
    }
    // Once more: it may have ended while we waited.
    if state.guard_gone {
        is_gone(&job).await;
    }
    let job = store.find(&args.id, &owner)?;
    state.dropped = job.end.as_ref().map_or(state.dropped, |end| end.dropped);
    let room = Room::of(&cx);
    let page = Page::of(&args, &room);
    let shown = {
        let (dir, cx) = (job.dir.clone(), cx.clone());
        blocking(move || page.read(&dir, search, state.dropped, &cx)).await?
    };
    Ok(answer(job, shown, state.matched, &room))
}

/// The kept part, as the guard knows it: it moves while the job runs.
pub(super) async fn dropped_now(commands: &Commands, job: &Job) -> Option<(u64, u64)> {
    let news = timeout(SOON, async { commands.follow(job).next().await });
    news.await.ok()??.dropped
}

fn regex(pattern: &str) -> ToolResult<Regex> {
    let built = RegexBuilder::new(pattern)
        .multi_line(true)
        .size_limit(1024 * 1024)
        .dfa_size_limit(1024 * 1024)
        .build();
    built.map_err(|err| {
        let pattern = clip(pattern);
        ToolError::new(format!("`{pattern}` is not a regular expression"))
            .source(io::Error::other(clip(&err.to_string())))
    })
}

/// What came of waiting.
#[derive(Default)]
struct Waited {
    matched: Option<String>,
    dropped: Option<(u64, u64)>,
    /// The guard of a job that ran went away.
    guard_gone: bool,
}

impl Waited {
    /// Until the pattern matches, the job ends, or the time is over.
    async fn until(
        commands: &Commands,
        job: &Job,
        mut watch: Option<Watch>,
        until: Instant,
        cx: &Cx,
    ) -> ToolResult<Self> {
        let mut waited = Self::default();
        let progress = cx.open_progress();
        let mut following = match job.state {
            State::Running => Some(commands.follow(job)),
            State::Exited | State::Killed | State::Lost => None,
        };
        loop {
            // Before this look, so that what comes meanwhile is looked at again.
            let news = match &mut following {
                Some(following) => timeout_at(until, following.next()).await,
                None => Ok(None),
            };
            let over = !matches!(news, Ok(Some(News { ended: false, .. })));
            waited.guard_gone = following.is_some() && matches!(news, Ok(None));
            if let Ok(Some(news)) = news {
                waited.dropped = news.dropped;
                progress.step(format!("{} bytes of output", news.bytes));
            }
            waited.matched = waited.look(&mut watch, job, until).await?;
            if over || waited.matched.is_some() {
                return Ok(waited);
            }
        }
    }

    /// Looks at what is new, off the thread that serves.
    async fn look(
        &self,
        watch: &mut Option<Watch>,
        job: &Job,
        until: Instant,
    ) -> ToolResult<Option<String>> {
        let Some(mut taken) = watch.take() else {
            return Ok(None);
        };
        let hole = job.end.as_ref().map_or(self.dropped, |end| end.dropped);
        let (dir, until) = (job.dir.clone(), until.into_std());
        let (taken, found) = blocking(move || {
            let found = Record::open(&dir).and_then(|record| taken.look(&record, hole, until));
            let found =
                found.map_err(|err| ToolError::new("the output cannot be read").source(err))?;
            Ok((taken, found))
        })
        .await?;
        *watch = Some(taken);
        Ok(found)
    }
}

/// Which part is wanted.
struct Page {
    from: From,
    limit: usize,
    stream: Which,
    room: Room,
}

enum From {
    Offset(u64),
    Tail(u64),
}

/// What was read.
struct Read {
    text: String,
    lines: Option<Vec<Found>>,
    offset: u64,
    next: u64,
    total: u64,
    dropped: u64,
}

impl Page {
    fn of(args: &Args, room: &Room) -> Self {
        let searching = args.search.is_some();
        let from = match (args.offset, args.tail) {
            (Some(offset), _) => From::Offset(offset),
            (None, Some(tail)) => From::Tail(tail),
            (None, None) if searching => From::Offset(0),
            (None, None) => From::Tail(room.bytes as u64),
        };
        Self {
            from,
            limit: args.limit.unwrap_or(usize::MAX),
            stream: args.stream,
            room: *room,
        }
    }

    fn read(
        &self,
        dir: &Path,
        search: Option<Regex>,
        hole: Option<(u64, u64)>,
        cx: &Cx,
    ) -> ToolResult<Read> {
        let failed = |err: io::Error| ToolError::new("the output cannot be read").source(err);
        let record = Record::open(dir).map_err(failed)?;
        let total = record.len().map_err(failed)?;
        let wanted = match self.from {
            From::Offset(offset) => offset.min(total),
            // No more than there is room for, and of that the end.
            From::Tail(bytes) => {
                let most = self.limit.min(self.room.bytes) as u64;
                total.saturating_sub(bytes.min(most))
            }
        };
        // What is no longer kept is stepped over, and counted.
        let (offset, most) = step_over(hole, wanted);
        let dropped = offset - wanted;
        if let Some(regex) = search {
            let hole = hole.filter(|(start, _)| *start >= offset);
            let (lines, next) =
                search::lines(&record, &regex, offset, hole, &self.room, cx).map_err(failed)?;
            let stepped = hole.filter(|(_, end)| *end <= next);
            let dropped = dropped + stepped.map_or(0, |(start, end)| end - start);
            return Ok(Read {
                text: search::render(&lines),
                lines: Some(lines),
                offset: wanted,
                next,
                total,
                dropped,
            });
        }
        let mut bytes = record
            .read(offset, self.limit.min(self.room.bytes).min(most))
            .map_err(failed)?;
        let at_start = match self.from {
            From::Offset(_) => 0,
            From::Tail(_) => show::fit_tail(&self.room, &bytes),
        };
        let kept = bytes.split_off(at_start);
        let offset = offset + at_start as u64;
        let end = show::fit_head(&self.room, &kept);
        let end = if end == kept.len() && offset + (end as u64) < total {
            show::whole_characters(&kept)
        } else {
            end
        };
        let kept = kept.get(..end).unwrap_or_default();
        let mut next = offset + end as u64;
        if let Some((start, after)) = hole
            && next == start
        {
            next = after;
        }
        let text = match self.stream {
            Which::Both => show::lossy(kept),
            Which::Stdout => show::lossy(&record.only(Stream::Stdout, offset, kept)),
            Which::Stderr => show::lossy(&record.only(Stream::Stderr, offset, kept)),
        };
        Ok(Read {
            text,
            lines: None,
            offset,
            next,
            total,
            dropped: dropped + (next - offset - end as u64),
        })
    }
}

fn answer(job: Job, read: Read, matched: Option<String>, room: &Room) -> Answer<Output> {
    let end = job.end.unwrap_or_default();
    let signal = end.signal.map(exit::signal_name);
    let status = how(job.state, end.exit_code, signal.as_deref());
    let more = if read.next < read.total {
        format!(", next offset={}", read.next)
    } else {
        String::new()
    };
    let status = format!(
        "{status}; bytes {}-{} of {}{more}",
        read.offset, read.next, read.total
    );
    let text = if room.in_text && !read.text.is_empty() {
        let gap = if read.text.ends_with('\n') { "" } else { "\n" };
        format!("{}{gap}[{status}]", read.text)
    } else {
        status
    };
    let output = Output {
        id: job.id,
        state: job.state,
        exit_code: end.exit_code,
        signal,
        output: room
            .structured_copy(&read.text)
            .filter(|_| read.lines.is_none()),
        offset: read.offset,
        next_offset: read.next,
        total_bytes: read.total,
        matched,
        lines: read.lines.filter(|_| room.in_structured),
        dropped_bytes: read.dropped,
    };
    Answer::new(output, text)
}
