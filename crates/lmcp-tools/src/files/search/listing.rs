//! The entries of one folder, in the order of the search: files by name, then folders by name.

use std::{io, mem::MaybeUninit, ops::Range, os::fd::OwnedFd, sync::Arc};

use rustix::{
    fs::{AtFlags, FileType, RawDir},
    io::Errno,
};

use crate::files::{
    ignore::{Rules, is_rule},
    meter::{Charge, Meter},
};

use super::{cursor::Cursor, filter::Filter, tree::Tree};

/// A folder to be listed.
pub(super) enum Folder {
    /// The folder that is searched.
    Top {
        path: Vec<u8>,
        rules: Arc<Rules>,
        on_cursor: Option<usize>,
    },
    /// The folder with this number in another.
    Below { above: Arc<Listing>, number: usize },
}

/// The entries of a folder.
pub(super) struct Listing {
    /// The folder's path, with a `/` at the end unless it is empty.
    pub(super) path: Vec<u8>,
    /// All names, one after the other.
    names: Vec<u8>,
    pub(super) files: Vec<Name>,
    /// In mode `names`: the number of files whose names do not match.
    pub(super) unfit: u64,
    pub(super) folders: Vec<Name>,
    pub(super) rules: Arc<Rules>,
    /// If the first file is the cursor's: the line after which the search goes on.
    pub(super) resume_after: Option<u64>,
    /// If the cursor points into the first folder: how many of the cursor's names lead there.
    first_on_cursor: Option<usize>,
    /// The memory of the listing, and of the work that it makes.
    charge: Charge,
}

/// A name in [`Listing::names`].
#[derive(Clone, Copy)]
pub(super) struct Name {
    start: u32,
    length: u16,
}

/// The most bytes of all names of one folder. 64 MiB: some million files.
const NAMES_BYTES: usize = 64 * 1024 * 1024;
/// The bytes that a piece of work (a folder, or some files) takes while it waits.
const PIECE_BYTES: usize = 256;
/// The number of files in one piece of work: few enough to share the work of a folder, many enough that
/// threads rarely wait for the lock.
pub(super) const BATCH: usize = 32;
/// The bytes that the kernel returns at once.
pub(super) const BUFFER_BYTES: usize = 32 * 1024;

impl Name {
    fn range(self) -> Range<usize> {
        let start = self.start as usize;
        start..start + usize::from(self.length)
    }
}

impl Folder {
    /// Returns the folder's path, with a `/` at the end unless it is empty.
    pub(super) fn path(&self) -> Vec<u8> {
        match self {
            Self::Top { path, .. } => path.clone(),
            Self::Below { above, number } => {
                let name = above.name(above.folders[*number]);
                [&above.path, name, b"/"].concat()
            }
        }
    }

    /// Returns the rules of the folders above it.
    pub(super) fn rules(&self) -> &Arc<Rules> {
        match self {
            Self::Top { rules, .. } => rules,
            Self::Below { above, .. } => &above.rules,
        }
    }

    /// If the cursor points into this folder, returns how many of the cursor's names lead here.
    pub(super) fn on_cursor(&self) -> Option<usize> {
        match self {
            Self::Top { on_cursor, .. } => *on_cursor,
            Self::Below { above, number } => above.first_on_cursor.filter(|_| *number == 0),
        }
    }
}

