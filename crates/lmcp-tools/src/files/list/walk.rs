//! The walk: folder by folder through open descriptors, in order, until the page is full.
//!
//! Of each folder only as many entries are kept as the page can still take, so a million of them cost no memory. Each
//! name is looked up in the folder in which it was found, and no link is followed, so nobody can lead the walk elsewhere.

use std::{
    collections::BinaryHeap,
    ffi::CString,
    os::fd::{BorrowedFd, OwnedFd},
    sync::Arc,
};

use ignore::Match;
use lmcp_core::{Cx, ToolResult};
use rustix::{
    fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat},
    io::Errno,
};

use crate::{
    files::{
        below::folders_above,
        ignore::{Reach, Rules, is_version_control},
        meter::Meter,
    },
    room::Room,
    roots::{HardLinks, Place},
    time::rfc3339,
};

use super::{
    Entry, EntryType, Sort,
    cursor::{Step, Trail},
    reason,
};

/// A walk, and its entries.
pub(super) struct Walk<'a> {
    cx: &'a Cx,
    sort: Sort,
    depth: u32,
    room: Room,
    limit: usize,
    /// Whether names that begin with a dot are included.
    pub(super) hidden: bool,
    /// The rules of ignore files, if they count.
    ignore: Option<Ignore>,
    pub(super) found: Vec<Entry>,
    /// The path to the last entry found.
    pub(super) last: Trail,
    /// Whether something did not fit.
    pub(super) more: bool,
    /// Whether the rules left something out.
    pub(super) left_out: bool,
    /// The folder in which the walk is.
    here: Vec<Step>,
}

/// The rules of ignore files that count where the walk is.
struct Ignore {
    rules: Arc<Rules>,
    /// The path from the topmost folder whose rules count to the folder where the walk is, with a slash at its end.
    folder: Vec<u8>,
    reach: Reach,
    meter: Arc<Meter>,
}

/// An entry of the current folder.
struct Child {
    step: Step,
    kind: FileType,
    /// Known if the order needed it.
    stat: Option<Box<Stat>>,
}

