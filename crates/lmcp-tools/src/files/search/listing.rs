//! What is in one folder, in the order of the search: files by name, then folders by name.

use std::{mem::MaybeUninit, ops::Range, os::fd::OwnedFd, sync::Arc};

use rustix::{
    fs::{AtFlags, FileType, RawDir},
    io::Errno,
};

use super::{
    cursor::Cursor,
    filter::Filter,
    rules::{self, Rules},
    tree::Tree,
};

/// A folder to be listed.
pub(super) struct Folder {
    /// Its path, with a `/` at the end unless it is empty.
    pub(super) path: Vec<u8>,
    /// The rules of those above it.
    pub(super) rules: Arc<Rules>,
    /// If the cursor points into this folder: how many of its names lead here.
    pub(super) on_cursor: Option<usize>,
}

/// What is in a folder.
pub(super) struct Listing {
    /// The folder's path, with a `/` at the end unless it is empty.
    pub(super) path: Vec<u8>,
    /// All names, one after the other.
    names: Vec<u8>,
    pub(super) files: Vec<Name>,
    /// In mode `names`: files whose names were looked at and do not fit.
    pub(super) unfit: u64,
    pub(super) folders: Vec<Name>,
    pub(super) rules: Arc<Rules>,
    /// If the first file is the cursor's: the line after which it goes on.
    pub(super) resume_after: Option<u64>,
    /// If the cursor points into the first folder: how many of its names lead there.
    pub(super) first_on_cursor: Option<usize>,
}

/// A name in [`Listing::names`].
#[derive(Clone, Copy)]
pub(super) struct Name {
    start: u32,
    length: u16,
}

/// All names of one folder together, in bytes. 64 MiB: some million files.
const NAMES_BYTES: usize = 64 * 1024 * 1024;
/// What the kernel is asked for at once, in bytes.
pub(super) const BUFFER_BYTES: usize = 32 * 1024;

impl Name {
    fn range(self) -> Range<usize> {
        let start = self.start as usize;
        start..start + usize::from(self.length)
    }
}

impl Listing {
    /// Lists a folder. `stopped` is looked at now and then; a list that was stopped says so.
    pub(super) fn read(
        folder: &Folder,
        open: &OwnedFd,
        buffer: &mut [MaybeUninit<u8>],
        stopped: impl Fn() -> bool,
    ) -> Result<(Self, bool), Errno> {
        let mut listing = Self {
            path: folder.path.clone(),
            names: Vec::new(),
            files: Vec::new(),
            unfit: 0,
            folders: Vec::new(),
            rules: folder.rules.clone(),
            resume_after: None,
            first_on_cursor: None,
        };
        let mut has_rules = false;
        let mut entries = RawDir::new(open, buffer);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            has_rules |= rules::is_rule(name);
            match kind(open, name, entry.file_type()) {
                FileType::RegularFile => listing.files.push(push(&mut listing.names, name)?),
                FileType::Directory => listing.folders.push(push(&mut listing.names, name)?),
                _ => {}
            }
            if entries.is_buffer_empty() && stopped() {
                break;
            }
        }
        Ok((listing, has_rules))
    }

    /// Leaves out what the search does not look at, and puts the rest in order.
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
    }

    pub(super) fn name(&self, name: Name) -> &[u8] {
        &self.names[name.range()]
    }

    /// Drops what comes before the cursor, whose name at `depth` is in this folder.
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

    /// Is the first name left the cursor's own?
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

/// File systems may leave it to us to find out what an entry is.
fn kind(folder: &OwnedFd, name: &[u8], told: FileType) -> FileType {
    if told != FileType::Unknown {
        return told;
    }
    let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
    stat.map_or(FileType::Unknown, |stat| {
        FileType::from_raw_mode(stat.st_mode)
    })
}

fn push(names: &mut Vec<u8>, name: &[u8]) -> Result<Name, Errno> {
    if names.len() + name.len() > NAMES_BYTES {
        return Err(Errno::TOOBIG);
    }
    let too_long = |_| Errno::NAMETOOLONG;
    let start = u32::try_from(names.len()).map_err(too_long)?;
    let length = u16::try_from(name.len()).map_err(too_long)?;
    names.extend_from_slice(name);
    Ok(Name { start, length })
}
