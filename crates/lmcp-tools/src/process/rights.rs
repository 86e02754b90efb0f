//! The rights that a server gives to its commands, as a value that can be recorded and compared.
//!
//! A job keeps the rights it was started with, and a server touches only jobs whose rights are covered by its own: a
//! caller that types into a job has the job's rights. Two decisions of an operator are not part of the rights, because
//! they need not be: a server that is read-only or offers neither `shell` nor `shell_bg` has no tools on jobs at all.

use std::{
    fs, io,
    os::fd::AsFd,
    path::{Path, PathBuf},
};

use lmcp_core::Error;
use lmcp_private::guards::MOST_RIGHTS;
use ring::digest::{SHA256, digest};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, StatxFlags, fstat, openat2, statx};
use serde::{Deserialize, Serialize};

use super::{
    protocol::{Fence, Folder, Id},
    rules::{Decision, Rule},
};
use crate::settings::Settings;

/// The rights of a server's commands. The default is everything, because old records hold no rights.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rights {
    /// The folders that commands may use; all folders if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fence: Option<Fence>,
    /// Whether commands may touch files below a root that have another name elsewhere. Means nothing without a fence.
    #[serde(default, skip_serializing_if = "is_false")]
    hard_links: bool,
    /// A digest of the rules that decide which commands run; absent if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rules: Option<String>,
}

impl Rights {
    /// Returns the rights that the settings give to commands below these roots.
    ///
    /// # Errors
    /// A folder does not exist, or cannot be reached.
    pub(crate) fn of(settings: &Settings, roots: &[PathBuf]) -> Result<Self, Error> {
        if let Some(path) = settings.also_read.iter().find(|path| !path.exists()) {
            let words = format!("the folder {} is not there", path.display());
            return Err(Error::config(words));
        }
        let fence = if roots.is_empty() {
            None
        } else {
            let write = outermost(folders(roots)?);
            let mut read = folders(&settings.also_read)?;
            read.retain(|folder| !folder.is_within(&write));
            Some(Fence {
                write,
                read,
                scratch: None,
            })
        };
        let rights = Self {
            hard_links: fence.is_some() && settings.allow_hard_links,
            fence,
            rules: rules_digest(&settings.rules),
        };
        let bytes = serde_json::to_vec(&rights).map_or(0, |json| json.len());
        if bytes > MOST_RIGHTS {
            let words = format!("{} roots are too many", roots.len());
            return Err(Error::config(words));
        }
        Ok(rights)
    }

    /// Returns the folders that commands may use; `None` stands for all.
    pub(crate) fn fence(&self) -> Option<&Fence> {
        self.fence.as_ref()
    }

    /// Returns whether a path without links lies where commands may change something.
    pub(crate) fn reach(&self, path: &str) -> bool {
        let fence = self.fence.as_ref();
        fence.is_none_or(|fence| {
            let mut folders = fence.write.iter();
            folders.any(|folder| Path::new(path).starts_with(&folder.path))
        })
    }

    /// Returns the rights as text. Equal rights have equal texts.
    pub(crate) fn words(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns the rights for the command line of a guard, which everybody can read: folders are without their names.
    /// These rights can be asked whether they cover others, but not whether others cover them.
    pub(super) fn for_command_line(&self) -> String {
        let mut rights = self.clone();
        let fence = rights.fence.iter_mut();
        for folder in fence.flat_map(|fence| fence.write.iter_mut().chain(&mut fence.read)) {
            folder.path.clear();
        }
        rights.words()
    }

    /// Returns whether these rights allow everything that the others allow.
    pub(crate) fn covers(&self, others: &Self) -> bool {
        self == others || self.covers_rules(others) && self.covers_places(others)
    }

    /// Returns whether these rules are the same as the others, or there are none: which of two sets of rules is wider
    /// cannot be told in general.
    fn covers_rules(&self, others: &Self) -> bool {
        self.rules.is_none() || self.rules == others.rules
    }

    fn covers_places(&self, others: &Self) -> bool {
        let (own, theirs) = match (&self.fence, &others.fence) {
            (None, _) => return true,
            (Some(_), None) => return false,
            (Some(own), Some(theirs)) => (own, theirs),
        };
        let writes = |folder: &Folder| folder.is_within(&own.write);
        let reads = |folder: &Folder| folder.is_within(&own.read) || writes(folder);
        (self.hard_links || !others.hard_links)
            && theirs.write.iter().all(writes)
            && theirs.read.iter().all(reads)
    }
}

impl Folder {
    /// Returns the folder that a path names now.
    pub(crate) fn at(path: &Path) -> io::Result<Self> {
        // The path must have no links, so that it shows in which folders the folder lies.
        let path = fs::canonicalize(path)?;
        let found = openat2(CWD, &path, OFlags::PATH, Mode::empty(), AS_WRITTEN)?;
        let id = Id::of(found)?;
        Ok(Self { path, id })
    }

