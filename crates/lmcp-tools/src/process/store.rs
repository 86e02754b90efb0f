//! The commands of this host, as they are on disk: each has a folder with its description, its output and its end.
//!
//! Nothing is kept in memory, so every server that uses the same folder sees the same jobs, after a restart or beside this
//! one. A lock that the guard holds tells whether a job still runs; a process number never does.

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
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};
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

/// The most characters of a command in a list.
const LONGEST_COMMAND: usize = 300;
/// Longest record of a job, or of its end, in bytes. No server writes a longer one.
const MOST_RECORD: usize = 32 * 1024 + MOST_RIGHTS;
/// Longest order, in bytes: more than the kernel takes as a command line and environment.
const MOST_ORDER: usize = 16 * 1024 * 1024;

/// The folder in which commands are recorded.
#[derive(Debug)]
pub(crate) struct Store {
    dir: PathBuf,
    /// The lock of a folder that is removed with the server, if nothing is to be kept.
    passing: Option<File>,
    limits: Kept,
    /// Held while old records are removed.
    pruning: Mutex<()>,
    /// The rights of this server: it does not see jobs with more rights.
    rights: Rights,
}

/// How many records of ended commands are kept, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    pub(crate) jobs: usize,
    pub(crate) bytes: u64,
    pub(crate) age: Duration,
}

/// The record of a command for lists, with the key to its guard. It is small, because lists read it for every job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct About {
    /// The caller that started the command.
    pub(crate) owner: String,
    /// The rights of the command: those of the server that started it.
    #[serde(default)]
    pub(crate) rights: Rights,
    /// The command as it was given, shortened for lists.
    pub(crate) command: String,
    /// Seconds since 1970.
    pub(crate) started: u64,
    /// The same time in milliseconds, to order the jobs.
    #[serde(default)]
    started_ms: u64,
    pub(crate) log: Option<PathBuf>,
    /// The key that every peer on the guard's socket must send.
    #[serde(default)]
    pub(crate) key: String,
    /// Whether the command has a terminal.
    #[serde(default)]
    pub(crate) tty: bool,
    /// The conversation in which the command was started; `None` where requests stand alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<String>,
    /// Whether the command was no job while it ran: it is kept because its output was too long for its answer, or because it
    /// left processes running.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) is_answered: bool,
    /// The place of the key in records of the first servers.
    #[serde(default, skip_serializing)]
    order: Option<Earlier>,
}

#[derive(Clone, Debug, Deserialize)]
struct Earlier {
    key: String,
    tty: Option<Size>,
}

/// The caller that starts a command, and its conversation.
#[derive(Debug)]
pub(crate) struct Whose {
    pub(crate) owner: String,
    pub(crate) session: Option<String>,
}

impl Whose {
    /// Returns the caller of this call.
    pub(crate) fn of(cx: &Cx) -> Self {
        Self {
            owner: cx.caller().owner().into_owned(),
            session: cx.session_name(),
        }
    }
}

