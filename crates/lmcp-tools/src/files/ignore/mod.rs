//! The rules of ignore files, for every tool that walks through folders: they leave out what ripgrep leaves out, and a
//! little more.
//!
//! | file | where it counts |
//! |---|---|
//! | `.rgignore`, `.ignore` | everywhere, and in every folder below |
//! | `.gitignore`, `.git/info/exclude` | in the repository that the file is in. Outside of every repository a `.gitignore` counts if it lies in the folder that a call begins in, or below |
//!
//! For each path, the first kind in the table that has a rule for it decides, and of one kind the file nearest to the path.
//! The files of the folders above count, up to the root that a call is confined to. Every file is opened through open
//! directories, and none through a link.
//!
//! A project without `.git` (an unpacked archive, a root below the top of its repository) has its `.gitignore` all the same,
//! and models should not read its build folders. A `.gitignore` farther up is mostly about something else: many people keep
//! one in their home, which would hide whole projects.
//!
//! Two lists are not read: the user's own list of git (`core.excludesFile`), so that a call has the same result on every
//! host, and the list of a linked working tree (where `.git` is a file), which may be anywhere.

mod file;

use std::{
    fs::File,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

use ignore::Match;
use rustix::fs::{AtFlags, OFlags};

use super::{
    below::{open_below, open_here},
    meter::{Charge, Meter},
};
use crate::roots::HardLinks;

use file::{IgnoreFile, TOGETHER_BYTES};

/// The ignore files of a folder and of those above it.
#[derive(Default)]
pub(crate) struct Rules {
    parent: Option<Arc<Self>>,
    /// Paths in these files begin after this many bytes of the call's paths.
    skip: usize,
    /// One file per kind; see [`Kind`].
    files: Vec<(Kind, IgnoreFile)>,
    /// The memory of these files, with those of the folders above.
    weight: usize,
    _charge: Option<Charge>,
    /// Whether this folder is the top of a repository.
    is_repository: bool,
    /// Whether this folder is in a repository.
    in_repository: bool,
}

/// The kinds of ignore files. The first kind with a rule for a path decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Rg,
    Plain,
    Git,
    Exclude,
}

impl Kind {
    /// Returns whether a file of this kind counts in its repository alone.
    fn is_of_git(self) -> bool {
        matches!(self, Self::Git | Self::Exclude)
    }
}

/// Which ignore files may be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reach {
    /// Whether only files below a root may be read.
    pub(crate) confined: bool,
    /// Whether files below a root that have several names are read.
    pub(crate) hard_links: HardLinks,
}

/// The position of a folder relative to the one in which a call begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Above,
    /// The folder itself, or one in it.
    Walked,
}

/// The files of each kind, in the order in which they decide.
const KINDS: [(Kind, &str); 4] = [
    (Kind::Rg, ".rgignore"),
    (Kind::Plain, ".ignore"),
    (Kind::Git, ".gitignore"),
    (Kind::Exclude, ".git/info/exclude"),
];

/// Returns whether an entry of this name gives a folder rules of its own.
pub(crate) fn is_rule(name: &[u8]) -> bool {
    matches!(name, b".git" | b".gitignore" | b".ignore" | b".rgignore")
}

/// Returns whether this is the name of a folder for files of version control. These are no files of the project.
pub(crate) fn is_version_control(name: &[u8]) -> bool {
    matches!(name, b".git" | b".hg" | b".jj" | b".svn")
}

impl Rules {
    /// Returns the rules of all folders above `above` from `top` on, without those of `above` itself.
    pub(crate) fn above(
        top: &OwnedFd,
        above: &[u8],
        reach: Reach,
        meter: &Arc<Meter>,
    ) -> Arc<Self> {
        let mut rules = Arc::default();
        let mut skip = 0;
        while skip < above.len() {
            let path = match &above[..skip] {
                [] => b".",
                [path @ .., _] => path,
            };
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            if let Ok(folder) = open_below(top.as_fd(), path, flags, reach.confined) {
                let folder = folder.as_fd();
                rules = Self::read(&rules, folder, skip, reach, meter, Place::Above);
            }
            let name = above[skip..].iter().position(|byte| *byte == b'/');
            skip += name.map_or(above.len(), |end| end + 1);
        }
        rules
    }

    /// Returns the rules in a folder whose path has `skip` bytes, below `parent`: the folder in which a call begins, or one
    /// in it.
    pub(crate) fn enter(
        parent: &Arc<Self>,
        folder: BorrowedFd<'_>,
        skip: usize,
        reach: Reach,
        meter: &Arc<Meter>,
    ) -> Arc<Self> {
        Self::read(parent, folder, skip, reach, meter, Place::Walked)
    }

    fn read(
        parent: &Arc<Self>,
        folder: BorrowedFd<'_>,
        skip: usize,
        reach: Reach,
        meter: &Arc<Meter>,
        place: Place,
    ) -> Arc<Self> {
        let is_repository = rustix::fs::statat(folder, ".git", AtFlags::SYMLINK_NOFOLLOW).is_ok();
        let in_repository = is_repository || parent.in_repository;
        let mut weight = parent.weight;
        let mut charge = meter.take(0);
        let mut files = Vec::new();
        for (kind, name) in KINDS {
            if kind.is_of_git() && !in_repository && place == Place::Above {
                continue;
            }
            let left = TOGETHER_BYTES.saturating_sub(weight);
            let Some(file) = load(folder, name, reach, left) else {
                continue;
            };
            weight += file.weight();
            let fits = charge
                .as_mut()
                .is_some_and(|charge| charge.set(weight - parent.weight));
            if file.is_cut() || !fits {
                meter.leave_out_rules();
            }
            if fits {
                files.push((kind, file));
            }
        }
        if files.is_empty() && !is_repository {
            return parent.clone();
        }
        Arc::new(Self {
            skip,
            files,
            weight,
            _charge: charge,
            is_repository,
            in_repository,
            parent: Some(parent.clone()),
        })
    }

    /// Returns the decision about a path: leave it out, include it in any case, or none.
    pub(crate) fn verdict(&self, path: &[u8], is_folder: bool) -> Match<()> {
        let mut verdicts = [const { Match::None }; KINDS.len()];
        let mut left_repository = false;
        let mut next = Some(self);
        while let Some(rules) = next {
            for (kind, file) in &rules.files {
                let counts = !(kind.is_of_git() && left_repository);
                let verdict = &mut verdicts[*kind as usize];
                if counts && verdict.is_none() {
                    *verdict = file.verdict(&path[rules.skip..], is_folder);
                }
            }
            left_repository |= rules.is_repository;
            next = rules.parent.as_deref();
        }
        let said = verdicts.into_iter().find(|verdict| !verdict.is_none());
        said.unwrap_or(Match::None)
    }
}

/// Reads an ignore file, as far as it takes no more than so many bytes. A file with another name may lie outside of the
/// root: as with other files, it is not read below a root.
fn load(folder: BorrowedFd<'_>, name: &str, reach: Reach, most: usize) -> Option<IgnoreFile> {
    let file = if name.contains('/') {
        open_below(folder, name.as_bytes(), OFlags::RDONLY, reach.confined).map(Into::into)
    } else {
        open_here(folder, name.as_bytes())
    };
    let file: File = file.ok()?;
    let stat = rustix::fs::fstat(&file).ok()?;
    if reach.confined && reach.hard_links == HardLinks::Refuse && stat.st_nlink > 1 {
        return None;
    }
    IgnoreFile::read(&file, most)
}