    /// Returns whether this is one of those folders, or below one of them. A folder that has been moved or replaced since
    /// is not.
    fn is_within(&self, folders: &[Self]) -> bool {
        let is_one = |found: Id| folders.iter().any(|folder| folder.id == found);
        let is_still_there = || identity(&self.path) == Some(self.id);
        let mut above = self.path.ancestors().skip(1).filter_map(identity);
        is_one(self.id) || is_still_there() && above.any(is_one)
    }
}

impl Id {
    /// Returns the identity of an open folder. It differs from that of all others, also from folders made after this one
    /// is gone.
    pub(crate) fn of(folder: impl AsFd) -> io::Result<Self> {
        let found = fstat(&folder)?;
        let (itself, wanted) = (AtFlags::EMPTY_PATH, StatxFlags::BTIME);
        // Not every file system, nor every sandbox, tells when a folder was made.
        let times = statx(&folder, "", itself, wanted).ok();
        let times = times.filter(|times| times.stx_mask & wanted.bits() != 0);
        let born = times.and_then(|times| {
            let seconds = times.stx_btime.tv_sec.checked_mul(1_000_000_000)?;
            seconds.checked_add(times.stx_btime.tv_nsec.into())
        });
        Ok(Self {
            device: found.st_dev,
            inode: found.st_ino,
            born,
        })
    }
}

/// Paths are resolved without links: such a path means the same place to every process.
const AS_WRITTEN: ResolveFlags = ResolveFlags::NO_SYMLINKS;

/// Returns the identity of the folder at a path; `None` if the path leads through links.
fn identity(path: &Path) -> Option<Id> {
    let found = openat2(CWD, path, OFlags::PATH, Mode::empty(), AS_WRITTEN).ok()?;
    Id::of(found).ok()
}

fn folders(paths: &[PathBuf]) -> Result<Vec<Folder>, Error> {
    let folder = |path: &PathBuf| {
        let words = || format!("cannot confine commands to {}", path.display());
        Folder::at(path).map_err(|err| Error::io(words(), err))
    };
    paths.iter().map(folder).collect()
}

/// Leaves out folders that lie in others. They add no rights, and a command that moves one away would stop every later command,
/// because no command runs where a folder of its fence is gone.
fn outermost(mut folders: Vec<Folder>) -> Vec<Folder> {
    folders.sort_by(|a, b| a.path.cmp(&b.path));
    let mut kept: Vec<Folder> = Vec::new();
    for folder in folders {
        if !folder.is_within(&kept) {
            kept.push(folder);
        }
    }
    kept
}

/// Returns a digest of the rules. Their order does not matter: the longest rule that matches decides.
fn rules_digest(rules: &[Rule]) -> Option<String> {
    if rules.is_empty() {
        return None;
    }
    let line = |rule: &Rule| {
        let decision = match rule.decision {
            Decision::Allow => "allow",
            Decision::Ask => "ask",
            Decision::Deny => "deny",
        };
        format!("{decision} {}\n", rule.words.join(" "))
    };
    let mut lines: Vec<_> = rules.iter().map(line).collect();
    lines.sort();
    lines.dedup();
    let digest = digest(&SHA256, lines.concat().as_bytes());
    let bytes = digest.as_ref().iter().take(16);
    Some(bytes.map(|byte| format!("{byte:02x}")).collect())
}

fn is_false(value: &bool) -> bool {
    !value
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Returns the rights of a server with these roots and a change.
    fn rights(roots: &[&Path], change: impl FnOnce(&mut Settings)) -> Rights {
        let mut settings = Settings::default();
        change(&mut settings);
        let roots: Vec<_> = roots.iter().map(|root| (*root).to_owned()).collect();
        Rights::of(&settings, &roots).unwrap()
    }

    #[test]
    fn a_root_covers_what_is_below_it() {
        let top = tempfile::tempdir().unwrap();
        let (outer, inner, other) = (
            top.path().join("a"),
            top.path().join("a/b"),
            top.path().join("c"),
        );
        for folder in [&inner, &other] {
            fs::create_dir_all(folder).unwrap();
        }
        let all = rights(&[], |_| {});
        let wide = rights(&[&outer], |_| {});
        let narrow = rights(&[&inner], |_| {});
        let both = rights(&[&outer, &other], |_| {});
        let reads = rights(&[&inner], |settings| {
            settings.also_read = vec![other.clone()];
        });
        for (more, less) in [
            (&all, &wide),
            (&wide, &narrow),
            (&both, &wide),
            (&both, &reads),
            (&reads, &narrow),
            (&Rights::default(), &all),
        ] {
            assert!(more.covers(less), "{more:?} {less:?}");
        }
        for (less, more) in [
            (&wide, &all),
            (&narrow, &wide),
            (&wide, &both),
            (&wide, &reads),
            (&narrow, &reads),
            (&wide, &Rights::default()),
        ] {
            assert!(!less.covers(more), "{less:?} {more:?}");
        }
    }

    #[test]
    fn a_root_in_a_root_is_no_part_of_the_fence() {
        let top = tempfile::tempdir().unwrap();
        let (outer, inner) = (top.path().join("a"), top.path().join("a/b"));
        fs::create_dir_all(&inner).unwrap();
        let wide = rights(&[&outer], |_| {});
        for roots in [
            &[&*inner, &*outer][..],
            &[&outer, &inner],
            &[&outer, &outer],
        ] {
            assert_eq!(rights(roots, |_| {}), wide);
        }
        let reads = rights(&[&outer], |settings| settings.also_read = vec![inner]);
        assert_eq!(reads, wide);
    }

    #[test]
    fn a_folder_that_was_moved_or_replaced_is_no_longer_below() {
        let top = tempfile::tempdir().unwrap();
        let (outer, inner) = (top.path().join("a"), top.path().join("a/b"));
        fs::create_dir_all(&inner).unwrap();
        let (wide, narrow) = (rights(&[&outer], |_| {}), rights(&[&inner], |_| {}));
        assert!(wide.covers(&narrow));
        let moved = top.path().join("moved");
        fs::rename(&inner, &moved).unwrap();
        assert!(!wide.covers(&narrow));
        symlink(&moved, &inner).unwrap();
        assert!(!wide.covers(&narrow));
        fs::remove_file(&inner).unwrap();
        fs::create_dir(&inner).unwrap();
        assert!(!wide.covers(&narrow));
    }

    #[test]
    fn a_folder_with_the_number_of_one_that_was_removed_is_another() {
        let top = tempfile::tempdir().unwrap();
        let (first, second) = (top.path().join("a"), top.path().join("b"));
        fs::create_dir(&first).unwrap();
        let former = rights(&[&first], |_| {});
        let of = |rights: &Rights| rights.fence().unwrap().write[0].id;
        let born = of(&former).born;
        fs::remove_dir(&first).unwrap();
        // Some file systems use a number again at once.
        fs::create_dir(&second).unwrap();
        let mut now = rights(&[&second], |_| {});
        assert!(!now.covers(&former) && !former.covers(&now));
        // All that is left to chance is the number.
        let fence = now.fence.as_mut().unwrap();
        fence.write[0].id.device = of(&former).device;
        fence.write[0].id.inode = of(&former).inode;
        assert_eq!(now.covers(&former), born.is_none());
        let mut older = now.clone();
        older.fence.as_mut().unwrap().write[0].id.born = None;
        assert_eq!(now.covers(&older), born.is_none());
        assert!(now.covers(&now.clone()));
    }

    #[test]
    fn rules_are_covered_by_the_same_rules_or_none() {
        let deny = |words: &[&str]| {
            let rules = words.iter().map(|word| Rule::new(Decision::Deny, word));
            let rules: Vec<_> = rules.collect();
            rights(&[], |settings| settings.rules = rules)
        };
        let (none, one, two) = (deny(&[]), deny(&["rm"]), deny(&["rm", "mv"]));
        assert!(none.covers(&one) && two.covers(&deny(&["mv", "rm"])));
        assert!(!one.covers(&none) && !one.covers(&two) && !two.covers(&one));
    }

    #[test]
    fn leave_to_use_hard_links_is_a_right() {
        let top = tempfile::tempdir().unwrap();
        let strict = rights(&[top.path()], |_| {});
        let lax = rights(&[top.path()], |settings| settings.allow_hard_links = true);
        assert!(lax.covers(&strict) && !strict.covers(&lax));
    }
}
