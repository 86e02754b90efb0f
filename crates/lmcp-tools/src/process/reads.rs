//! The position up to which each caller has read the output of each job, so that a wait searches only output that is new to
//! the caller. The positions are in memory: on another server, a caller begins anew.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The most positions that are remembered. Of more, the oldest are forgotten.
const MOST: usize = 1024;

/// The positions of all callers, the latest last.
#[derive(Debug, Default)]
pub(crate) struct Reads(Mutex<VecDeque<Read>>);

#[derive(Debug)]
struct Read {
    who: String,
    job: String,
    bytes: u64,
}

impl Reads {
    /// Returns how many bytes of a job's output a caller has read.
    pub(crate) fn position(&self, who: &str, job: &str) -> u64 {
        let reads = self.lock();
        let found = reads.iter().find(|read| read.job == job && read.who == who);
        found.map_or(0, |read| read.bytes)
    }

    /// Notes the position up to which a caller has read.
    pub(crate) fn note(&self, who: &str, job: &str, bytes: u64) {
        let mut reads = self.lock();
        reads.retain(|read| read.job != job || read.who != who);
        if reads.len() >= MOST {
            reads.pop_front();
        }
        reads.push_back(Read {
            who: who.to_owned(),
            job: job.to_owned(),
            bytes,
        });
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Read>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_last_counts_and_only_so_much_is_remembered() {
        let reads = Reads::default();
        for bytes in [5, 9] {
            reads.note("ann", "job", bytes);
        }
        assert_eq!(reads.position("ann", "job"), 9);
        assert_eq!(reads.position("bob", "job"), 0);
        for number in 0..MOST {
            reads.note("bob", &number.to_string(), 1);
        }
        assert_eq!(reads.position("ann", "job"), 0);
    }
}
