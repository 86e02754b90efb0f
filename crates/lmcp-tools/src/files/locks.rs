//! Lets the edits of one server change a file one after the other, in the order in which they came, so that no change is lost.
//!
//! Other processes are kept away by the lock on the file itself (`hold`).

use std::{
    collections::HashMap,
    ffi::OsString,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Mutex as Queue, OwnedMutexGuard};

use super::atomic::Failed;

/// A file, whether it exists or not: the device and inode of its folder, and its name there.
pub(crate) type Key = (u64, u64, OsString);

/// The calls of this server that want to write one file.
pub(crate) type Writers = Arc<Queue<()>>;

/// A file that no other call of this server writes, until this is dropped.
pub(crate) type Alone = OwnedMutexGuard<()>;

/// The files that calls of this server write, or wait for.
#[derive(Debug, Default)]
pub(crate) struct Locks(Mutex<HashMap<Key, Writers>>);

impl Locks {
    /// Takes all of these files or none, so that no two calls wait for each other. `own` is one that the call has already.
    /// No file may be named twice.
    ///
    /// # Errors
    /// `Taken` if another call writes one of them.
    pub(super) fn take<'a>(
        &self,
        keys: impl IntoIterator<Item = &'a Key>,
        mut own: Option<Alone>,
    ) -> Result<Vec<Alone>, Failed> {
        let mut files = self.lock();
        files.retain(|_, writers| Arc::strong_count(writers) > 1);
        let take = |key: &Key| {
            let writers = files.entry(key.clone()).or_default();
            let is_it = |own: &mut Alone| Arc::ptr_eq(OwnedMutexGuard::mutex(own), writers);
            match own.take_if(is_it) {
                Some(own) => Ok(own),
                None => Arc::clone(writers)
                    .try_lock_owned()
                    .map_err(|_| Failed::Taken(Arc::clone(writers))),
            }
        };
        keys.into_iter().map(take).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Writers>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> [Key; 2] {
        ["a", "b"].map(|name| (1, 1, name.into()))
    }

    #[test]
    fn a_call_gets_all_of_its_files_or_none_and_leaves_nothing_behind() {
        let (locks, [a, b]) = (Locks::default(), keys());
        let first = locks.take([&a], None).unwrap();
        assert!(matches!(locks.take([&b, &a], None), Err(Failed::Taken(_))));
        drop(locks.take([&b], None).unwrap());
        drop(first);
        drop(locks.take([&a, &b], None).unwrap());
        locks.take([], None).unwrap();
        assert!(locks.lock().is_empty());
    }

    #[tokio::test]
    async fn a_file_is_handed_to_the_call_that_waits_and_to_no_later_one() {
        let (locks, [a, b]) = (Locks::default(), keys());
        let first = locks.take([&a], None).unwrap();
        let Err(Failed::Taken(writers)) = locks.take([&a, &b], None) else {
            panic!("it is free");
        };
        let mut waiting = std::pin::pin!(writers.lock_owned());
        tokio::select! {
            biased;
            _ = &mut waiting => panic!("it is free"),
            () = std::future::ready(()) => {}
        }
        drop(first);
        assert!(matches!(locks.take([&a], None), Err(Failed::Taken(_))));
        let own = waiting.await;
        assert_eq!(locks.take([&b, &a], Some(own)).unwrap().len(), 2);
    }
}
