//! Commands on another host: what a caller asks for, checked as it is here, and answers made of what happened there.
//!
//! Whoever reaches the host brings facts (a [`Job`], a copy of its output); what is said of them is said by the code that
//! says it of commands of this host. Nothing here runs anything.

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
    background, commands, input, jobs, long,
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

/// What a caller wants to run on another host.
#[derive(Debug)]
#[non_exhaustive]
pub struct Command {
    /// A line for a shell; or else `words`.
    pub line: Option<String>,
    /// A program and its arguments.
    pub words: Vec<String>,
    /// The folder to run in, as the caller named it.
    pub cwd: Option<String>,
    /// Variables to add.
    pub env: BTreeMap<String, String>,
    /// Its whole standard input.
    pub stdin: Option<String>,
    /// When it is killed.
    pub timeout: Option<Duration>,
    /// When it becomes a job, if it is none.
    pub yield_after: Option<Duration>,
    /// Must it run on a terminal?
    pub tty: bool,
    /// A file to append its output to.
    pub log: Option<String>,
    /// Does it end with the session of its caller?
    pub end_with_session: bool,
}

impl Command {
    /// What the arguments of `shell` ask for; a caller may ask for no longer `timeout` than this.
    ///
    /// # Errors
    /// They do not fit together.
    pub fn of_shell(args: shell::Args, longest: Duration) -> ToolResult<Self> {
        // Whoever passes commands on to another host offers what follows them.
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

    /// What the arguments of `shell_bg` ask for.
    ///
    /// # Errors
    /// They do not fit together.
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

    /// The command as its caller wrote it, or the beginning of that: what lists show.
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
    /// Its name, as [`new_id`] makes them.
    pub id: String,
    /// What it runs, as [`Command::shown`] says it.
    pub command: String,
    /// The conversation in which it was started.
    pub session: Option<String>,
    /// Was it no job while it ran, and is kept for its output?
    pub is_answered: bool,
    /// Seconds since 1970.
    pub started: u64,
    /// Its first process.
    pub pid: Option<i32>,
    /// The file that gets its output, too.
    pub log: Option<PathBuf>,
    /// What it has written so far.
    pub output_bytes: u64,
    /// Is something there that watches over it?
    pub is_guarded: bool,
    /// How it ended, once that is known.
    pub end: Option<End>,
}

/// How a command on another host ended.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct End {
    /// Unless a signal ended it.
    pub exit_code: Option<i32>,
    /// The number of that signal.
    pub signal: Option<i32>,
    /// Its time was over.
    pub timed_out: bool,
    /// Somebody asked for it.
    pub stopped: bool,
    /// How long it ran.
    pub duration_ms: u64,
    /// Processes of it that still run.
    pub left_running: Vec<i32>,
    /// Seconds since 1970.
    pub ended_at: u64,
    /// All it wrote.
    pub bytes: u64,
}

impl Job {
    /// Does it run, itself?
    pub fn is_running(&self) -> bool {
        self.end.is_none() && self.is_guarded
    }

    /// Does something of it run?
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

/// A name for a new job, in the form that all have.
pub fn new_id() -> String {
    store::random_name()
}

/// Is this the name of a job?
///
/// # Errors
/// It is not, so there is no such job.
pub fn expect_id(id: &str) -> ToolResult<()> {
    let is_id = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_id { Ok(()) } else { Err(no_job(id)) }
}

/// There is no job of that name.
pub fn no_job(id: &str) -> ToolError {
    store::no_job(id)
}

/// What is at hand of something long: pieces, and where each begins.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Pieces<'a> {
    /// All of it.
    pub length: u64,
    /// In order.
    pub pieces: Vec<(u64, &'a [u8])>,
}

/// Where in an output one of its streams goes on, until the next such place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there are two")]
pub enum Mark {
    /// Standard output, from here.
    Stdout(u64),
    /// Standard error, from here.
    Stderr(u64),
}

/// Makes a record in a folder: of an output what is at hand of it, and which parts are of which stream.
///
/// # Errors
/// It cannot be written.
pub fn copy_output(folder: &Path, marks: &[Mark], output: &Pieces<'_>) -> io::Result<()> {
    use std::os::unix::fs::FileExt as _;
    let file = File::create(folder.join(OUTPUT))?;
    for (at, piece) in &output.pieces {
        file.write_all_at(piece, *at)?;
    }
    // What is not at hand is a hole, which takes no room.
    file.set_len(output.length)?;
    let marks = marks.iter().map(|mark| match mark {
        Mark::Stdout(at) => at << 1,
        Mark::Stderr(at) => at << 1 | 1,
    });
    let marks: Vec<u8> = marks.flat_map(u64::to_le_bytes).collect();
    fs::write(folder.join(MARKS), marks)
}

/// How many bytes at the beginning, and at the end, of each stream of a command [`ended`] looks at, at most. Of less than
/// the third number it looks at all.
pub const LOOKED_AT: [u64; 3] = [
    2 * show::EXCERPT_BYTES as u64,
    2 * show::EXCERPT_BYTES as u64,
    show::MOST_CLEANED as u64,
];

/// The answer of `shell` for a command that has ended, from a copy of its output; and whether the job must be kept, because
/// not all of its output is in the answer or something of it still runs.
///
/// # Errors
/// The copy cannot be read.
pub fn ended(id: &str, record: &Path, end: End, cx: &Cx) -> ToolResult<(Answer<shell::Ran>, bool)> {
    shell::ended_elsewhere(id, record, &end.into_local(), &Room::of(cx))
}

/// The answer of `shell` for a command that has become a job.
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

/// The answer of `shell_bg`.
pub fn started(id: &str, pid: i32, log: Option<PathBuf>) -> Answer<background::Started> {
    background::started(id, pid, log)
}

/// The answer of `jobs`, for jobs of this caller.
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

/// What the arguments of `job_stop` ask for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stop {
    /// The job.
    pub id: String,
    /// The signal to send. 15 ends the job, by force if it takes longer than `grace`; 9 does so at once.
    pub signal: i32,
    /// How long it has to end.
    pub grace: Duration,
    /// Is it to be started again?
    pub restart: bool,
}

