//! The commands of this host, as they are on disk: each a folder with what it is, what it wrote and how it ended.
//!
//! Nothing of it is kept in memory, so any server that uses the same folder sees the same jobs, after a restart or beside
//! this one. Whether a job still runs is told by a lock that its guard holds, never by a process number.

use std::{
    cmp::Reverse,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::Mutex,
    thread,
    time::Duration,
};

use lmcp_core::{Caller, Cx, Error, ToolError, ToolResult};
use lmcp_private::guards::MOST_RIGHTS;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::{
    dir, forget, passing,
    places::Counts,
    protocol::{End, Order, Size, Stdin},
    remove::remove_tree,
    rights::Rights,
    spool::OUTPUT,
};
use crate::time::now_millis;

/// Characters of a command in a list.
const LONGEST_COMMAND: usize = 300;
/// Longest record of a job, or of its end, in bytes. A longer one is nothing that we wrote.
const MOST_RECORD: usize = 32 * 1024 + MOST_RIGHTS;
/// Longest order, in bytes: more than the kernel takes as a command line and environment.
const MOST_ORDER: usize = 16 * 1024 * 1024;

/// Where commands are recorded.
#[derive(Debug)]
pub(crate) struct Store {
    dir: PathBuf,
    /// The lock of a folder that is removed with the server, where nothing was to be kept.
    passing: Option<File>,
    limits: Kept,
    /// Held by the one who prunes.
    pruning: Mutex<()>,
    /// What the server may do that looks: jobs with more rights are not there for it.
    rights: Rights,
}

/// How much of what has ended is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    pub(crate) jobs: usize,
    pub(crate) bytes: u64,
    pub(crate) age: Duration,
}

/// What a list shows of a command, and what its guard is reached with. Small: lists read it of every job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct About {
    /// Who started it.
    pub(crate) owner: String,
    /// What it may do: the rights of the server that started it.
    #[serde(default)]
    pub(crate) rights: Rights,
    /// As it was given, or the beginning of that.
    pub(crate) command: String,
    /// Seconds since 1970.
    pub(crate) started: u64,
    /// The same in milliseconds, for their order.
    #[serde(default)]
    started_ms: u64,
    pub(crate) log: Option<PathBuf>,
    /// What whoever comes to its guard's socket must know.
    #[serde(default)]
    pub(crate) key: String,
    /// Has it a terminal?
    #[serde(default)]
    pub(crate) tty: bool,
    /// The conversation in which it was started; none where requests stand alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<String>,
    /// It was no job while it ran: it is kept because its output was too long for its answer, or for what it left running.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) is_answered: bool,
    /// Where the first servers kept the key.
    #[serde(default, skip_serializing)]
    order: Option<Earlier>,
}

#[derive(Clone, Debug, Deserialize)]
struct Earlier {
    key: String,
    tty: Option<Size>,
}

/// Who starts a command, and in which conversation.
#[derive(Debug)]
pub(crate) struct Whose {
    pub(crate) owner: String,
    pub(crate) session: Option<String>,
}

impl Whose {
    /// The caller's.
    pub(crate) fn of(cx: &Cx) -> Self {
        Self {
            owner: cx.caller().owner().into_owned(),
            session: cx.session_name(),
        }
    }
}

/// A command that was found.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) id: String,
    pub(crate) dir: PathBuf,
    pub(crate) about: About,
    /// Its first process.
    pub(crate) pid: Option<i32>,
    pub(crate) state: State,
    pub(crate) end: Option<End>,
    pub(crate) output_bytes: u64,
}

/// What has become of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// It runs.
    Running,
    /// It ended by itself.
    Exited,
    /// A signal ended it.
    Killed,
    /// Its guard is gone, and nobody knows.
    Lost,
}

