//! One writer at a file at a time, within one server: parallel edits wait for each other and none is lost.
//!
//! There is a fixed number of locks and every file has one of them, so nothing grows; two files that share one wait a
//! little for each other. Other processes wait for the lock on the file itself (`hold`).

use std::{
    ffi::OsString,
    hash::{BuildHasher, RandomState},
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::hold::Waiting;

/// Which file, whether it exists or not: the device and inode of its folder, and its name there.
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

    /// Those who wait for a file that another process holds.
    pub(super) fn waiting(&self) -> &Waiting {
        &self.waiting
    }

    /// Waits until nobody else writes any of these files.
    pub(crate) fn lock<'a>(&self, keys: impl Iterator<Item = &'a Key>) -> Vec<MutexGuard<'_, ()>> {
        let mut places: Vec<usize> = keys
            .map(|key| self.hasher.hash_one(key) as usize % self.locks.len())
            .collect();
        // Always in this order, or two that want the same two files would wait for each other for ever.
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
