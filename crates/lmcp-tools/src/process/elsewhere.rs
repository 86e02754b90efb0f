//! Commands on another host: arguments are checked as for this host, and answers are built from what happened there.
//!
//! The code that reaches the host brings facts (a [`Job`], a copy of its output). The words about them come from the same
//! code as those about commands of this host. Nothing in this file runs a command.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    ops::Range,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use lmcp_core::{Cx, ToolError, ToolResult};

use super::{
    background, commands, jobs, long,
    output::{self, Output},
    page::{From, Page},
    pattern::Pattern,
    protocol, reads,
    search::Watch,
    shell::{self, seconds},
    show,
    spool::{MARKS, OUTPUT, Record},
    stop, store,
    variables::Variables,
    wait::{self, Outcome, Waited},
};
use crate::{answer::Answer, blocking::blocking, room::Room};

/// The command that a caller wants to run on another host.
#[derive(Debug)]
#[non_exhaustive]
pub struct Command {
    /// A line for a shell. If there is none, `words` are run.
    pub line: Option<String>,
    /// A program and its arguments.
    pub words: Vec<String>,
    /// The folder to run in, as the caller named it.
    pub cwd: Option<String>,
    /// Variables to add.
    pub env: BTreeMap<String, String>,
    /// The whole standard input.
    pub stdin: Option<String>,
    /// The time after which the command is killed.
    pub timeout: Option<Duration>,
    /// The time after which the command becomes a job, if it is none.
    pub yield_after: Option<Duration>,
    /// Whether the command needs a terminal.
    pub tty: bool,
    /// A file to which the output is appended.
    pub log: Option<String>,
    /// Whether the command ends with the session of its caller.
    pub end_with_session: bool,
}

impl Command {
    /// Reads the arguments of `shell`. `longest` is the longest `timeout` that a caller may ask for.
    ///
    /// # Errors
    /// The arguments do not fit together.
    pub fn of_shell(args: shell::Args, longest: Duration) -> ToolResult<Self> {
        // Every program that passes commands on to another host offers the tools that follow a job.
        let times = args.times(longest, shell::Afterwards::Followed)?;
        let command = Self::new(args.command, args.argv, args.env)?;
        Ok(Self {
            cwd: args.cwd,
            stdin: args.stdin,
            timeout: times.timeout,
            yield_after: times.yield_after,
            tty: args.tty,
            ..command
        })
    }

    /// Reads the arguments of `shell_bg`.
    ///
    /// # Errors
    /// The arguments do not fit together.
    pub fn of_background(args: background::Args) -> ToolResult<Self> {
        let timeout = args.timeout.filter(|time| *time != 0.0);
        let timeout = timeout.map(|time| seconds("timeout", time)).transpose()?;
        let command = Self::new(args.command, args.argv, args.env)?;
        Ok(Self {
            cwd: args.cwd,
            timeout,
            tty: args.tty,
            log: args.log,
            end_with_session: args.end_with_session,
            ..command
        })
    }

    fn new(line: Option<String>, argv: Option<Vec<String>>, env: Variables) -> ToolResult<Self> {
        let is_line = line.is_some();
        let env = env.into_map()?;
        let mut words = commands::words_for("sh".into(), line, argv)?;
        long::check(&words, is_line, &env)?;
        let line = is_line.then(|| std::mem::take(&mut words).pop()).flatten();
        Ok(Self {
            line,
            words,
            cwd: None,
            env,
            stdin: None,
            timeout: None,
            yield_after: None,
            tty: false,
            log: None,
            end_with_session: false,
        })
    }

    /// Returns the command as its caller wrote it, shortened for lists.
    pub fn shown(&self) -> String {
        match &self.line {
            Some(line) => store::clip(line),
            None => store::clip(&self.words.join(" ")),
        }
    }
}

/// A job of another host, as it was found there.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Job {
    /// The name, in the form that [`new_id`] makes.
    pub id: String,
    /// The command, as [`Command::shown`] returns it.
    pub command: String,
    /// The conversation in which it was started.
    pub session: Option<String>,
    /// Whether the command was no job while it ran, and is kept only for its output.
    pub is_answered: bool,
    /// Seconds since 1970.
    pub started: u64,
    /// The number of its first process.
    pub pid: Option<i32>,
    /// The file that gets the output as well.
    pub log: Option<PathBuf>,
    /// The number of bytes written so far.
    pub output_bytes: u64,
    /// Whether a process on that host watches over the job.
    pub is_guarded: bool,
    /// How the job ended, once that is known.
    pub end: Option<End>,
}

