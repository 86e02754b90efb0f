//! A file held while it is changed: other servers wait, and so do programs that lock what they write.
//!
//! The lock is `flock` on the file itself. Files are replaced, so whoever has the lock looks whether the name still leads
//! to what was locked. A lock that nobody gives back, or a file system that knows none, stops no write: whatever others
//! do meanwhile is noticed when the file is replaced (`atomic`).

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

/// Held until it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// None if there is no file, or none that may be read.
    file: Option<(File, Id)>,
}

/// Device and inode.
type Id = (u64, u64);

/// Files that were displaced, and have no name any more. To close such a one frees its place on the disk, which takes
/// longer than all else but waiting for the disk, so that is done behind the answer. Nobody who comes to the name meets it.
#[derive(Debug)]
pub(crate) struct Displaced(Vec<Held>);

impl Displaced {
    /// Those of what was held. The others are let go at once: whoever comes next waits for them.
    pub(crate) fn of(mut held: Vec<Held>) -> Self {
        held.retain(Held::is_displaced);
        Self(held)
    }

    /// Closes them, on another thread.
    pub(crate) fn let_go(self) {
        if !self.0.is_empty() {
            tokio::task::spawn_blocking(move || drop(self));
        }
    }
}

/// Those who wait for a lock, each in a thread, because only a thread can stop waiting for one.
#[derive(Debug)]
pub(crate) struct Waiting {
    number: Arc<AtomicUsize>,
    /// How long they do so.
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
            // Two names of one file: its lock is ours already.
            let ours = others.iter().any(|other| other.id() == Some(id));
            let locked = ours || waiting.lock(&file, until);
            if !locked || target.leads_to(id) || Instant::now() >= until {
                return Self {
                    file: Some((file, id)),
                };
            }
        }
    }

    /// The file as it was opened, if it is the one meant.
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
        // The lock belongs to both descriptors. One that comes too late is given back with the last of them.
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
            // Nobody listens any more if it took too long.
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

/// One that waits, until it is dropped.
struct Waiter(Arc<AtomicUsize>);

impl Drop for Waiter {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn open(target: &Target<'_>) -> Option<(File, Id)> {
    let is_file = |stat: &Stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    // To open a FIFO or a device is to do something to it.
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    let stat = rustix::fs::statat(&target.dir, &target.name, flags).ok()?;
    if !is_file(&stat) {
        return None;
    }
    let file = target.open(OFlags::RDONLY).ok()?;
    let stat = rustix::fs::fstat(&file).ok()?;
    is_file(&stat).then(|| (file, id_of(&stat)))
}

/// Writers of ours hold a file for as long as a disk needs. Whoever holds it longer has other reasons.
const PATIENCE: Duration = Duration::from_secs(5);

/// Threads that wait for locks. With more, writes go on without: such locks are not given back.
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
        // It has the file all the same, to look at it again later.
        let unlocked = Held::take(&target, &[], &impatient);
        assert!(unlocked.id().is_some_and(|id| target.leads_to(id)));
        // Its thread waits on, and there are only so many of them.
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
