//! A file held while it is changed: other servers wait, and so do programs that lock files before they write.
//!
//! The lock is `flock` on the file itself. Files are replaced, so a server that got the lock checks that the name still
//! leads to the locked file. Nobody waits for a lock here: a call that does not get it comes again (`turn`). A lock that is
//! never released, or a file system without locks, stops no write: changes of others are noticed when the file is replaced
//! (`atomic`).

use std::fs::File;

use rustix::{
    fs::{AtFlags, FileType, FlockOperation, OFlags, Stat, flock},
    io::Errno,
};

use super::{
    atomic::Failed,
    target::{Target, id_of},
    turn::Turn,
};

/// A file, held until this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// `None` if there is no file, or it may not be read.
    file: Option<(File, Id)>,
}

/// Device and inode of a file.
type Id = (u64, u64);

/// Files that were displaced, and have no name any more. Closing such a file frees its space on the disk. That takes longer
/// than all else but waiting for the disk, so it is done after the answer. No process that opens the name meets the file.
#[derive(Debug)]
pub(crate) struct Displaced(Vec<Held>);

impl Displaced {
    /// Keeps the displaced ones of the held files. The others are released at once: other writers wait for them.
    pub(crate) fn of(mut held: Vec<Held>) -> Self {
        held.retain(Held::is_displaced);
        Self(held)
    }

    /// Closes the files, on another thread.
    pub(crate) fn let_go(self) {
        if !self.0.is_empty() {
            tokio::task::spawn_blocking(move || drop(self));
        }
    }
}

impl Held {
    /// Holds the file that a target leads to, beside others that are held for the same change.
    ///
    /// # Errors
    /// `Locked` if somebody else holds the file, and the call is to wait for that.
    pub(crate) fn take(target: &Target<'_>, others: &[Self], turn: &Turn) -> Result<Self, Failed> {
        let Some((file, id)) = open(target) else {
            return Ok(Self::default());
        };
        // Two names may lead to one file, whose lock is held already.
        let is_ours = others.iter().any(|other| other.id() == Some(id));
        let lock = || flock(&file, FlockOperation::NonBlockingLockExclusive);
        let is_free = match if is_ours { Ok(()) } else { lock() } {
            Err(Errno::WOULDBLOCK) => false,
            // There are no locks here.
            Err(_) => true,
            // The program that held the lock before may have replaced the file.
            Ok(()) => target.leads_to(id),
        };
        if !is_free && turn.is_patient() {
            return Err(Failed::Locked);
        }
        Ok(Self {
            file: Some((file, id)),
        })
    }

    /// Returns the file as it was opened, if it is the one meant.
    pub(super) fn file(&self, id: Id) -> Option<&File> {
        let (file, own) = self.file.as_ref()?;
        (*own == id).then_some(file)
    }

    fn is_displaced(&self) -> bool {
        let file = self.file.as_ref();
        let stat = file.and_then(|(file, _)| rustix::fs::fstat(file).ok());
        stat.is_some_and(|stat| stat.st_nlink == 0)
    }

    fn id(&self) -> Option<Id> {
        self.file.as_ref().map(|(_, id)| *id)
    }
}

fn open(target: &Target<'_>) -> Option<(File, Id)> {
    let is_file = |stat: &Stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    // Opening a FIFO or a device would have an effect on it.
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    let stat = rustix::fs::statat(&target.dir, &target.name, flags).ok()?;
    if !is_file(&stat) {
        return None;
    }
    let file = target.open(OFlags::RDONLY).ok()?;
    let stat = rustix::fs::fstat(&file).ok()?;
    is_file(&stat).then(|| (file, id_of(&stat)))
}

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf};

    use super::*;
    use crate::{
        files::target::Parents,
        here::Here,
        roots::{HardLinks, Roots},
    };

    /// A folder for the files of a test.
    struct Bench {
        folder: tempfile::TempDir,
        roots: Roots,
    }

    impl Bench {
        fn new() -> Self {
            Self {
                folder: tempfile::tempdir().unwrap(),
                roots: Roots::open(&[]).unwrap(),
            }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn target(&self, name: &str) -> Target<'_> {
            let path = self.path(name);
            let place = self.roots.find(&Here::default(), path.to_str().unwrap());
            Target::find(&place.unwrap(), Parents::Expect, HardLinks::Allow).unwrap()
        }
    }

    #[test]
    fn whoever_waited_holds_what_the_name_leads_to_by_then() {
        let bench = Bench::new();
        fs::write(bench.path("a"), "old").unwrap();
        let (target, turn) = (bench.target("a"), Turn::default());
        let first = Held::take(&target, &[], &turn).unwrap();
        let second = Held::take(&target, &[], &turn);
        assert!(matches!(second, Err(Failed::Locked)));
        fs::write(bench.path("b"), "new").unwrap();
        fs::rename(bench.path("b"), bench.path("a")).unwrap();
        let second = Held::take(&target, &[], &turn).unwrap();
        assert!(second.id().is_some_and(|id| target.leads_to(id)));
        let other = File::open(bench.path("a")).unwrap();
        assert!(flock(&other, FlockOperation::NonBlockingLockExclusive).is_err());
        drop(first);
    }

    #[test]
    fn two_names_of_one_file_do_not_wait_for_each_other() {
        let bench = Bench::new();
        fs::write(bench.path("a"), "").unwrap();
        fs::hard_link(bench.path("a"), bench.path("b")).unwrap();
        let turn = Turn::default();
        let held = [Held::take(&bench.target("a"), &[], &turn).unwrap()];
        let second = Held::take(&bench.target("b"), &held, &turn).unwrap();
        assert_eq!(second.id(), held[0].id());
    }

    #[test]
    fn a_lock_that_nobody_gives_back_stops_no_write() {
        let bench = Bench::new();
        fs::write(bench.path("a"), "").unwrap();
        let target = bench.target("a");
        let _first = Held::take(&target, &[], &Turn::default()).unwrap();
        // The second caller has the file all the same, to check it again later.
        let unlocked = Held::take(&target, &[], &Turn::impatient()).unwrap();
        assert!(unlocked.id().is_some_and(|id| target.leads_to(id)));
    }
}
