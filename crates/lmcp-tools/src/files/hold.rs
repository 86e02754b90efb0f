//! A file held while it is changed: other servers wait, and so do programs that lock files before they write.
//!
//! The lock is `flock` on the file itself. Files are replaced, so a server that got the lock checks that the name still
//! leads to the locked file. A lock that is never released, or a file system without locks, stops no write: changes of
//! others are noticed when the file is replaced (`atomic`).

use std::{
    fs::File,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use rustix::{
    fs::{AtFlags, FileType, FlockOperation, OFlags, Stat, flock},
    io::Errno,
};

use super::target::{Target, id_of};

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

/// The waits for locks, each on a thread of its own: `flock` has no timeout, but a caller can stop waiting for a thread.
#[derive(Debug)]
pub(crate) struct Waiting {
    number: Arc<AtomicUsize>,
    /// How long a caller waits.
    patience: Duration,
}

impl Held {
    /// Holds the file that a target leads to, beside others that are held for the same change.
    pub(crate) fn take(target: &Target<'_>, others: &[Self], waiting: &Waiting) -> Self {
        let until = Instant::now() + waiting.patience;
        loop {
            let Some((file, id)) = open(target) else {
                return Self::default();
            };
            // Two names may lead to one file, whose lock is held already.
            let ours = others.iter().any(|other| other.id() == Some(id));
            let locked = ours || waiting.lock(&file, until);
            if !locked || target.leads_to(id) || Instant::now() >= until {
                return Self {
                    file: Some((file, id)),
                };
            }
        }
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

impl Waiting {
    /// Locks a file, if that is possible in time.
    fn lock(&self, file: &File, until: Instant) -> bool {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => self.wait(file, until).unwrap_or(false),
            done => done.is_ok(),
        }
    }

    fn wait(&self, file: &File, until: Instant) -> Option<bool> {
        let others = self.number.fetch_add(1, Ordering::Relaxed);
        let waiter = Waiter(Arc::clone(&self.number));
        if others >= MOST_WAITING {
            return None;
        }
        // Both descriptors share the lock. A lock that comes too late is released when the last of them is closed.
        let same = file.try_clone().ok()?;
        let (sender, receiver) = mpsc::sync_channel(1);
        let wait = move || {
            let _waiter = waiter;
            let locked = loop {
                match flock(&same, FlockOperation::LockExclusive) {
                    Err(Errno::INTR) => {}
                    done => break done.is_ok(),
                }
            };
            // The receiver is gone if this took too long.
            let _ = sender.send(locked);
        };
        let thread = std::thread::Builder::new().stack_size(128 << 10);
        thread.name("flock".into()).spawn(wait).ok()?;
        let left = until.saturating_duration_since(Instant::now());
        receiver.recv_timeout(left).ok()
    }
}

impl Default for Waiting {
    fn default() -> Self {
        Self {
            number: Arc::default(),
            patience: PATIENCE,
        }
    }
}

/// A thread that waits, counted until this is dropped.
struct Waiter(Arc<AtomicUsize>);

impl Drop for Waiter {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
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

/// How long to wait for a lock. This server holds a file only as long as the disk needs.
const PATIENCE: Duration = Duration::from_secs(5);

/// The most threads that wait for locks. With more, writes go on without a lock: locks that so many wait for are hardly
/// ever released.
const MOST_WAITING: usize = 16;

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{
        files::target::Parents,
        here::Here,
        roots::{HardLinks, Roots},
    };

    #[test]
    fn whoever_waited_holds_what_the_name_leads_to_by_then() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::open(&[]).unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "old").unwrap();
        let place = roots
            .find(&Here::default(), path.to_str().unwrap())
            .unwrap();
        let target = Target::find(&place, Parents::Expect, HardLinks::Refuse).unwrap();
        let waiting = Waiting::default();
        let first = Held::take(&target, &[], &waiting);
        std::thread::scope(|scope| {
            let second = scope.spawn(|| Held::take(&target, &[], &waiting));
            while waiting.number.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            fs::write(folder.path().join("b"), "new").unwrap();
            fs::rename(folder.path().join("b"), &path).unwrap();
            drop(first);
            let second = second.join().unwrap();
            assert!(second.id().is_some_and(|id| target.leads_to(id)));
            let other = File::open(&path).unwrap();
            assert!(flock(&other, FlockOperation::NonBlockingLockExclusive).is_err());
        });
    }

    #[test]
    fn two_names_of_one_file_do_not_wait_for_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::open(&[]).unwrap();
        fs::write(folder.path().join("a"), "").unwrap();
        fs::hard_link(folder.path().join("a"), folder.path().join("b")).unwrap();
        let find = |name: &str| {
            let path = folder.path().join(name);
            let place = roots
                .find(&Here::default(), path.to_str().unwrap())
                .unwrap();
            Target::find(&place, Parents::Expect, HardLinks::Allow).unwrap()
        };
        let waiting = Waiting::default();
        let held = [Held::take(&find("a"), &[], &waiting)];
        let second = Held::take(&find("b"), &held, &waiting);
        assert_eq!(second.id(), held[0].id());
        assert_eq!(waiting.number.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_lock_that_nobody_gives_back_is_not_waited_for_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::open(&[]).unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "").unwrap();
        let place = roots
            .find(&Here::default(), path.to_str().unwrap())
            .unwrap();
        let target = Target::find(&place, Parents::Expect, HardLinks::Refuse).unwrap();
        let first = Held::take(&target, &[], &Waiting::default());
        let impatient = Waiting {
            patience: Duration::ZERO,
            ..Waiting::default()
        };
        // The second caller has the file all the same, to check it again later.
        let unlocked = Held::take(&target, &[], &impatient);
        assert!(unlocked.id().is_some_and(|id| target.leads_to(id)));
        // Its thread goes on waiting, and the number of such threads is limited.
        assert_eq!(impatient.number.load(Ordering::Relaxed), 1);
        let full = Waiting::default();
        full.number.store(MOST_WAITING, Ordering::Relaxed);
        Held::take(&target, &[], &full);
        assert_eq!(full.number.load(Ordering::Relaxed), MOST_WAITING);
        drop((first, unlocked));
        while impatient.number.load(Ordering::Relaxed) > 0 {
            std::thread::yield_now();
        }
    }
}