impl Store {
    /// A folder to keep jobs in; without one, a folder that goes with the server.
    pub(crate) fn open(state: Option<&Path>, limits: Kept, rights: Rights) -> Result<Self, Error> {
        let (dir, passing) = match state {
            Some(state) => {
                let dir = state.join("jobs");
                dir::create_private(&dir).map_err(|err| {
                    Error::io(format!("cannot keep jobs at {}", dir.display()), err)
                })?;
                (dir, None)
            }
            None => {
                let failed = |err| Error::io("cannot make a folder for commands", err);
                let (dir, lock) = passing::make().map_err(failed)?;
                (dir, Some(lock))
            }
        };
        let store = Self {
            dir,
            passing,
            limits,
            pruning: Mutex::default(),
            rights,
        };
        let mut doomed = store.doomed();
        if store.is_passing() {
            doomed.extend(passing::left_over());
        }
        if !doomed.is_empty() {
            // It may take long, and the first client need not wait for it. What it does not get done, the next one does.
            let thread = thread::Builder::new().name("prune".into());
            let _ = thread.spawn(move || remove_all(&doomed));
        }
        Ok(store)
    }

    /// Does it go with the server?
    pub(crate) fn is_passing(&self) -> bool {
        self.passing.is_some()
    }

    /// Is it in this folder, or a folder of this one?
    pub(crate) fn is_below(&self, folder: &Path) -> bool {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        real(&self.dir).starts_with(real(folder))
    }

    /// A folder for a new command.
    pub(crate) fn create(&self) -> io::Result<(String, PathBuf)> {
        let (id, dir) = self.name();
        dir::put_right(&self.dir)?;
        dir::create_private(&dir)?;
        Ok((id, dir))
    }

    /// A folder for a new command that nobody needs to find again. Where there is no room for one, it is only named, and the
    /// command goes unrecorded.
    pub(crate) fn create_if_there_is_room(&self) -> io::Result<(String, PathBuf)> {
        match self.create() {
            Err(err) if dir::is_full(&err) => Ok(self.name()),
            created => created,
        }
    }

    fn name(&self) -> (String, PathBuf) {
        let id = random_name();
        let dir = self.dir.join(&id);
        (id, dir)
    }

    /// The jobs of an owner that have no more rights than this server: those that run first, the newest first.
    pub(crate) fn list(&self, owner: &str) -> Vec<Job> {
        let mut jobs: Vec<_> = self
            .folders()
            .filter_map(|(id, _)| self.read(id).ok())
            .collect();
        jobs.retain(|job| self.is_open_to(job, owner));
        let order = |job: &Job| {
            let is_over = job.state != State::Running;
            let started = (job.about.started, job.about.started_ms);
            (is_over, Reverse(started), job.id.clone())
        };
        jobs.sort_by_cached_key(order);
        jobs
    }

    /// A job of this owner that has no more rights than this server.
    ///
    /// # Errors
    /// There is none of that id, it is somebody else's, or it may do more: the three sound the same.
    pub(crate) fn find(&self, id: &str, owner: &str) -> ToolResult<Job> {
        let unknown = || no_job(id);
        let is_id = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if !is_id {
            return Err(unknown());
        }
        let job = self.read(id.to_owned()).map_err(|_| unknown())?;
        if self.is_open_to(&job, owner) {
            Ok(job)
        } else {
            Err(unknown())
        }
    }

    /// May this owner, on this server, see the job and do something to it?
    fn is_open_to(&self, job: &Job, owner: &str) -> bool {
        job.about.owner == owner && job.is_kept() && self.rights.covers(&job.about.rights)
    }

    /// How many jobs run, by whose places they take. Commands that somebody waits for are none.
    pub(crate) fn running(&self) -> Counts {
        let mut counts = Counts::new();
        let jobs = self.folders().map(|(_, dir)| dir);
        for dir in jobs.filter(|dir| is_locked(dir) && dir.join(dir::KEPT).exists()) {
            // What cannot be read is nobody's, and still runs.
            let owner = About::read(&dir).map_or(String::new(), |about| about.owner);
            let payer = Caller::payer_of(&owner).to_owned();
            *counts.entry(payer).or_default() += 1;
        }
        counts
    }

    /// Removes what is to be forgotten, unless somebody is about it. It may take long: not on a thread that serves.
    pub(crate) fn prune(&self) {
        if let Ok(_only_one) = self.pruning.try_lock() {
            remove_all(&self.doomed());
        }
    }

