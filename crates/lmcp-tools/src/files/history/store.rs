//! The store of changes: logs in a folder of the state folder, so that every server that uses the folder finds them.
//!
//! A change belongs to the caller that made it and to the rights of its server, as jobs do. It is recorded after the file
//! is written, and nothing waits for the disk: a crash may lose the undo of a change, never the content of the file.

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use lmcp_core::{ToolError, ToolResult};
use serde::{Deserialize, Serialize};

use super::{
    change::Change,
    log::{self, Added, Log, Record},
};
use crate::{
    process::{dir, rights::Rights, store::random_name},
    settings::Settings,
};

/// A change as it is kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Entry {
    /// The name of the change. Later names sort after earlier ones.
    #[serde(default)]
    pub(super) id: String,
    owner: String,
    rights: Rights,
    /// The path of the file, without links.
    pub(super) path: String,
    /// Seconds since 1970.
    pub(super) time: u64,
    /// The tool that made the change.
    pub(super) tool: String,
    /// The change that this one undoes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) undoes: Option<String>,
    /// The change in one line.
    pub(super) about: String,
    pub(super) change: Change,
}

/// The changes of this server's state folder, and how many of them are kept.
#[derive(Debug)]
pub(crate) struct History {
    dir: PathBuf,
    rights: Rights,
    most: usize,
    most_bytes: u64,
    most_age: Duration,
    /// A part of the ids of all changes that this server keeps, so that no other server makes the same.
    random: String,
    /// The log that this server appends to.
    own: Mutex<Own>,
}

#[derive(Debug, Default)]
struct Own {
    log: Option<Log>,
    /// The time of the last change, as its id says.
    last: u128,
}

/// A change that was found, still without its bytes.
#[derive(Debug)]
pub(super) struct Kept {
    record: Record,
    /// The log that holds the change.
    path: PathBuf,
}

impl History {
    /// Opens the history if the settings name a state folder. Its own folder is made with the first change. A folder below
    /// a root is refused: tools would read changes of other callers there.
    pub(crate) fn for_settings(
        settings: &Settings,
        roots: &[PathBuf],
        rights: &Rights,
    ) -> Option<Self> {
        let state = settings.state_dir.as_ref()?;
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let is_below = roots.iter().any(|root| real(state).starts_with(real(root)));
        if settings.read_only || settings.changes_kept == 0 || is_below {
            return None;
        }
        Some(Self {
            dir: state.join("history"),
            rights: rights.clone(),
            most: settings.changes_kept,
            most_bytes: settings.change_bytes_kept,
            most_age: settings.jobs_kept_for,
            random: random_name().chars().take(6).collect(),
            own: Mutex::default(),
        })
    }

    /// Returns whether a change of this many bytes is kept at all.
    pub(super) fn takes(&self, bytes: usize) -> bool {
        bytes as u64 <= self.most_bytes / 4
    }

    /// Keeps a change. If that fails, the change of the file stays all the same.
    pub(super) fn add(&self, mut entry: Entry) -> io::Result<String> {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        // Two changes in one millisecond sort in the order in which they were made.
        own.last = millis().max(own.last + 1);
        entry.id = format!("{:0MILLIS_DIGITS$x}{}", own.last, self.random);
        let mut record = serde_json::to_vec(&entry)?;
        record.push(b'\n');
        record.extend_from_slice(&entry.change.bytes);
        if let Some(log) = &mut own.log
            && log.records < self.most / 2
            && log.bytes < self.most_bytes / 8
            && matches!(log.add(&record), Ok(Added::Done))
        {
            return Ok(entry.id);
        }
        // Logs are removed whole. A few logs with many records are counted quickly; but removing a large log would forget
        // too many changes.
        own.log = None;
        self.prune();
        // Another server that removes logs may find the new one while it is empty.
        for attempt in 0..3 {
            let mut log = Log::create(&self.dir, &format!("{}{attempt}", entry.id))?;
            if let Added::Done = log.add(&record)? {
                own.log = Some(log);
                return Ok(entry.id);
            }
        }
        Err(io::ErrorKind::NotFound.into())
    }

    /// Returns a new entry of this caller, without an id.
    pub(super) fn entry(&self, owner: &str, path: String, tool: &str, change: Change) -> Entry {
        Entry {
            id: String::new(),
            owner: owner.to_owned(),
            rights: self.rights.clone(),
            path,
            time: crate::time::now(),
            tool: tool.to_owned(),
            undoes: None,
            about: String::new(),
            change,
        }
    }

    /// Returns the changes of this caller that have no more rights than this server, the newest first.
    pub(super) fn list(&self, owner: &str) -> Vec<Entry> {
        let kept = self.prune().into_iter();
        kept.filter_map(|kept| kept.record.entry().ok())
            .filter(|entry| self.is_open_to(entry, owner))
            .collect()
    }

    /// Returns one of these changes.
    ///
    /// # Errors
    /// No change has that id, the change is another caller's, or its server had more rights. The error is the same for all
    /// three.
    pub(super) fn find(&self, id: &str, owner: &str) -> ToolResult<Kept> {
        let is_theirs = |kept: &Kept| {
            let entry = kept.record.entry();
            entry.is_ok_and(|entry| self.is_open_to(&entry, owner))
        };
        let mut kept = self.prune().into_iter();
        kept.find(|kept| kept.record.id == id)
            .filter(is_theirs)
            .ok_or_else(|| unknown(id))
    }

