//! Where changes are kept: a file each, in a folder of the state folder, so that every server that uses it finds them.
//!
//! A change belongs to the caller that made it and to the rights of its server, as jobs do. It is written after the file,
//! and nothing waits for the disk: a crash may cost a change its undo, never its content.

use std::{
    fs::{self, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, SystemTime},
};

use lmcp_core::{ToolError, ToolResult};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use super::change::Change;
use crate::{
    process::{dir, rights::Rights, store::random_name},
    settings::Settings,
};

/// A change as it is kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Entry {
    /// Names it; later ones sort behind earlier ones.
    #[serde(skip)]
    pub(super) id: String,
    owner: String,
    rights: Rights,
    /// The file, free of links.
    pub(super) path: String,
    /// Seconds since 1970.
    pub(super) time: u64,
    /// The tool that made it.
    pub(super) tool: String,
    /// The change that it takes back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) undoes: Option<String>,
    /// What changed, in a line.
    pub(super) about: String,
    pub(super) change: Change,
}

/// What is kept, and how much of it.
#[derive(Debug)]
pub(crate) struct History {
    dir: PathBuf,
    rights: Rights,
    most: usize,
    most_bytes: u64,
    most_age: Duration,
    /// Changes since it was last made smaller.
    added: AtomicUsize,
}

impl History {
    /// A folder to keep changes in, if the settings name one; it is made with the first. Below a root tools would read what
    /// belongs to others.
    pub(crate) fn for_settings(
        settings: &Settings,
        roots: &[PathBuf],
        rights: &Rights,
    ) -> Option<Self> {
        let state = settings.state_dir.as_ref()?;
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let is_below = roots.iter().any(|root| real(state).starts_with(real(root)));
        if settings.read_only || is_below {
            return None;
        }
        Some(Self {
            dir: state.join("history"),
            rights: rights.clone(),
            most: settings.changes_kept,
            most_bytes: settings.change_bytes_kept,
            most_age: settings.jobs_kept_for,
            added: AtomicUsize::new(0),
        })
    }

    /// Is a change of this many bytes kept at all?
    pub(super) fn takes(&self, bytes: usize) -> bool {
        self.most > 0 && bytes as u64 <= self.most_bytes / 4
    }

    /// Keeps a change. One that cannot be kept is made all the same.
    pub(super) fn add(&self, mut entry: Entry) -> io::Result<String> {
        let random = random_name();
        let random = random.get(..6).unwrap_or(&random);
        let id = format!("{:0MILLIS_DIGITS$x}{random}", millis());
        entry.id.clone_from(&id);
        let mut bytes = serde_json::to_vec(&entry)?;
        bytes.push(b'\n');
        bytes.extend_from_slice(&entry.change.bytes);
        let path = self.dir.join(&id);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let open = || dir::insist(&self.dir, || options.open(&path));
        let mut file = match open() {
            Err(err) if err.kind() == io::ErrorKind::NotFound => {
                dir::create_private(&self.dir)?;
                open()?
            }
            opened => opened?,
        };
        file.write_all(&bytes)?;
        let added = self.added.fetch_add(1, Ordering::Relaxed);
        if added.is_multiple_of(PRUNE_EVERY) {
            self.prune();
        }
        Ok(id)
    }

    /// How many bytes a change has as it is kept, about.
    pub(super) fn size(&self, id: &str) -> usize {
        let is_name = id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let path = Some(id).filter(|_| is_name).map(|id| self.dir.join(id));
        let found = path.and_then(|path| fs::symlink_metadata(path).ok());
        found.map_or(0, |found| {
            usize::try_from(found.len()).unwrap_or(usize::MAX)
        })
    }

    /// A new entry of this caller, without an id.
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

    /// The changes of this caller that have no more rights than this server, the newest first.
    pub(super) fn list(&self, owner: &str) -> Vec<Entry> {
        let entries = self
            .prune()
            .into_iter()
            .filter_map(|(id, _)| self.read(&id, Part::Head).ok());
        entries
            .filter(|entry| self.is_open_to(entry, owner))
            .collect()
    }

    /// One of them, all of it.
    ///
    /// # Errors
    /// There is none of that id, it is somebody else's, or its server might do more: the three sound the same.
    pub(super) fn find(&self, id: &str, owner: &str) -> ToolResult<Entry> {
        let unknown = || {
            ToolError::new(format!("there is no change `{id}`"))
                .hint("file_history without `undo` lists those there are")
        };
        let is_id = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if !is_id {
            return Err(unknown());
        }
        let entry = self.read(id, Part::All).map_err(|_| unknown())?;
        if !self.is_open_to(&entry, owner) || !entry.change.is_whole() {
            return Err(unknown());
        }
        Ok(entry)
    }

    fn is_open_to(&self, entry: &Entry, owner: &str) -> bool {
        entry.owner == owner && self.rights.covers(&entry.rights)
    }

    fn read(&self, id: &str, part: Part) -> io::Result<Entry> {
        let path = self.dir.join(id);
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(flags);
        let file = dir::insist(&path, || options.open(&path))?;
        let most = match part {
            Part::Head => MOST_HEAD,
            Part::All => self.most_bytes,
        };
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes)?;
        let end = memchr::memchr(b'\n', &bytes).ok_or(io::ErrorKind::InvalidData)?;
        let mut entry: Entry = serde_json::from_slice(&bytes[..end])?;
        entry.id = id.to_owned();
        // A list of many must not hold what changed in each.
        if let Part::All = part {
            bytes.drain(..=end);
            entry.change.bytes = bytes;
        }
        Ok(entry)
    }

    /// Forgets the oldest, if there are too many or they are too old. What is left, the newest first.
    fn prune(&self) -> Vec<(String, u64)> {
        let mut names = self.names();
        names.sort_unstable_by(|one, other| other.0.cmp(&one.0));
        let (mut number, mut bytes) = (0, 0);
        let oldest = millis().saturating_sub(self.most_age.as_millis());
        names.retain(|(id, size)| {
            number += 1;
            bytes += size;
            let made = id.get(..MILLIS_DIGITS);
            let made = made.and_then(|digits| u128::from_str_radix(digits, 16).ok());
            let is_kept = number <= self.most
                && bytes <= self.most_bytes
                && made.is_some_and(|made| made >= oldest);
            if !is_kept {
                // Another server may have been quicker.
                let _ = fs::remove_file(self.dir.join(id));
            }
            is_kept
        });
        names
    }

    /// The ids of all changes, and their sizes.
    fn names(&self) -> Vec<(String, u64)> {
        let entries = dir::insist(&self.dir, || fs::read_dir(&self.dir))
            .into_iter()
            .flatten()
            .flatten();
        entries
            .filter_map(|entry| {
                let size = entry.metadata().ok()?.size();
                Some((entry.file_name().into_string().ok()?, size))
            })
            .collect()
    }
}

/// Since 1970.
fn millis() -> u128 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |time| time.as_millis())
}

#[derive(Clone, Copy)]
enum Part {
    Head,
    All,
}

/// Of the time at which a change was made, in its id.
const MILLIS_DIGITS: usize = 11;

/// Changes between two looks at how many there are.
const PRUNE_EVERY: usize = 16;

/// The longest line that says what a change is, rights included.
const MOST_HEAD: u64 = 128 << 10;