    fn doomed(&self) -> Vec<PathBuf> {
        let ended = self.folders().map(|(_, dir)| dir);
        forget::doomed(
            ended.filter(|dir| !is_locked(dir)),
            &self.limits,
            &self.rights,
        )
    }

    fn folders(&self) -> impl Iterator<Item = (String, PathBuf)> {
        let entries = dir::insist(&self.dir, || fs::read_dir(&self.dir))
            .into_iter()
            .flatten()
            .flatten();
        entries.filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())))
    }

    fn read(&self, id: String) -> io::Result<Job> {
        let dir = self.dir.join(&id);
        let about = About::read(&dir)?;
        // In this order: one that ends in between is locked, and then its end is there.
        let runs = is_locked(&dir);
        let end: Option<End> = match dir::read_small(&dir.join(dir::END), MOST_RECORD) {
            Ok(bytes) => Some(serde_json::from_slice(&bytes)?),
            Err(_) => None,
        };
        let state = match &end {
            Some(end) if end.signal.is_some() || end.stopped || end.timed_out => State::Killed,
            Some(_) => State::Exited,
            None if runs => State::Running,
            None => State::Lost,
        };
        let mut end = end;
        if let Some(end) = end.as_mut().filter(|_| !runs) {
            // With the guard gone, so is what stayed behind.
            end.left_running.clear();
        }
        let output_bytes = fs::metadata(dir.join(OUTPUT)).map_or(0, |output| output.len());
        let pid = dir::read_small(&dir.join(dir::KEPT), MOST_RECORD).ok();
        let pid = pid.and_then(|pid| String::from_utf8(pid).ok()?.parse().ok());
        Ok(Job {
            id,
            dir,
            about,
            pid,
            state,
            end,
            output_bytes,
        })
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // From here on the guard of a command that ends later removes the folder.
        if self.passing.take().is_some() {
            let folders = self.folders().map(|(_, dir)| dir);
            let ended: Vec<_> = folders.filter(|dir| !is_locked(dir)).collect();
            remove_all(&ended);
            passing::remove_if_over(&self.dir);
        }
    }
}

impl Job {
    /// What it was started with; its environment is only what the caller added.
    ///
    /// # Errors
    /// It was given input, which is not recorded; or nothing tells how it was started.
    pub(crate) fn order(&self) -> ToolResult<Order> {
        let refused = |why: &str| {
            ToolError::new(format!("job `{}` cannot be started again: {why}", self.id))
                .hint("start the command anew")
        };
        let order = dir::read_small(&self.dir.join(dir::ORDER), MOST_ORDER)
            .and_then(|bytes| Ok(serde_json::from_slice::<Order>(&bytes)?))
            .map_err(|_| refused("its record does not say how"))?;
        match order.stdin {
            Stdin::Given => Err(refused("the input it was given is not recorded")),
            Stdin::Closed | Stdin::Open => Ok(order),
        }
    }

    /// The memory that starting it again takes at most: its record as text and as values, and both once more for the guard
    /// of the new job.
    pub(crate) fn order_weight(&self) -> usize {
        let record = fs::metadata(self.dir.join(dir::ORDER));
        let bytes = record
            .map_or(0, |record| record.len())
            .min(MOST_ORDER as u64);
        usize::try_from(bytes)
            .unwrap_or(MOST_ORDER)
            .saturating_mul(5)
    }

    /// The size of its terminal, as it was set last.
    pub(crate) fn size(&self) -> Size {
        let read = |name: &str| dir::read_small(&self.dir.join(name), MOST_ORDER).ok();
        let set = read(dir::SIZE).and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let first = || {
            let order: Order = serde_json::from_slice(&read(dir::ORDER)?).ok()?;
            order.tty
        };
        set.or_else(first).unwrap_or(Size { rows: 24, cols: 80 })
    }

    /// Its terminal has this size now. If that cannot be written down, its screen is shown in the old one.
    pub(crate) fn note_size(&self, size: Size) {
        if let Ok(bytes) = serde_json::to_vec(&size) {
            let _ = dir::write_whole(&self.dir, dir::SIZE, &bytes);
        }
    }

