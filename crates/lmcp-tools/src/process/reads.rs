//! Up to where each caller has read the output of a job, so that a wait looks only at what is new to it. Kept in memory: who
//! comes to another server begins anew.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// So many are remembered; of more, the oldest are forgotten.
const MOST: usize = 1024;

/// Who has read what of which job, the latest last.
#[derive(Debug, Default)]
pub(crate) struct Reads(Mutex<VecDeque<Read>>);

#[derive(Debug)]
struct Read {
    who: String,
    job: String,
    bytes: u64,
}

impl Reads {
    /// So many bytes of a job's output were read by somebody.
    pub(crate) fn position(&self, who: &str, job: &str) -> u64 {
        let reads = self.lock();
        let found = reads.iter().find(|read| read.job == job && read.who == who);
        found.map_or(0, |read| read.bytes)
    }

    /// Somebody has read up to here.
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