/// How a command on another host ended.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct End {
    /// The exit code, unless a signal ended the command.
    pub exit_code: Option<i32>,
    /// The number of the signal that ended the command.
    pub signal: Option<i32>,
    /// The command had run for as long as it may.
    pub timed_out: bool,
    /// A caller stopped the command.
    pub stopped: bool,
    /// How long it ran.
    pub duration_ms: u64,
    /// The processes of the command that still run.
    pub left_running: Vec<i32>,
    /// Seconds since 1970.
    pub ended_at: u64,
    /// The number of bytes that the command wrote.
    pub bytes: u64,
}

impl Job {
    /// Returns whether the command itself runs.
    pub fn is_running(&self) -> bool {
        self.end.is_none() && self.is_guarded
    }

    /// Returns whether any process of the job runs.
    pub fn runs(&self) -> bool {
        let left = self.end.as_ref().map_or(0, |end| end.left_running.len());
        self.is_running() || left > 0
    }

    fn state(&self) -> store::State {
        match &self.end {
            Some(end) if end.signal.is_some() => store::State::Killed,
            Some(_) => store::State::Exited,
            None if self.is_guarded => store::State::Running,
            None => store::State::Lost,
        }
    }

    fn into_local(self) -> store::Job {
        let state = self.state();
        store::Job {
            dir: PathBuf::new(),
            about: store::About::elsewhere(
                (self.command, self.log),
                (self.session, self.is_answered),
                self.started,
            ),
            id: self.id,
            pid: self.pid,
            state,
            end: self.end.map(End::into_local),
            output_bytes: self.output_bytes,
        }
    }
}

impl End {
    fn into_local(self) -> protocol::End {
        protocol::End {
            exit_code: self.exit_code,
            signal: self.signal,
            timed_out: self.timed_out,
            stopped: self.stopped,
            duration_ms: self.duration_ms,
            left_running: self.left_running,
            ended_at: self.ended_at,
            bytes: self.bytes,
            ..protocol::End::default()
        }
    }
}

/// Makes a name for a new job, in the form that all names have.
pub fn new_id() -> String {
    store::random_name()
}

/// Checks that `id` has the form of a job's name.
///
/// # Errors
/// `id` has not, so there is no such job.
pub fn expect_id(id: &str) -> ToolResult<()> {
    let is_id = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_id { Ok(()) } else { Err(no_job(id)) }
}

/// Returns the error that there is no job of that name.
pub fn no_job(id: &str) -> ToolError {
    store::no_job(id)
}

/// The parts of a long output that are at hand, each with its position.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Pieces<'a> {
    /// The length of the whole output.
    pub length: u64,
    /// The position and the bytes of each part, in order.
    pub pieces: Vec<(u64, &'a [u8])>,
}

/// A position in an output from which on, up to the next mark, the bytes are of one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there are two")]
pub enum Mark {
    /// Standard output, from here.
    Stdout(u64),
    /// Standard error, from here.
    Stderr(u64),
}

/// Writes a record into a folder: the parts of an output that are at hand, and which bytes are of which stream.
///
/// # Errors
/// The record cannot be written.
pub fn copy_output(folder: &Path, marks: &[Mark], output: &Pieces<'_>) -> io::Result<()> {
    use std::os::unix::fs::FileExt as _;
    let file = File::create(folder.join(OUTPUT))?;
    for (at, piece) in &output.pieces {
        file.write_all_at(piece, *at)?;
    }
    // The parts that are not at hand become holes, which take no room on the disk.
    file.set_len(output.length)?;
    let marks = marks.iter().map(|mark| match mark {
        Mark::Stdout(at) => at << 1,
        Mark::Stderr(at) => at << 1 | 1,
    });
    let marks: Vec<u8> = marks.flat_map(u64::to_le_bytes).collect();
    fs::write(folder.join(MARKS), marks)
}

