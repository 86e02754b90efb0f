//! A log of changes, to which one server appends. A record is a line of JSON, which says how many bytes follow it, and those
//! bytes.
//!
//! Making a file costs as much as ten writes to one, so a change has no file of its own. Any server may remove a log that is
//! no longer needed. So a server that appends to its own log checks that the log still has a name, under a lock that the
//! remover takes too. No server waits for the lock: one that cannot get it leaves the log as it is.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::Path,
};

use rustix::{
    fs::{FlockOperation, OFlags, flock},
    io::Errno,
};
use serde::Deserialize;

use super::store::Entry;
use crate::process::dir;

/// A log that a server appends to.
#[derive(Debug)]
pub(super) struct Log {
    file: File,
    pub(super) records: usize,
    pub(super) bytes: u64,
}

/// A record as it was found: the parts that are needed to count it, and the rest unread.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) id: String,
    /// The line of JSON.
    head: Vec<u8>,
    /// The position of its bytes, and how many there are.
    at: u64,
    pub(super) length: usize,
}

/// The part that is read of each record. Skipping the rest is many times as fast.
#[derive(Deserialize)]
struct Brief {
    #[serde(default)]
    id: String,
    change: Lengths,
}

#[derive(Deserialize)]
struct Lengths {
    lengths: [usize; 4],
}

/// The result of adding a record.
pub(super) enum Added {
    Done,
    /// The log was removed, or is being removed, and does not hold the record.
    Gone,
}

impl Log {
    /// Creates a log, in a private folder that is made if it does not exist.
    pub(super) fn create(folder: &Path, name: &str) -> io::Result<Self> {
        let path = folder.join(name);
        let mut options = OpenOptions::new();
        options.append(true).create_new(true).mode(0o600);
        let open = || dir::insist(folder, || options.open(&path));
        let file = match open() {
            Err(err) if err.kind() == io::ErrorKind::NotFound => {
                dir::create_private(folder)?;
                open()?
            }
            opened => opened?,
        };
        Ok(Self {
            file,
            records: 0,
            bytes: 0,
        })
    }

    /// Adds a record, all of it or nothing.
    pub(super) fn add(&mut self, record: &[u8]) -> io::Result<Added> {
        if !lock(&self.file) {
            return Ok(Added::Gone);
        }
        let added = self.add_locked(record);
        // If this fails, the lock is released when the file is closed.
        let _ = flock(&self.file, FlockOperation::Unlock);
        added
    }

    fn add_locked(&mut self, record: &[u8]) -> io::Result<Added> {
        let before = self.file.metadata()?;
        if before.nlink() == 0 {
            return Ok(Added::Gone);
        }
        if let Err(err) = self.file.write_all(record) {
            // A part of a record would hide all later ones. The caller begins another log anyway.
            let _ = self.file.set_len(before.size());
            return Err(err);
        }
        self.records += 1;
        self.bytes = before.size() + record.len() as u64;
        Ok(Added::Done)
    }
}

/// Returns the records of a log, in order, without one that is incomplete or just being added.
pub(super) fn records(path: &Path) -> io::Result<Vec<Record>> {
    let mut reader = BufReader::new(open(path)?);
    let (mut records, mut at) = (Vec::new(), 0);
    let size = reader.get_ref().metadata()?.size();
    loop {
        let mut head = Vec::new();
        let length = reader
            .by_ref()
            .take(MOST_HEAD)
            .read_until(b'\n', &mut head)?;
        let Some(b'\n') = head.pop() else { break };
        let Ok(brief) = serde_json::from_slice::<Brief>(&head) else {
            break;
        };
        at += length as u64;
        let length = brief
            .change
            .lengths
            .into_iter()
            .fold(0, usize::saturating_add);
        if at.saturating_add(length as u64) > size {
            break;
        }
        let id = match brief.id {
            // In older logs, which hold one change each, the name of the log is the id.
            id if id.is_empty() => path.file_name().unwrap_or_default().display().to_string(),
            id => id,
        };
        records.push(Record {
            id,
            head,
            at,
            length,
        });
        at += length as u64;
        reader.seek_relative(i64::try_from(length).map_err(io::Error::other)?)?;
    }
    Ok(records)
}

impl Record {
    /// Returns the change, without its bytes.
    pub(super) fn entry(&self) -> io::Result<Entry> {
        let mut entry: Entry = serde_json::from_slice(&self.head)?;
        entry.id.clone_from(&self.id);
        Ok(entry)
    }

    /// Reads the bytes of the record from its log.
    pub(super) fn bytes(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; self.length];
        open(path)?.read_exact_at(&mut bytes, self.at)?;
        Ok(bytes)
    }
}

/// Removes a log, if it still has this size. Returns `false` if the log stays.
pub(super) fn remove(path: &Path, size: u64) -> bool {
    let Ok(file) = open(path) else {
        // Another server may have been quicker. A file that cannot be opened is no log of this user.
        return fs::remove_file(path).is_ok();
    };
    let is_same = || file.metadata().is_ok_and(|found| found.size() == size);
    lock(&file) && is_same() && fs::remove_file(path).is_ok()
}

fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags);
    dir::insist(path, || options.open(path))
}

/// Locks a log without waiting. A file system without locks has one server, or loses an undo now and then.
fn lock(file: &File) -> bool {
    let locked = flock(file, FlockOperation::NonBlockingLockExclusive);
    !matches!(locked, Err(Errno::WOULDBLOCK))
}

/// The longest line of a record, rights included.
const MOST_HEAD: u64 = 128 << 10;
