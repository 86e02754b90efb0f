//! The walk: folder by folder through open descriptors, in order, until the page is full.
//!
//! Of each folder only as many entries are kept as the page can still take, so a million of them cost no memory. A name
//! is looked up in the folder it was found in and no link is followed, so nobody can lead the walk astray.

use std::{
    collections::BinaryHeap,
    ffi::CString,
    os::fd::{BorrowedFd, OwnedFd},
};

use lmcp_core::Cx;
use rustix::{
    fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat},
    io::Errno,
};

use crate::{room::Room, time::rfc3339};

use super::{
    Entry, EntryType, Sort,
    cursor::{Step, Trail},
    reason,
    rules::Rules,
};

/// A walk, and what it has found.
pub(super) struct Walk<'a> {
    cx: &'a Cx,
    sort: Sort,
    depth: u32,
    room: Room,
    limit: usize,
    /// Also what begins with a dot.
    pub(super) hidden: bool,
    /// What is left out.
    pub(super) rules: Option<Rules>,
    pub(super) found: Vec<Entry>,
    /// The way to the last entry found.
    pub(super) last: Trail,
    /// Did something not fit?
    pub(super) more: bool,
    /// Did the rules leave something out?
    pub(super) left_out: bool,
    /// Where the walk is.
    here: Vec<Step>,
}

/// An entry of the folder at hand.
struct Child {
    step: Step,
    kind: FileType,
    /// Known where the order needed it.
    stat: Option<Box<Stat>>,
}

/// Those of a folder that come first.
struct Children {
    first: Vec<Child>,
    /// Did the page have room for all of them?
    are_all: bool,
}

impl<'a> Walk<'a> {
    pub(super) fn new(cx: &'a Cx, sort: Sort, depth: u32, room: Room, limit: usize) -> Self {
        let most = room.lines.min(room.bytes / LEAST_COST);
        Self {
            cx,
            sort,
            depth,
            room,
            limit: limit.min(most).max(1),
            hidden: false,
            rules: None,
            found: Vec::new(),
            last: Trail::default(),
            more: false,
            left_out: false,
            here: Vec::new(),
        }
    }