/// A command, as its folder describes it.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) id: String,
    pub(crate) dir: PathBuf,
    pub(crate) about: About,
    /// The number of its first process.
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
    /// Opens a folder to keep jobs in. Without `state`, makes a folder that is removed with the server.
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
            // Removing may take long, and the first client need not wait. The next server removes what is left.
            let thread = thread::Builder::new().name("prune".into());
            let _ = thread.spawn(move || remove_all(&doomed));
        }
        Ok(store)
    }

    /// Returns whether the folder is removed with the server.
    pub(crate) fn is_passing(&self) -> bool {
        self.passing.is_some()
    }

    /// Returns whether the store lies in this folder, or below it.
    pub(crate) fn is_below(&self, folder: &Path) -> bool {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        real(&self.dir).starts_with(real(folder))
    }

    /// Makes a folder for a new command.
    pub(crate) fn create(&self) -> io::Result<(String, PathBuf)> {
        let (id, dir) = self.name();
        dir::put_right(&self.dir)?;
        dir::create_private(&dir)?;
        Ok((id, dir))
    }

    /// Makes a folder for a new command that nobody needs to find again. If the disk is full, the folder is only named, and
    /// the command is not recorded.
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

    /// Returns the jobs of an owner that have no more rights than this server: running ones first, then the newest first.
    ///
    /// # Errors
    /// The folders, or a record, may not be read. Records that make no sense are left out.
    pub(crate) fn list(&self, owner: &str) -> ToolResult<Vec<Job>> {
        let failed = |err| ToolError::new("the records of jobs cannot be read").source(err);
        let mut jobs = Vec::new();
        for (id, _) in self.try_folders().map_err(failed)? {
            match self.read(id) {
                Ok(job) if self.is_open_to(&job, owner) => jobs.push(job),
                Err(err) if err.kind() == io::ErrorKind::PermissionDenied => {
                    return Err(failed(err));
                }
                Ok(_) | Err(_) => {}
            }
        }
        let order = |job: &Job| {
            let is_over = job.state != State::Running;
            let started = (job.about.started, job.about.started_ms);
            (is_over, Reverse(started), job.id.clone())
        };
        jobs.sort_by_cached_key(order);
        Ok(jobs)
    }

    /// Returns a job of this owner that has no more rights than this server.
    ///
    /// # Errors
    /// No job has that id, the job is another owner's, or it has more rights. The error is the same for all three.
    pub(crate) fn find(&self, id: &str, owner: &str) -> ToolResult<Job> {
        let unknown = || no_job(id);
        let is_id = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if !is_id {
            return Err(unknown());
        }
        let job = self.read(id.to_owned()).map_err(|err| match err.kind() {
            io::ErrorKind::PermissionDenied => {
                ToolError::new("the record of the job cannot be read").source(err)
            }
            _ => unknown(),
        })?;
        if self.is_open_to(&job, owner) {
            Ok(job)
        } else {
            Err(unknown())
        }
    }

    /// Returns whether this owner, on this server, may see the job and act on it.
    fn is_open_to(&self, job: &Job, owner: &str) -> bool {
        job.about.owner == owner && job.is_kept() && self.rights.covers(&job.about.rights)
    }

    /// Counts the running jobs, by the callers whose places they take. Commands that a caller waits for do not count.
    pub(crate) fn running(&self) -> Counts {
        let mut counts = Counts::new();
        let jobs = self.folders().map(|(_, dir)| dir);
        for dir in jobs.filter(|dir| is_locked(dir) && dir::is_there(&dir.join(dir::KEPT))) {
            // A job whose record cannot be read has no owner, but it runs.
            let owner = About::read(&dir).map_or(String::new(), |about| about.owner);
            let payer = Caller::payer_of(&owner).to_owned();
            *counts.entry(payer).or_default() += 1;
        }
        counts
    }

    /// Removes records that are to be forgotten, unless another thread is doing so. This may take long: do not call it on a
    /// thread that serves.
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
        self.try_folders().into_iter().flatten()
    }

    fn try_folders(&self) -> io::Result<impl Iterator<Item = (String, PathBuf)>> {
        let entries = dir::insist(&self.dir, || fs::read_dir(&self.dir))?.flatten();
        Ok(entries.filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path()))))
    }

    fn read(&self, id: String) -> io::Result<Job> {
        let dir = self.dir.join(&id);
        let about = About::read(&dir)?;
        // The lock is checked before the end is read: a command that ends in between counts as running, and its end is
        // found.
        let runs = is_locked(&dir);
        let end: Option<End> = match dir::read_small(&dir.join(dir::END), MOST_RECORD) {
            Ok(bytes) => Some(serde_json::from_slice(&bytes)?),
            Err(err) if err.kind() == io::ErrorKind::PermissionDenied => return Err(err),
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
            // The guard is gone, so the processes that it watched over are gone, too.
            end.left_running.clear();
        }
        let output = dir.join(OUTPUT);
        let output = dir::insist(&dir, || fs::symlink_metadata(&output));
        let output_bytes = output.map_or(0, |output| output.len());
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
    /// Returns the order with which the job was started. Its environment holds only the variables that the caller added.
    ///
    /// # Errors
    /// The job was given input, which is not recorded; or its order cannot be read.
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

    /// Returns the memory that starting the job again takes at most: its record as text and as values, and both once more
    /// for the guard of the new job.
    pub(crate) fn order_weight(&self) -> usize {
        let record = fs::metadata(self.dir.join(dir::ORDER));
        let bytes = record
            .map_or(0, |record| record.len())
            .min(MOST_ORDER as u64);
        usize::try_from(bytes)
            .unwrap_or(MOST_ORDER)
            .saturating_mul(5)
    }

    /// Returns the size of the job's terminal, as it was set last.
    pub(crate) fn size(&self) -> Size {
        let read = |name: &str| dir::read_small(&self.dir.join(name), MOST_ORDER).ok();
        let set = read(dir::SIZE).and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let first = || {
            let order: Order = serde_json::from_slice(&read(dir::ORDER)?).ok()?;
            order.tty
        };
        set.or_else(first).unwrap_or(Size { rows: 24, cols: 80 })
    }

    /// Records the new size of the job's terminal. If that fails, the screen is shown in the old size.
    pub(crate) fn note_size(&self, size: Size) {
        if let Ok(bytes) = serde_json::to_vec(&size) {
            let _ = dir::write_whole(&self.dir, dir::SIZE, &bytes);
        }
    }

    /// Returns whether the job runs, or a process that it left behind.
    pub(crate) fn runs(&self) -> bool {
        let left = |end: &End| !end.left_running.is_empty();
        self.state == State::Running || self.end.as_ref().is_some_and(left)
    }

    /// Returns whether the job's guard still runs.
    pub(crate) fn is_guarded(&self) -> bool {
        is_locked(&self.dir)
    }

    fn is_kept(&self) -> bool {
        dir::is_there(&self.dir.join(dir::KEPT))
    }
}

