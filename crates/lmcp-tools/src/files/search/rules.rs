//! What `.gitignore`, `.ignore` and `.rgignore` leave out, by the rules of git and ripgrep.
//!
//! Ignore files are read through open directories like everything else. Not looked at: the user's own list of git
//! (`core.excludesFile`), so that a search gives the same on every host.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

use ignore::Match;
use rustix::fs::{AtFlags, OFlags};

use crate::files::ignore_file::{IgnoreFile, TOGETHER_BYTES};

use super::{
    meter::{Charge, Meter},
    tree::{open_below, open_here},
};

/// The ignore files of a folder and of those above it.
#[derive(Default)]
pub(super) struct Rules {
    parent: Option<Arc<Self>>,
    /// Paths in these files begin after this many bytes of the search's paths.
    skip: usize,
    /// One per kind; see [`Kind`].
    files: Vec<(Kind, IgnoreFile)>,
    /// What these files take in memory, with those of the folders above.
    weight: usize,
    _charge: Option<Charge>,
    /// Is this folder the top of a repository?
    is_repository: bool,
    /// Is this folder in a repository? Only there git's files count.
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

/// The files of each kind, in the order in which they decide.
const KINDS: [(Kind, &str); 4] = [
    (Kind::Rg, ".rgignore"),
    (Kind::Plain, ".ignore"),
    (Kind::Git, ".gitignore"),
    (Kind::Exclude, ".git/info/exclude"),
];

/// Does a name make a folder have rules of its own?
pub(super) fn is_rule(name: &[u8]) -> bool {
    matches!(name, b".git" | b".gitignore" | b".ignore" | b".rgignore")
}

impl Rules {
    /// The rules of all folders above `above` from `top` on, and not of `above` itself.
    pub(super) fn above(
        top: &OwnedFd,
        above: &[u8],
        confined: bool,
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
            if let Ok(folder) = open_below(top.as_fd(), path, flags, confined) {
                rules = Self::enter(&rules, folder.as_fd(), skip, confined, meter);
            }
            let name = above[skip..].iter().position(|byte| *byte == b'/');
            skip += name.map_or(above.len(), |end| end + 1);
        }
        rules
    }

    /// The rules in a folder whose path has `skip` bytes, below `parent`.
    pub(super) fn enter(
        parent: &Arc<Self>,
        folder: BorrowedFd<'_>,
        skip: usize,
        confined: bool,
        meter: &Arc<Meter>,
    ) -> Arc<Self> {
        let is_repository = rustix::fs::statat(folder, ".git", AtFlags::SYMLINK_NOFOLLOW).is_ok();
        let mut weight = parent.weight;
        let mut charge = meter.take(0);
        let mut files = Vec::new();
        for (kind, name) in KINDS {
            let left = TOGETHER_BYTES.saturating_sub(weight);
            let Some(file) = load(folder, name, confined, left) else {
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
            in_repository: is_repository || parent.in_repository,
            parent: Some(parent.clone()),
        })
    }

    /// What the rules say about a path: leave it out, take it in any case, or nothing.
    pub(super) fn verdict(&self, path: &[u8], is_folder: bool) -> Match<()> {
        let mut verdicts = [const { Match::None }; KINDS.len()];
        let mut left_repository = false;
        let mut next = Some(self);
        while let Some(rules) = next {
            for (kind, file) in &rules.files {
                let of_git = matches!(kind, Kind::Git | Kind::Exclude);
                let counts = !of_git || (self.in_repository && !left_repository);
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

/// Reads an ignore file, as far as it takes no more than so many bytes.
fn load(folder: BorrowedFd<'_>, name: &str, confined: bool, most: usize) -> Option<IgnoreFile> {
    let file = if name.contains('/') {
        open_below(folder, name.as_bytes(), OFlags::RDONLY, confined).map(Into::into)
    } else {
        open_here(folder, name.as_bytes())
    };
    IgnoreFile::read(&file.ok()?, most)
}