    fn is_open_to(&self, entry: &Entry, owner: &str) -> bool {
        let is_open = || self.rights.covers(&entry.rights) && self.rights.reach(&entry.path);
        entry.owner == owner && is_open()
    }

    /// Removes the logs that are not needed, because there are enough changes without them, or all changes in them are too
    /// old. Returns the remaining changes, the newest first.
    fn prune(&self) -> Vec<Kept> {
        let oldest = millis().saturating_sub(self.most_age.as_millis());
        let is_young = |record: &Record| made(&record.id).is_some_and(|made| made >= oldest);
        let mut logs = self.logs();
        for found in &mut logs {
            found.records.retain(is_young);
        }
        let (mut kept, old): (Vec<_>, Vec<_>) = logs
            .into_iter()
            .partition(|found| !found.records.is_empty());
        let mut doomed = old;
        while let Some(at) = self.too_many(&kept) {
            doomed.push(kept.swap_remove(at));
        }
        // Some logs stay, because their server is appending to them now.
        kept.extend(
            doomed
                .into_iter()
                .filter(|found| !log::remove(&found.path, found.size)),
        );
        let mut of_rights: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for found in kept {
            let path = found.path;
            let records = found.records.into_iter().map(|record| Kept {
                record,
                path: path.clone(),
            });
            of_rights.entry(found.rights).or_default().extend(records);
        }
        let newest_first = |one: &Kept, other: &Kept| other.record.id.cmp(&one.record.id);
        // Logs are removed whole, so there may be more changes than the limit.
        for kept in of_rights.values_mut() {
            kept.sort_unstable_by(newest_first);
            kept.truncate(self.most);
        }
        let mut kept: Vec<_> = of_rights.into_values().flatten().collect();
        kept.sort_unstable_by(newest_first);
        kept
    }

    /// Returns the log to remove next, if all logs hold too much: the oldest log of the rights that have most.
    fn too_many(&self, logs: &[LogFile]) -> Option<usize> {
        let records: usize = logs.iter().map(|found| found.records.len()).sum();
        let bytes: u64 = logs.iter().map(|found| found.size).sum();
        let is_large = bytes > self.most_bytes;
        let mut shares: BTreeMap<&str, (u64, usize)> = BTreeMap::new();
        for (at, found) in logs.iter().enumerate() {
            let (size, oldest) = shares.entry(&found.rights).or_insert((0, at));
            *size += match is_large {
                true => found.size,
                false => found.records.len() as u64,
            };
            if found.newest() < logs[*oldest].newest() {
                *oldest = at;
            }
        }
        let (_, oldest) = shares.into_values().max_by_key(|(size, _)| *size)?;
        let are_enough = records - logs[oldest].records.len() >= self.most;
        (is_large || are_enough).then_some(oldest)
    }

    /// Returns the logs of servers with no more rights than this one.
    fn logs(&self) -> Vec<LogFile> {
        let entries = dir::insist(&self.dir, || {
            // A folder whose names can be read may still forbid to open the files in it.
            fs::metadata(self.dir.join("."))?;
            fs::read_dir(&self.dir)
        });
        let entries = entries.into_iter().flatten().flatten();
        entries
            .filter_map(|entry| {
                let (size, path) = (entry.metadata().ok()?.size(), entry.path());
                let records = log::records(&path).unwrap_or_default();
                let first = records.first().and_then(|record| record.entry().ok());
                let rights = first.map(|entry| entry.rights);
                // A log without a record belongs to nobody.
                let is_open = rights.as_ref().is_none_or(|it| self.rights.covers(it));
                is_open.then(|| LogFile {
                    path,
                    size,
                    records,
                    rights: rights.as_ref().map(Rights::words).unwrap_or_default(),
                })
            })
            .collect()
    }
}

impl Kept {
    /// Returns how many bytes the change has.
    pub(super) fn size(&self) -> usize {
        self.record.length
    }

    /// Loads the whole change.
    ///
    /// # Errors
    /// The change was removed meanwhile.
    pub(super) fn load(self) -> ToolResult<Entry> {
        let gone = |_| unknown(&self.record.id);
        let mut entry = self.record.entry().map_err(gone)?;
        entry.change.bytes = self.record.bytes(&self.path).map_err(gone)?;
        Ok(entry)
    }
}

/// A log as it was found.
struct LogFile {
    path: PathBuf,
    size: u64,
    records: Vec<Record>,
    /// The rights of the server that wrote the log.
    rights: String,
}

impl LogFile {
    /// Returns the id of the change that was added last.
    fn newest(&self) -> &str {
        let last = self.records.last();
        last.map_or("", |record| record.id.as_str())
    }
}

fn unknown(id: &str) -> ToolError {
    ToolError::new(format!("there is no change `{id}`"))
        .hint("file_history without `undo` lists those there are")
}

/// Returns the time of a change, by its id.
fn made(id: &str) -> Option<u128> {
    u128::from_str_radix(id.get(..MILLIS_DIGITS)?, 16).ok()
}

/// Returns the milliseconds since 1970.
fn millis() -> u128 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |time| time.as_millis())
}

/// The number of digits of the time in the id of a change.
const MILLIS_DIGITS: usize = 11;