impl Stop {
    /// # Errors
    /// The signal is none, or the time.
    pub fn of(args: &stop::Args, grace: Duration) -> ToolResult<Self> {
        Ok(Self {
            signal: args.signal()?,
            grace: args.grace(grace)?,
            id: args.id.clone(),
            restart: args.restart,
        })
    }
}

/// The answer of `job_stop`.
pub fn stopped(job: Job, was_over: bool, restarted_as: Option<String>) -> Answer<stop::Stopped> {
    stop::told(job.into_local(), was_over, restarted_as)
}

/// What is typed into a job.
#[derive(Clone, Debug)]
#[expect(
    clippy::exhaustive_enums,
    reason = "whoever types must know how to do all of it"
)]
pub enum Typed {
    /// Text, as it is.
    Bytes(String),
    /// The number of a signal.
    Signal(i32),
    /// The end of its input.
    Eof,
}

/// What the arguments of `job_input` ask for.
#[derive(Debug)]
#[non_exhaustive]
pub struct Typing {
    /// The job.
    pub id: String,
    /// What is typed, in order.
    pub parts: Vec<Typed>,
    /// Is the terminal to get another size?
    pub resize: bool,
    wait_for: Option<String>,
    wait: Option<f64>,
}

impl Typing {
    /// # Errors
    /// A key is none.
    pub fn of(args: input::Args) -> ToolResult<Self> {
        wait::time(args.wait)?;
        let parts = args
            .parts(false)?
            .into_iter()
            .filter_map(|part| match part {
                input::Part::Bytes(text) if text.is_empty() => None,
                input::Part::Bytes(text) => Some(Typed::Bytes(text.into_owned())),
                input::Part::Signal(number) => Some(Typed::Signal(number)),
                input::Part::Eof => Some(Typed::Eof),
            });
        Ok(Self {
            parts: parts.collect(),
            resize: args.rows.is_some() || args.cols.is_some(),
            id: args.id,
            wait_for: args.wait_for,
            wait: args.wait,
        })
    }

    /// The job has ended, and nothing can be typed.
    pub fn is_over(&self) -> ToolError {
        input::is_over(&self.id)
    }

    /// What is to be read afterwards, of a job that had written so much: if the caller waits for a pattern.
    ///
    /// # Errors
    /// The pattern is none.
    pub async fn reaction(&self, offset: u64, cx: &Cx) -> ToolResult<Option<Reading>> {
        let Some(pattern) = Pattern::read(self.wait_for.clone(), cx).await? else {
            return Ok(None);
        };
        let room = Room::of(cx);
        let page = Page::since(offset, room);
        Ok(Some(Reading {
            page,
            search: None,
            watch: Some(Watch::new(pattern, offset)),
            watched_from: Some(offset),
            matched: None,
            wait: Some(wait::time(self.wait)?),
            room,
            who: output::who(cx),
        }))
    }

    /// The answer of `job_input`, when so many bytes were sent to a job that had written so much.
    pub fn answer(
        self,
        sent: (usize, u64),
        reaction: Option<(Output, String)>,
    ) -> Answer<input::Sent> {
        input::told(self.id, sent, reaction)
    }
}

/// Up to where callers have read the outputs of jobs of one host.
#[derive(Debug, Default)]
pub struct Outputs(reads::Reads);

/// A part of a job's output that somebody wants to read, perhaps after a wait.
#[derive(Debug)]
pub struct Reading {
    page: Page,
    search: Option<Pattern>,
    watch: Option<Watch>,
    /// What its reader has seen, if there is a watch.
    watched_from: Option<u64>,
    matched: Option<String>,
    wait: Option<Duration>,
    room: Room,
    who: String,
}

impl Outputs {
    /// What the arguments of `job_output` ask for.
    ///
    /// # Errors
    /// A pattern is none, or the time; or a screen is asked for.
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

    /// The answer of `job_output`, from a copy of what [`Reading::range`] wants.
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

    /// The same for [`Typing::answer`].
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
        // A pattern can take a minute for what is brought.
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
    /// How long to wait for the end of the job, or for a match, if at all.
    pub fn wait(&self) -> Option<Duration> {
        self.wait
    }

    /// From where on new output is looked at while the job runs, if a pattern is waited for.
    pub fn watched_from(&self) -> Option<u64> {
        self.watch.as_ref().map(Watch::offset)
    }

    /// Does one stream alone count?
    pub fn is_of_one_stream(&self) -> bool {
        self.page.is_of_one_stream()
    }

    /// Looks at what is new in a copy of the output. Says whether it has what was waited for.
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

    /// Which bytes of an output of this length must be at hand for the answer.
    pub fn range(&self, total: u64) -> Range<u64> {
        let most = self.page.limit.min(self.room.bytes) as u64;
        match self.page.from {
            From::Offset(offset) if self.search.is_some() => offset.min(total)..total,
            From::Offset(offset) => offset.min(total)..offset.saturating_add(most).min(total),
            From::Tail(_) | From::End | From::New(_) => total.saturating_sub(most)..total,
        }
    }
}
