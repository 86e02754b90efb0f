//! What `.gitignore` and `.ignore` leave out: those of the folders walked, and those above, up to the repository's top.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::Read,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

use ignore::{
    Match,
    gitignore::{Gitignore, GitignoreBuilder},
};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};

use crate::{
    here::Here,
    roots::{Place, Roots},
};

/// The rules in force, from the top of the repository down to where the walk is.
pub(super) struct Rules {
    /// From the topmost folder with rules to the listed one, with a slash at its end.
    above: Vec<u8>,
    levels: Vec<Level>,
}

struct Level {
    /// How many bytes of a path are the folder of these rules.
    skip: usize,
    rules: Option<Gitignore>,
}

impl Rules {
    /// Those that hold in a folder before it is entered: of the folders above it in the same repository.
    pub(super) fn above(roots: &Roots, place: &Place<'_>, dir: impl AsFd) -> Self {
        let mut rules = Self {
            above: Vec::new(),
            levels: Vec::new(),
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
        let mut found: Vec<(OsString, Option<Gitignore>)> = Vec::new();
        while let Some((parent, name)) = place.parent().filter(|_| found.len() < MOST_ABOVE) {
            let Ok(dir) = parent.open_dir() else {
                return rules;
            };
            found.push((name, read(dir.as_fd())));
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
        self.levels.push(Level {
            skip: self.above.len() + path.len() + slash,
            rules: read(dir),
        });
    }

    pub(super) fn leave(&mut self) {
        self.levels.pop();
    }

    /// Is this left out? The nearest rules have the last word.
    pub(super) fn ignore(&self, path: &[u8], is_dir: bool) -> bool {
        let full = [self.above.as_slice(), path].concat();
        for level in self.levels.iter().rev() {
            let Some(rules) = &level.rules else { continue };
            let path = Path::new(OsStr::from_bytes(&full[level.skip..]));
            match rules.matched(path, is_dir) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => {}
            }
        }
        false
    }

    /// Takes the levels above, given from the nearest to the topmost, each with the name that leads back down.
    fn begin_with(&mut self, found: Vec<(OsString, Option<Gitignore>)>) {
        for (name, rules) in found.into_iter().rev() {
            self.levels.push(Level {
                skip: self.above.len(),
                rules,
            });
            self.above.extend(name.as_bytes());
            self.above.push(b'/');
        }
    }
}

/// Does the repository begin here?
fn is_top(dir: BorrowedFd<'_>) -> bool {
    rustix::fs::statat(dir, ".git", AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

fn read(dir: BorrowedFd<'_>) -> Option<Gitignore> {
    let mut builder = GitignoreBuilder::new(".");
    let mut any = false;
    // The second overrules the first.
    for name in [".gitignore", ".ignore"] {
        let Some(text) = read_file(dir, name) else {
            continue;
        };
        for line in text.trim_start_matches('\u{feff}').lines() {
            // As Git does: a line that makes no sense says nothing.
            any |= builder.add_line(None, line).is_ok();
        }
    }
    builder.build().ok().filter(|_| any)
}

fn read_file(dir: BorrowedFd<'_>, name: &str) -> Option<String> {
    // As Git does: a link is not followed, it might lead anywhere.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(dir, name, flags, Mode::empty()).ok()?;
    let stat = rustix::fs::fstat(&file).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    let mut bytes = Vec::new();
    File::from(file)
        .take(MOST_BYTES)
        .read_to_end(&mut bytes)
        .ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Folders above that are looked at.
const MOST_ABOVE: usize = 64;

/// Of one file with rules. Real ones have a few hundred lines.
const MOST_BYTES: u64 = 256 * 1024;