/// The entries of a folder that come first.
struct Children {
    first: Vec<Child>,
    /// Whether the page had room for all of them.
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
            ignore: None,
            found: Vec::new(),
            last: Trail::default(),
            more: false,
            left_out: false,
            here: Vec::new(),
        }
    }

    /// Leaves out entries by the rules of ignore files: those of the listed folder, of the folders in it, and of those
    /// above.
    ///
    /// # Errors
    /// As for [`Meter::of`].
    pub(super) fn heed(
        &mut self,
        place: &Place<'_>,
        dir: &OwnedFd,
        hard_links: HardLinks,
    ) -> ToolResult<()> {
        let mut ignore = Ignore {
            rules: Arc::default(),
            folder: Vec::new(),
            reach: Reach {
                confined: place.is_confined(),
                hard_links,
            },
            meter: Meter::of(self.cx, FEW_RULES_BYTES)?,
        };
        if let Some((top, above)) = folders_above(place, dir) {
            ignore.rules = Rules::above(&top, &above, ignore.reach, &ignore.meter);
            ignore.folder = above;
        }
        self.ignore = Some(ignore);
        Ok(())
    }

    /// Returns whether ignore files have more rules than can be used.
    pub(super) fn rules_cut(&self) -> bool {
        let ignore = self.ignore.as_ref();
        ignore.is_some_and(|ignore| ignore.meter.has_left_out_rules())
    }

    /// Lists a folder and the folders below it, beginning after the end of the trail.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub(super) fn folder(&mut self, dir: OwnedFd, trail: &Trail) -> Result<(), Errno> {
        self.enter(dir, &trail.steps)
    }

    fn enter(&mut self, dir: OwnedFd, trail: &[Step]) -> Result<(), Errno> {
        let mut dir = Dir::new(dir)?;
        let fd = dir.fd()?;
        let name = self.here.last().map(|step| step.name.as_slice());
        let ignore = self.ignore.as_mut();
        let outside = ignore.map(|ignore| ignore.enter(fd, name));
        let children = self.children(&mut dir, trail.first());
        let result = children.map(|children| self.show(&dir, children, trail));
        if let (Some(ignore), Some(outside)) = (&mut self.ignore, outside) {
            (ignore.rules, ignore.folder) = outside;
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
            // Some of the entries have gone, so the page has room for entries that were not kept: they come with the next
            // page.
            self.more = true;
            if self.found.is_empty() {
                self.last.steps = self.here.iter().cloned().chain(last).collect();
            }
        }
    }

    /// Shows an entry and its content. Entries on the trail were shown before.
    fn child(&mut self, dir: &Dir, child: Child, trail: &[Step]) {
        let Ok(dir) = dir.fd() else { return };
        let mut kind = child.kind;
        let is_known = trail.first() == Some(&child.step);
        let name = CString::new(child.step.name.clone()).unwrap_or_default();
        self.here.push(child.step);
        if !is_known {
            match self.entry(dir, &name, child.kind, child.stat) {
                Some(found) => kind = found,
                // The entry is gone, or the page is full.
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

    /// Adds the current entry to the page if it fits, and returns its type.
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

    /// Returns the entries of a folder that the page can take, in order, from the trail on.
    fn children(&mut self, dir: &mut Dir, from: Option<&Step>) -> Result<Children, Errno> {
        // One entry more shows that there is more, and one may be the folder on the trail.
        let most = self.limit - self.found.len() + 2;
        let mut first = BinaryHeap::new();
        let mut are_all = true;
        while let Some(entry) = dir.read() {
            let entry = entry?;
            if self.cx.is_cancelled() {
                break;
            }
            let name = entry.file_name().to_bytes();
            let is_hidden = name.starts_with(b".") && !self.hidden;
            if matches!(name, b"." | b"..") || (is_hidden && self.ignore.is_none()) {
                continue;
            }
            let Some(child) = self.look(dir.fd()?, name, entry.file_type()) else {
                continue;
            };
            let is_past = from.is_some_and(|from| child.step < *from);
            if is_past {
                continue;
            }
            let ignore = self.ignore.as_ref();
            match ignore.map_or(Match::None, |ignore| ignore.verdict(&child)) {
                // As in ripgrep, a rule that includes a path again also includes hidden names.
                Match::None if is_hidden => continue,
                Match::Ignore(()) => {
                    self.left_out |= !is_hidden;
                    continue;
                }
                Match::None | Match::Whitelist(()) => {}
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

    /// Returns an entry with the facts that its order needs.
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
            // The entry is shown with the reason, later.
            Err(_) => {}
        }
        Some(child)
    }

    /// Returns whether the walk enters a folder. A caller that wants ignored files left out has no use for those of
    /// version control.
    fn may_enter(&self, name: &CString) -> bool {
        let is_left_out = self.ignore.is_some() && is_version_control(name.as_bytes());
        self.here.len() < self.depth as usize && !is_left_out
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

impl Ignore {
    /// Enters a folder in the current one, or without a name the listed folder itself. Returns the rules and the path
    /// that count outside of it.
    fn enter(&mut self, dir: BorrowedFd<'_>, name: Option<&[u8]>) -> (Arc<Rules>, Vec<u8>) {
        let outside = (self.rules.clone(), self.folder.clone());
        if let Some(name) = name {
            self.folder.extend(name);
            self.folder.push(b'/');
        }
        let skip = self.folder.len();
        self.rules = Rules::enter(&self.rules, dir, skip, self.reach, &self.meter);
        outside
    }

    /// Returns whether the rules leave out an entry of the current folder, or include it in any case.
    fn verdict(&self, child: &Child) -> Match<()> {
        let path = [&self.folder, child.step.name.as_slice()].concat();
        let is_folder = child.kind == FileType::Directory;
        self.rules.verdict(&path, is_folder)
    }
}

impl Entry {
    /// Fills in the facts from `stat`, and returns the type.
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

/// Returns the sort key: largest first, newest first.
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

/// Rules that take no more bytes than this need no reservation.
const FEW_RULES_BYTES: usize = 128 * 1024;

/// The least room that an entry takes: its time alone has twenty characters.
const LEAST_COST: usize = 32;