    /// Does it run, or something that it left behind?
    pub(crate) fn runs(&self) -> bool {
        let left = |end: &End| !end.left_running.is_empty();
        self.state == State::Running || self.end.as_ref().is_some_and(left)
    }

    /// Does its guard still watch over it?
    pub(crate) fn is_guarded(&self) -> bool {
        is_locked(&self.dir)
    }

    fn is_kept(&self) -> bool {
        self.dir.join(dir::KEPT).exists()
    }
}

impl About {
    /// What is recorded of a command that starts now.
    pub(crate) fn new(whose: Whose, rights: Rights, log: Option<PathBuf>, order: &Order) -> Self {
        let started_ms = now_millis();
        Self {
            owner: whose.owner,
            session: whose.session,
            is_answered: false,
            rights,
            command: clip(&order.shown()),
            started: started_ms / 1000,
            started_ms,
            log,
            key: order.key.clone(),
            tty: order.tty.is_some(),
            order: None,
        }
    }

    /// What is known of a command of another host: it and its log, the conversation it was started in and whether it was
    /// answered there, and when it was started.
    pub(super) fn elsewhere(
        (command, log): (String, Option<PathBuf>),
        (session, is_answered): (Option<String>, bool),
        started: u64,
    ) -> Self {
        Self {
            owner: String::new(),
            session,
            is_answered,
            rights: Rights::default(),
            command,
            started,
            started_ms: started.saturating_mul(1000),
            log,
            key: String::new(),
            tty: false,
            order: None,
        }
    }

    /// Writes down what the command is. Its input is written nowhere.
    pub(crate) fn write(&self, order: &Order) -> io::Result<()> {
        dir::write_json(&order.dir, dir::ORDER, order)?;
        dir::write_json(&order.dir, dir::JOB, self)
    }

    pub(super) fn read(dir: &Path) -> io::Result<Self> {
        let bytes = dir::read_small(&dir.join(dir::JOB), MOST_RECORD)?;
        let mut about: Self = serde_json::from_slice(&bytes)?;
        if let Some(earlier) = about.order.take() {
            about.key = earlier.key;
            about.tty = earlier.tty.is_some();
            about.owner = owner_now(&about.owner);
        }
        Ok(about)
    }
}

/// There is no such job, or none for whoever asks.
pub(super) fn no_job(id: &str) -> ToolError {
    ToolError::new(format!("there is no job `{}`", clip(id))).hint("`jobs` lists those there are")
}

/// A list is no place for a script, nor is an error.
pub(super) fn clip(command: &str) -> String {
    match command.char_indices().nth(LONGEST_COMMAND) {
        Some((end, _)) => format!("{}…", command.get(..end).unwrap_or_default()),
        None => command.to_owned(),
    }
}

/// How an owner is written now, of one that the first servers wrote.
fn owner_now(earlier: &str) -> String {
    match earlier.split_once(' ') {
        Some(("user", uid)) => format!("uid:{uid}"),
        Some(("principal", name)) => format!("principal:{name}"),
        _ => "anyone".to_owned(),
    }
}

/// What cannot be removed now is found by the next prune.
fn remove_all(doomed: &[PathBuf]) {
    for path in doomed {
        let _ = remove_tree(path);
    }
}

/// Does a guard hold it?
pub(super) fn is_locked(dir: &Path) -> bool {
    let path = dir.join(OUTPUT);
    let Ok(output) = dir::insist(&path, || File::open(&path)) else {
        return false;
    };
    flock(&output, FlockOperation::NonBlockingLockShared).is_err()
}

/// A name that nobody guesses: 80 bits.
pub(crate) fn random_name() -> String {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let key = lmcp_core::Server::random_key();
    let letters = key.iter().take(16);
    letters
        .filter_map(|byte| LETTERS.get(usize::from(byte % 32)))
        .map(|letter| char::from(*letter))
        .collect()
}

fn is_false(it: &bool) -> bool {
    !it
}