impl About {
    /// Returns the record of a command that starts now.
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

    /// Returns the record of a command of another host: the command and its log, its conversation and whether it was
    /// answered there, and the time of its start.
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

    /// Writes the record and the order of the command. Its input is written nowhere.
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

/// Returns the error that there is no such job, or none for this caller.
pub(super) fn no_job(id: &str) -> ToolError {
    ToolError::new(format!("there is no job `{}`", clip(id))).hint("`jobs` lists those there are")
}

/// Shortens a command for a list or an error.
pub(super) fn clip(command: &str) -> String {
    match command.char_indices().nth(LONGEST_COMMAND) {
        Some((end, _)) => format!("{}…", command.get(..end).unwrap_or_default()),
        None => command.to_owned(),
    }
}

/// Converts an owner as the first servers wrote it to the present form.
fn owner_now(earlier: &str) -> String {
    match earlier.split_once(' ') {
        Some(("user", uid)) => format!("uid:{uid}"),
        Some(("principal", name)) => format!("principal:{name}"),
        _ => "anyone".to_owned(),
    }
}

/// Removes folders. The next prune finds those that cannot be removed now.
fn remove_all(doomed: &[PathBuf]) {
    for path in doomed {
        let _ = remove_tree(path);
    }
}

/// Returns whether a guard holds the lock of the folder. A lock that cannot be looked at counts as held.
pub(super) fn is_locked(dir: &Path) -> bool {
    match dir::open(&dir.join(OUTPUT)) {
        Ok(output) => flock(&output, FlockOperation::NonBlockingLockShared).is_err(),
        // A command can put a link in its place.
        Err(err) => !dir::is_absent(&err) && Errno::from_io_error(&err) != Some(Errno::LOOP),
    }
}

/// Makes a name that nobody can guess: 80 bits.
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
