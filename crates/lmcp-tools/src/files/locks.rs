//! One writer per file at a time, within one server: parallel edits wait for each other, and none is lost.
//!
//! The number of locks is fixed and every file uses one of them, so nothing grows. Two files that share a lock wait a
//! little for each other. Other processes wait for the lock on the file itself (`hold`).

use std::{
    ffi::OsString,
    hash::{BuildHasher, RandomState},
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::hold::Waiting;

/// A file, whether it exists or not: the device and inode of its folder, and its name there.
pub(crate) type Key = (u64, u64, OsString);

#[derive(Debug)]
pub(crate) struct Locks {
    locks: [Mutex<()>; 64],
    hasher: RandomState,
    waiting: Waiting,
}

impl Locks {
    pub(crate) fn new() -> Self {
        Self {
            locks: [const { Mutex::new(()) }; 64],
            hasher: RandomState::new(),
            waiting: Waiting::default(),
        }
    }

    /// Returns the waits for files that another process holds.
    pub(super) fn waiting(&self) -> &Waiting {
        &self.waiting
    }

    /// Waits until no other call writes any of these files.
    pub(crate) fn lock<'a>(&self, keys: impl Iterator<Item = &'a Key>) -> Vec<MutexGuard<'_, ()>> {
        let mut places: Vec<usize> = keys
            .map(|key| self.hasher.hash_one(key) as usize % self.locks.len())
            .collect();
        // Locks are always taken in this order; else two calls that want the same two files would wait for each other
        // for ever.
        places.sort_unstable();
        places.dedup();
        places
            .into_iter()
            .map(|place| {
                self.locks[place]
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
            })
            .collect()
    }
}
