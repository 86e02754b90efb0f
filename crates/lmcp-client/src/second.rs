//! Messages that came back because the server did not know their session. Each of them is sent in one more session, and not
//! again: a server may answer 404 in every session, for other reasons.

use std::{
    collections::VecDeque,
    hash::{BuildHasher as _, RandomState},
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::limits::SECOND_SESSIONS;

/// The messages to one server that may be sent in one more session. Only their digests are kept: the next link sends the
/// same bytes.
#[derive(Debug, Default)]
pub(crate) struct SecondSessions {
    digests: Mutex<VecDeque<u64>>,
    digest: RandomState,
}

impl SecondSessions {
    /// Notes that the server did not know the session of this message.
    pub(crate) fn expect(&self, line: &[u8]) {
        let digest = self.digest.hash_one(line);
        let mut digests = self.lock();
        if digests.len() >= SECOND_SESSIONS {
            digests.pop_front();
        }
        digests.push_back(digest);
    }

    /// Returns whether this message is about to be sent in its second session, and forgets it.
    pub(crate) fn take(&self, line: &[u8]) -> bool {
        let mut digests = self.lock();
        // Usually the list is empty, and no digest is needed.
        if digests.is_empty() {
            return false;
        }
        let digest = self.digest.hash_one(line);
        let place = digests.iter().position(|known| *known == digest);
        place.and_then(|place| digests.remove(place)).is_some()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<u64>> {
        self.digests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_goes_to_a_second_session_once() {
        let second = SecondSessions::default();
        assert!(!second.take(b"a"));
        second.expect(b"a");
        assert!(!second.take(b"b"));
        assert!(second.take(b"a"));
        assert!(!second.take(b"a"));
    }

    #[test]
    fn only_the_last_of_many_are_remembered() {
        let second = SecondSessions::default();
        for number in 0..=SECOND_SESSIONS {
            second.expect(number.to_string().as_bytes());
        }
        assert!(!second.take(b"0"));
        assert!(second.take(b"1"));
    }
}
