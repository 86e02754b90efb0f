//! The rules of ignore files, for every tool that walks through folders: what ripgrep leaves out, and a
//! little more.
//!
//! | file | where it counts |
//! |---|---|
//! | `.rgignore`, `.ignore` | everywhere, and in every folder below |
//! | `.gitignore`, `.git/info/exclude` | in the repository that the file is in. Outside of every repository a `.gitignore` counts if it lies in the folder that a call begins in, or below |
//!
//! The first kind in the table that has a rule for a path decides, and of one kind the file nearest to the path. The files
//! of the folders above count, up to the root that a call is confined to. Every file is opened through open directories, and
//! none through a link.
//!
//! A project without `.git` (an unpacked archive, a root below the top of its repository) has its `.gitignore` all the same,
//! and models are not to read its build folders. A `.gitignore` farther up is mostly about something else: many people keep one in
//! their home, which would hide whole projects.
//!
//! Not read: the user's own list of git (`core.excludesFile`), so that a call gives the same on every host, and the list of
//! a linked working tree (where `.git` is a file), which may be anywhere.

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
    /// One per kind; see [`Kind`].
    files: Vec<(Kind, IgnoreFile)>,
    /// What these files take in memory, with those of the folders above.
    weight: usize,
    _charge: Option<Charge>,
    /// Is this folder the top of a repository?
    is_repository: bool,
    /// Is this folder in a repository?
    in_repository: bool,
}

/// The kinds of ignore files. The first that says something about a path decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Rg,
    Plain,
    Git,
    Exclude,
}

impl Kind {
    /// Does a file of this kind count in its repository alone?
    fn is_of_git(self) -> bool {
        matches!(self, Self::Git | Self::Exclude)
    }
}

/// Which ignore files may be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reach {
    /// Only those below a root.
    pub(crate) confined: bool,
    /// What to do there with those that have several names.
    pub(crate) hard_links: HardLinks,
}

/// Where a folder lies, seen from the one that a call begins in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Above,
    /// It is that folder, or one in it.
    Walked,
}

/// The files of each kind, in the order in which they decide.
const KINDS: [(Kind, &str); 4] = [
    (Kind::Rg, ".rgignore"),
    (Kind::Plain, ".ignore"),
    (Kind::Git, ".gitignore"),
    (Kind::Exclude, ".git/info/exclude"),
];

/// Does a folder have rules of its own, if it has an entry of this name?
pub(crate) fn is_rule(name: &[u8]) -> bool {
    matches!(name, b".git" | b".gitignore" | b".ignore" | b".rgignore")
}

/// Is this the name of a folder where version control keeps its own files? They are no files of the project.
pub(crate) fn is_version_control(name: &[u8]) -> bool {
    matches!(name, b".git" | b".hg" | b".jj" | b".svn")
}

impl Rules {
    /// The rules of all folders above `above` from `top` on, and not of `above` itself.
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

    /// The rules in a folder whose path has `skip` bytes, below `parent`: the one that a call begins in, or one in it.
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

    /// What the rules say about a path: leave it out, take it in any case, or nothing.
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

/// Reads an ignore file, as far as it takes no more than so many bytes. One with another name may be a file from outside of
/// the root: as with other files, such a one is not read there.
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