/// How many bytes [`ended`] reads at most at the beginning, and at the end, of each stream of a command. Of an output that
/// is shorter than the third number it may read everything.
pub const LOOKED_AT: [u64; 3] = [
    2 * show::EXCERPT_BYTES as u64,
    2 * show::EXCERPT_BYTES as u64,
    show::MOST_CLEANED as u64,
];

/// Builds the answer of `shell` for a command that has ended, from a copy of its output. The second value says whether the
/// job must be kept, because the answer does not hold all of its output or a process of it still runs.
///
/// # Errors
/// The copy cannot be read.
pub fn ended(id: &str, record: &Path, end: End, cx: &Cx) -> ToolResult<(Answer<shell::Ran>, bool)> {
    shell::ended_elsewhere(id, record, &end.into_local(), &Room::of(cx))
}

/// Builds the answer of `shell` for a command that has become a job.
///
/// # Errors
/// The copy cannot be read.
pub fn handed_over(
    id: &str,
    record: &Path,
    after: Duration,
    cx: &Cx,
) -> ToolResult<Answer<shell::Ran>> {
    shell::handed_over_elsewhere(id, record, after, &Room::of(cx))
}

/// Builds the answer of `shell_bg`.
pub fn started(id: &str, pid: i32, log: Option<PathBuf>) -> Answer<background::Started> {
    background::started(id, pid, log)
}

/// Builds the answer of `jobs`, for jobs of this caller.
pub fn listed(args: &jobs::Args, mut jobs: Vec<Job>, cx: &Cx) -> Answer<jobs::Jobs> {
    jobs.sort_by_key(|job| {
        (
            !job.is_running(),
            std::cmp::Reverse(job.started),
            job.id.clone(),
        )
    });
    let jobs = jobs.into_iter().map(Job::into_local).collect();
    args.answer(jobs, cx.session_name().as_deref())
}

/// The arguments of `job_stop`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stop {
    /// The job.
    pub id: String,
    /// The signal to send. 15 ends the job, by force if the job takes longer than `grace`; 9 ends it at once.
    pub signal: i32,
    /// How long the job has to end.
    pub grace: Duration,
    /// Whether the job is started again.
    pub restart: bool,
}

impl Stop {
    /// # Errors
    /// The arguments name no valid signal, or no valid time.
    pub fn of(args: &stop::Args, grace: Duration) -> ToolResult<Self> {
        Ok(Self {
            signal: args.signal()?,
            grace: args.grace(grace)?,
            id: args.id.clone(),
            restart: args.restart,
        })
    }
}

/// Builds the answer of `job_stop`.
pub fn stopped(job: Job, was_over: bool, restarted_as: Option<String>) -> Answer<stop::Stopped> {
    stop::told(job.into_local(), was_over, restarted_as)
}

/// The positions up to which callers have read the outputs of the jobs of one host.
#[derive(Debug, Default)]
pub struct Outputs(reads::Reads);

/// A part of a job's output that a caller wants to read, perhaps after a wait.
#[derive(Debug)]
pub struct Reading {
    page: Page,
    search: Option<Pattern>,
    watch: Option<Watch>,
    /// The position up to which the reader has seen the output, if there is a watch.
    watched_from: Option<u64>,
    matched: Option<String>,
    wait: Option<Duration>,
    room: Room,
    who: String,
}

impl Outputs {
    /// Plans a reading from the arguments of `job_output`.
    ///
    /// # Errors
    /// A pattern or the time is not valid, or a screen is asked for.
    pub async fn plan(&self, args: output::Args, cx: &Cx) -> ToolResult<Reading> {
        let wait = wait::time(args.wait)?;
        let wish = args.wish();
        let wait_for = Pattern::read(args.wait_for, cx).await?;
        let search = Pattern::read(args.search, cx).await?;
        let who = output::who(cx);
        let seen = self.0.position(&who, &args.id);
        let watched_from = wait_for.as_ref().map(|_| wish.offset.unwrap_or(seen));
        let watch = wait_for.map(|pattern| match wish.offset {
            Some(offset) => Watch::new(pattern, offset),
            None => Watch::after(pattern, seen),
        });
        let room = Room::of(cx);
        let (page, _) = wish.page(&args.id, false, search.is_some(), watched_from, room)?;
        let waits = args.wait_exit || watch.is_some();
        Ok(Reading {
            page,
            search,
            watch,
            watched_from,
            matched: None,
            wait: waits.then_some(wait),
            room,
            who,
        })
    }