    /// Lists a folder and what is below it, from behind the end of the trail on.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub(super) fn folder(&mut self, dir: OwnedFd, trail: &Trail) -> Result<(), Errno> {
        self.enter(dir, &trail.steps)
    }

    fn enter(&mut self, dir: OwnedFd, trail: &[Step]) -> Result<(), Errno> {
        let mut dir = Dir::new(dir)?;
        let path = self.path();
        if let Some(rules) = &mut self.rules {
            rules.enter(dir.fd()?, &path);
        }
        let children = self.children(&mut dir, &path, trail.first());
        let result = children.map(|children| self.show(&dir, children, trail));
        if let Some(rules) = &mut self.rules {
            rules.leave();
        }
        result
    }

    fn show(&mut self, dir: &Dir, children: Children, trail: &[Step]) {
        let last = children.first.last().map(|child| child.step.clone());
        for child in children.first {
            if self.more || self.cx.is_cancelled() {
                return;
            }
            self.child(dir, child, trail);
        }
        if !children.are_all && !self.more {
            // Some of them have gone, so the page has room for those that were not kept: they come with the next one.
            self.more = true;
            if self.found.is_empty() {
                self.last.steps = self.here.iter().cloned().chain(last).collect();
            }
        }
    }

    /// Shows an entry and what is in it. Those on the trail were shown before.
    fn child(&mut self, dir: &Dir, child: Child, trail: &[Step]) {
        let Ok(dir) = dir.fd() else { return };
        let mut kind = child.kind;
        let is_known = trail.first() == Some(&child.step);
        let name = CString::new(child.step.name.clone()).unwrap_or_default();
        self.here.push(child.step);
        if !is_known {
            match self.entry(dir, &name, child.kind, child.stat) {
                Some(found) => kind = found,
                // It is gone, or the page is full.
                None => kind = FileType::Unknown,
            }
        }
        if kind == FileType::Directory && !self.more && self.may_enter(&name) {
            let rest = if is_known { &trail[1..] } else { &[] };
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let entered = rustix::fs::openat(dir, &name, flags, Mode::empty())
                .and_then(|child| self.enter(child, rest));
            if let (Err(err), false) = (entered, is_known) {
                self.mark(err);
            }
        }
        self.here.pop();
    }

    /// Adds the entry at hand to the page if it fits, and says what it is.
    fn entry(
        &mut self,
        dir: BorrowedFd<'_>,
        name: &CString,
        kind: FileType,
        stat: Option<Box<Stat>>,
    ) -> Option<FileType> {
        if self.found.len() >= self.limit {
            self.more = true;
            return None;
        }
        let stat = match stat {
            Some(stat) => Ok(*stat),
            None => rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW),
        };
        if matches!(stat, Err(Errno::NOENT)) {
            return None;
        }
        let path = self.path();
        let shown = String::from_utf8_lossy(&path);
        let mut entry = Entry {
            lossy_name: matches!(shown, std::borrow::Cow::Owned(_)),
            path: shown.into_owned(),
            r#type: entry_type(kind),
            size_bytes: None,
            mtime: None,
            mode: None,
            target: None,
            error: None,
        };
        let kind = match stat {
            Ok(stat) => entry.know(&stat),
            Err(err) => {
                entry.error = Some(reason(err));
                kind
            }
        };
        if kind == FileType::Symlink {
            let target = rustix::fs::readlinkat(dir, name, Vec::new());
            entry.target = target
                .ok()
                .map(|target| target.to_string_lossy().into_owned());
        }
        let cost = entry.cost(&self.room);
        if cost > self.room.bytes && !self.found.is_empty() {
            self.more = true;
            return None;
        }
        self.room.bytes = self.room.bytes.saturating_sub(cost);
        self.found.push(entry);
        self.last.steps.clone_from(&self.here);
        Some(kind)
    }

    /// The entries of a folder that the page can take, in order, from the trail on.
    fn children(
        &mut self,
        dir: &mut Dir,
        path: &[u8],
        from: Option<&Step>,
    ) -> Result<Children, Errno> {
        // One more shows that there is more, and one may be the folder on the trail.
        let most = self.limit - self.found.len() + 2;
        let mut first = BinaryHeap::new();
        let mut are_all = true;
        while let Some(entry) = dir.read() {
            let entry = entry?;
            if self.cx.is_cancelled() {
                break;
            }
            let name = entry.file_name().to_bytes();
            let is_hidden = name.starts_with(b".");
            if matches!(name, b"." | b"..") || (is_hidden && !self.hidden) {
                continue;
            }
            let Some(child) = self.look(dir.fd()?, name, entry.file_type()) else {
                continue;
            };
            let is_past = from.is_some_and(|from| child.step < *from);
            if is_past {
                continue;
            }
            if self.is_ignored(path, &child) {
                self.left_out = true;
                continue;
            }
            first.push(child);
            if first.len() > most {
                first.pop();
                are_all = false;
            }
        }
        let first = first.into_sorted_vec();
        Ok(Children { first, are_all })
    }

    /// What must be known of an entry to put it in order.
    fn look(&self, dir: BorrowedFd<'_>, name: &[u8], kind: FileType) -> Option<Child> {
        let mut child = Child {
            step: Step {
                rank: 0,
                name: name.into(),
            },
            kind,
            stat: None,
        };
        if self.sort == Sort::Name && kind != FileType::Unknown {
            return Some(child);
        }
        match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => {
                child.kind = FileType::from_raw_mode(stat.st_mode);
                child.step.rank = rank(&stat, self.sort);
                child.stat = Some(Box::new(stat));
            }
            Err(Errno::NOENT) => return None,
            // Shown with the reason, later.
            Err(_) => {}
        }
        Some(child)
    }

    fn is_ignored(&self, folder: &[u8], child: &Child) -> bool {
        let Some(rules) = &self.rules else {
            return false;
        };
        let mut path = folder.to_vec();
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend(&child.step.name);
        rules.ignore(&path, child.kind == FileType::Directory)
    }

    /// The repository's own files are of no interest to who wants ignored ones left out.
    fn may_enter(&self, name: &CString) -> bool {
        let is_repository = self.rules.is_some() && name.as_bytes() == b".git";
        self.here.len() < self.depth as usize && !is_repository
    }

    fn mark(&mut self, err: Errno) {
        let path = self.path();
        let shown = String::from_utf8_lossy(&path);
        let entry = self.found.iter_mut().rfind(|entry| entry.path == shown);
        if let Some(entry) = entry {
            let reason = reason(err);
            self.room.bytes = self.room.bytes.saturating_sub(reason.len() + 12);
            entry.error = Some(reason);
        }
    }

    fn path(&self) -> Vec<u8> {
        let names: Vec<_> = self.here.iter().map(|step| step.name.as_slice()).collect();
        names.join(&b'/')
    }
}

impl Entry {
    /// Takes over what is known.
    fn know(&mut self, stat: &Stat) -> FileType {
        let kind = FileType::from_raw_mode(stat.st_mode);
        self.r#type = entry_type(kind);
        if kind == FileType::RegularFile {
            self.size_bytes = u64::try_from(stat.st_size).ok();
        }
        self.mtime = Some(rfc3339(stat.st_mtime, 0));
        self.mode = Some(format!("{:04o}", stat.st_mode & 0o7777));
        kind
    }
}

/// Largest first, newest first.
fn rank(stat: &Stat, sort: Sort) -> i128 {
    match sort {
        Sort::Name => 0,
        Sort::Size => -i128::from(stat.st_size),
        Sort::Mtime => {
            -(i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec))
        }
    }
}

fn entry_type(kind: FileType) -> EntryType {
    match kind {
        FileType::RegularFile => EntryType::File,
        FileType::Directory => EntryType::Dir,
        FileType::Symlink => EntryType::Link,
        FileType::Fifo => EntryType::Fifo,
        FileType::Socket => EntryType::Socket,
        FileType::CharacterDevice | FileType::BlockDevice => EntryType::Device,
        FileType::Unknown => EntryType::Unknown,
    }
}

impl PartialEq for Child {
    fn eq(&self, other: &Self) -> bool {
        self.step == other.step
    }
}

impl Eq for Child {}

impl Ord for Child {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.step.cmp(&other.step)
    }
}

impl PartialOrd for Child {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// No entry takes less of the room: its time alone is twenty characters.
const LEAST_COST: usize = 32;
