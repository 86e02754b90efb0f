//! What `.gitignore` and `.ignore` leave out: those of the folders walked, and those above, up to the repository's top.

use std::{
    ffi::OsString,
    fs::File,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::ffi::OsStrExt,
    },
};

use ignore::Match;
use lmcp_core::{Cx, Reservation};
use rustix::fs::{AtFlags, Mode, OFlags};

use crate::{
    files::ignore_file::{IgnoreFile, TOGETHER_BYTES},
    here::Here,
    roots::{Place, Roots},
};

/// The rules in force, from the top of the repository down to where the walk is.
pub(super) struct Rules {
    /// From the topmost folder with rules to the listed one, with a slash at its end.
    above: Vec<u8>,
    levels: Vec<Level>,
    /// Are there more rules than can be looked at?
    pub(super) is_cut: bool,
    cx: Cx,
    /// The memory for many rules, once there are many.
    held: Option<Reservation>,
}

struct Level {
    /// How many bytes of a path are the folder of these rules.
    skip: usize,
    files: Files,
}

/// The ignore files of one folder, those first that have the last word.
type Files = Vec<IgnoreFile>;

impl Rules {
    /// Those that hold in a folder before it is entered: of the folders above it in the same repository.
    pub(super) fn above(roots: &Roots, place: &Place<'_>, dir: impl AsFd, cx: &Cx) -> Self {
        let mut rules = Self {
            above: Vec::new(),
            levels: Vec::new(),
            is_cut: false,
            cx: cx.clone(),
            held: None,
        };
        if is_top(dir.as_fd()) {
            return rules;
        }
        // Where nothing is confined a path may be relative, and has fewer folders than there are.
        let shown = place.shown().to_string_lossy();
        let Ok(mut place) = (if place.is_confined() {
            Ok(place.clone())
        } else {
            roots.find(&Here::default(), &shown)
        }) else {
            return rules;
        };
        let mut found: Vec<(OsString, Files)> = Vec::new();
        let mut known = 0;
        while let Some((parent, name)) = place.parent().filter(|_| found.len() < MOST_ABOVE) {
            let Ok(dir) = parent.open_dir() else {
                return rules;
            };
            let files = rules.read(dir.as_fd(), known);
            known += weight(&files);
            found.push((name, files));
            if is_top(dir.as_fd()) {
                rules.begin_with(found);
                return rules;
            }
            place = parent;
        }
        // Not in a repository: what lies above has nothing to say.
        rules
    }

    /// The rules of the folder that the walk is in now. Its path is relative to the listed one.
    pub(super) fn enter(&mut self, dir: BorrowedFd<'_>, path: &[u8]) {
        let slash = usize::from(!path.is_empty());
        let known: usize = self.levels.iter().map(|level| weight(&level.files)).sum();
        let files = self.read(dir, known);
        self.push(Level {
            skip: self.above.len() + path.len() + slash,
            files,
        });
    }

    pub(super) fn leave(&mut self) {
        self.levels.pop();
    }

    /// Is this left out? The nearest rules have the last word.
    pub(super) fn ignore(&self, path: &[u8], is_dir: bool) -> bool {
        let full = [self.above.as_slice(), path].concat();
        for level in self.levels.iter().rev() {
            for file in &level.files {
                match file.verdict(&full[level.skip..], is_dir) {
                    Match::Ignore(()) => return true,
                    Match::Whitelist(()) => return false,
                    Match::None => {}
                }
            }
        }
        false
    }

    /// Takes the levels above, given from the nearest to the topmost, each with the name that leads back down.
    fn begin_with(&mut self, found: Vec<(OsString, Files)>) {
        for (name, files) in found.into_iter().rev() {
            self.push(Level {
                skip: self.above.len(),
                files,
            });
            self.above.extend(name.as_bytes());
            self.above.push(b'/');
        }
    }

    /// The rules of a folder, beside others that take `known` bytes. For many of them memory is set aside first.
    fn read(&mut self, dir: BorrowedFd<'_>, known: usize) -> Files {
        let most = |held: &Option<Reservation>| match held {
            Some(_) => TOGETHER_BYTES.saturating_sub(known),
            None => FEW_BYTES.saturating_sub(known),
        };
        let files = read(dir, most(&self.held));
        if self.held.is_some() || !files.iter().any(IgnoreFile::is_cut) {
            return files;
        }
        drop(files);
        self.held = self.cx.try_reserve(TOGETHER_BYTES).ok();
        read(dir, most(&self.held))
    }

    fn push(&mut self, level: Level) {
        self.is_cut |= level.files.iter().any(IgnoreFile::is_cut);
        self.levels.push(level);
    }
}

/// Does the repository begin here?
fn is_top(dir: BorrowedFd<'_>) -> bool {
    rustix::fs::statat(dir, ".git", AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

/// The rules of a folder, as far as they take no more than so many bytes.
fn read(dir: BorrowedFd<'_>, most: usize) -> Files {
    let mut files = Files::new();
    for name in [".ignore", ".gitignore"] {
        let left = most.saturating_sub(weight(&files));
        files.extend(open(dir, name).and_then(|file| IgnoreFile::read(&file, left)));
    }
    files
}

fn open(dir: BorrowedFd<'_>, name: &str) -> Option<File> {
    // As Git does: a link is not followed, it might lead anywhere.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(dir, name, flags, Mode::empty()).ok()?;
    Some(file.into())
}

fn weight(files: &Files) -> usize {
    files.iter().map(IgnoreFile::weight).sum()
}

/// Rules that take no more than this count as nothing.
const FEW_BYTES: usize = 128 * 1024;

/// Folders above that are looked at.
const MOST_ABOVE: usize = 64;