    /// Builds the answer of `job_output`, from a copy of the bytes that [`Reading::range`] names.
    ///
    /// # Errors
    /// The copy cannot be read.
    pub async fn answer(
        &self,
        reading: Reading,
        job: Job,
        record: &Path,
        cx: &Cx,
    ) -> ToolResult<Answer<Output>> {
        let (output, text) = self.read(reading, job, record, cx).await?;
        Ok(Answer::new(output, text))
    }

    /// Reads the same for [`Typing::answer`](crate::elsewhere::Typing::answer).
    ///
    /// # Errors
    /// The copy cannot be read.
    pub async fn read(
        &self,
        mut reading: Reading,
        job: Job,
        record: &Path,
        cx: &Cx,
    ) -> ToolResult<(Output, String)> {
        let (page, search) = (reading.page, reading.search.take());
        let (record, own, extent) = (record.to_owned(), cx.clone(), protocol::Extent::default());
        // A search for a pattern in the copy can take a minute.
        let step = move || page.read(&record, search.as_deref(), extent, &own);
        let read = blocking(cx, step).await?;
        if read.lines.is_none() {
            self.0.note(&reading.who, &job.id, read.next);
        }
        let outcome = match reading.wait {
            None => None,
            Some(_) if reading.matched.is_some() => Some(Outcome::Matched),
            Some(_) if !job.is_running() => Some(Outcome::Ended),
            Some(_) => Some(Outcome::Expired),
        };
        let wait = reading.wait.unwrap_or_default();
        let has_pattern = reading.watched_from.is_some();
        let waited = Waited::elsewhere(outcome, reading.matched, wait, has_pattern);
        let (job, waited) = (job.into_local(), (waited, None, None));
        Ok(output::answer(job, read, waited, &reading.room))
    }
}

impl Reading {
    /// Plans to read what comes after this position, until the pattern is there or the time is over.
    pub(super) fn until(pattern: Pattern, offset: u64, wait: Duration, cx: &Cx) -> Self {
        let room = Room::of(cx);
        Self {
            page: Page::since(offset, room),
            search: None,
            watch: Some(Watch::new(pattern, offset)),
            watched_from: Some(offset),
            matched: None,
            wait: Some(wait),
            room,
            who: output::who(cx),
        }
    }

    /// Returns how long to wait for the end of the job, or for a match; `None` if the caller does not wait.
    pub fn wait(&self) -> Option<Duration> {
        self.wait
    }

    /// Returns the position from which on new output is searched while the job runs, if the caller waits for a pattern.
    pub fn watched_from(&self) -> Option<u64> {
        self.watch.as_ref().map(Watch::offset)
    }

    /// Returns whether the caller asked for one stream alone.
    pub fn is_of_one_stream(&self) -> bool {
        self.page.is_of_one_stream()
    }

    /// Searches the new bytes in a copy of the output. Returns whether the pattern was found.
    ///
    /// # Errors
    /// The copy cannot be read.
    pub async fn look(&mut self, record: &Path, cx: &Cx) -> ToolResult<bool> {
        let Some(mut watch) = self.watch.take() else {
            return Ok(false);
        };
        let record = record.to_owned();
        let step = move || {
            let soon = Instant::now() + Duration::from_secs(1);
            let found = Record::open(&record, protocol::Extent::default())
                .and_then(|record| watch.look(&record, None, soon));
            let failed = |err| ToolError::new("the output cannot be read").source(err);
            Ok((watch, found.map_err(failed)?))
        };
        let (watch, matched) = blocking(cx, step).await?;
        (self.watch, self.matched) = (Some(watch), matched);
        Ok(self.matched.is_some())
    }

    /// Returns which bytes of an output of this length the answer needs.
    pub fn range(&self, total: u64) -> Range<u64> {
        let most = self.page.limit.min(self.room.bytes) as u64;
        match self.page.from {
            From::Offset(offset) if self.search.is_some() => offset.min(total)..total,
            From::Offset(offset) => offset.min(total)..offset.saturating_add(most).min(total),
            From::Tail(_) | From::End | From::New(_) => total.saturating_sub(most)..total,
        }
    }
}