impl Listing {
    /// Lists a folder, and returns whether the folder has ignore files. Calls `stopped` now and then, and
    /// ends early if that returns true.
    pub(super) fn read(
        folder: &Folder,
        open: &OwnedFd,
        buffer: &mut [MaybeUninit<u8>],
        meter: &Arc<Meter>,
        stopped: impl Fn() -> bool,
    ) -> io::Result<(Self, bool)> {
        let charge = meter.take(0).ok_or_else(no_room)?;
        let mut listing = Self {
            path: folder.path(),
            names: Vec::new(),
            files: Vec::new(),
            unfit: 0,
            folders: Vec::new(),
            rules: folder.rules().clone(),
            resume_after: None,
            first_on_cursor: None,
            charge,
        };
        let mut has_rules = false;
        let mut entries = RawDir::new(open, buffer);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            has_rules |= is_rule(name);
            match kind(open, name, entry.file_type()) {
                FileType::RegularFile => listing.files.push(push(&mut listing.names, name)?),
                FileType::Directory => listing.folders.push(push(&mut listing.names, name)?),
                _ => {}
            }
            if entries.is_buffer_empty() {
                if stopped() {
                    break;
                }
                // A list that grows may hold room for as much again.
                let weight = 2 * listing.weight();
                if !listing.charge.set(weight) {
                    return Err(no_room());
                }
            }
        }
        Ok((listing, has_rules))
    }

    fn weight(&self) -> usize {
        let pieces = self.files.len() / BATCH + self.folders.len();
        let names = (self.files.len() + self.folders.len()) * size_of::<Name>();
        self.path.len() + self.names.len() + names + pieces * PIECE_BYTES
    }

    /// Leaves out the entries that the search does not look at, and sorts the rest.
    pub(super) fn choose(
        &mut self,
        filter: &Filter,
        tree: &Tree,
        cursor: Option<(&Cursor, usize)>,
    ) {
        if let Some((cursor, depth)) = cursor {
            self.skip_before(cursor, depth);
        }
        let (names, rules) = (&self.names, &*self.rules);
        let mut path = self.path.clone();
        let folder = path.len();
        let mut whole = |name: Name, wanted: &dyn Fn(&[u8]) -> bool| {
            path.truncate(folder);
            path.extend_from_slice(&names[name.range()]);
            wanted(&path)
        };
        self.files
            .retain(|name| whole(*name, &|path| filter.wants(rules, path, tree.below(path))));
        let looked_at = self.files.len();
        self.files
            .retain(|name| whole(*name, &|path| filter.fits(tree.below(path))));
        self.unfit = (looked_at - self.files.len()) as u64;
        self.folders
            .retain(|name| whole(*name, &|path| filter.enters(rules, path, tree.below(path))));
        let by_name = |name: &Name| &names[name.range()];
        self.files
            .sort_unstable_by(|a, b| by_name(a).cmp(by_name(b)));
        self.folders
            .sort_unstable_by(|a, b| by_name(a).cmp(by_name(b)));
        if let Some((cursor, depth)) = cursor {
            self.mark_cursor(cursor, depth);
        }
        self.names.shrink_to_fit();
        self.files.shrink_to_fit();
        self.folders.shrink_to_fit();
        self.charge.set(self.weight());
    }

    pub(super) fn name(&self, name: Name) -> &[u8] {
        &self.names[name.range()]
    }

    /// Drops the entries before the cursor, whose name at `depth` is in this folder.
    fn skip_before(&mut self, cursor: &Cursor, depth: usize) {
        let names = &self.names;
        let mut rest = cursor.names().skip(depth);
        let Some(name) = rest.next() else { return };
        if rest.next().is_some() {
            // The cursor's file is deeper: all files here come before it.
            self.files.clear();
            self.folders.retain(|folder| &names[folder.range()] >= name);
        } else if cursor.after.line.is_some() {
            self.files.retain(|file| &names[file.range()] >= name);
        } else {
            self.files.retain(|file| &names[file.range()] > name);
        }
    }

    /// Notes whether the first remaining name is the cursor's own.
    fn mark_cursor(&mut self, cursor: &Cursor, depth: usize) {
        let mut rest = cursor.names().skip(depth);
        let Some(name) = rest.next() else { return };
        let is_first = |list: &[Name]| list.first().is_some_and(|first| self.name(*first) == name);
        if rest.next().is_some() {
            self.first_on_cursor = is_first(&self.folders).then_some(depth + 1);
        } else if is_first(&self.files) {
            self.resume_after = cursor.after.line;
        }
    }
}

/// Returns the type of an entry. Some file systems do not report it, so it is looked up.
fn kind(folder: &OwnedFd, name: &[u8], told: FileType) -> FileType {
    if told != FileType::Unknown {
        return told;
    }
    let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
    stat.map_or(FileType::Unknown, |stat| {
        FileType::from_raw_mode(stat.st_mode)
    })
}

fn no_room() -> io::Error {
    io::Error::other("its names take more memory than is free for this caller now")
}

fn push(names: &mut Vec<u8>, name: &[u8]) -> io::Result<Name> {
    if names.len() + name.len() > NAMES_BYTES {
        return Err(Errno::TOOBIG.into());
    }
    let too_long = |_| io::Error::from(Errno::NAMETOOLONG);
    let start = u32::try_from(names.len()).map_err(too_long)?;
    let length = u16::try_from(name.len()).map_err(too_long)?;
    names.extend_from_slice(name);
    Ok(Name { start, length })
}
