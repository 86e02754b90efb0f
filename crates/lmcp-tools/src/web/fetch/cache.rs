//! Pages that are kept for callers that read on: the parts of one answer belong together.
//!
//! Only a page with more than one part is worth keeping, and only for minutes. Of a page that was removed a
//! fingerprint stays, so that a page that is fetched again can be told from one that changed.

use std::{
    collections::VecDeque,
    hash::{BuildHasher as _, RandomState},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use lmcp_core::Cx;
use tokio::time::Instant;

use super::{Method, Render, page::Page};
use lmcp_outbound::Url;

#[derive(Debug)]
pub(crate) struct Cache {
    bytes: usize,
    time: Duration,
    /// The entries, the last used at the end.
    entries: Mutex<VecDeque<Entry>>,
    addresses: RandomState,
}

/// The caller, the address, and the form of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    owner: String,
    /// The hash of the URL and of the user agent, which may both be long.
    address: u64,
    method: Method,
    render: Render,
}

/// The fingerprint of a page, and the page itself if it is still kept.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) fingerprint: u64,
    /// `None` if the page was removed.
    pub(super) page: Option<Arc<Page>>,
}

#[derive(Debug)]
struct Entry {
    key: Key,
    known: Known,
    since: Instant,
}

impl Cache {
    pub(crate) fn new(bytes: usize, time: Duration) -> Self {
        Self {
            bytes,
            time,
            entries: Mutex::default(),
            addresses: RandomState::new(),
        }
    }

    pub(super) fn key(
        &self,
        cx: &Cx,
        url: &Url,
        method: Method,
        render: Render,
        user_agent: &str,
    ) -> Key {
        Key {
            owner: cx.caller().owner().into_owned(),
            address: self.addresses.hash_one((url.to_string(), user_agent)),
            method,
            render,
        }
    }

    pub(super) fn find(&self, key: &Key) -> Option<Known> {
        let mut entries = self.lock();
        self.tidy(&mut entries);
        let at = entries.iter().position(|entry| entry.key == *key)?;
        let entry = entries.remove(at)?;
        let known = entry.known.clone();
        entries.push_back(entry);
        Some(known)
    }

    pub(super) fn keep(&self, key: Key, page: Arc<Page>) {
        let mut entries = self.lock();
        let known = Known {
            fingerprint: page.fingerprint(),
            page: Some(page),
        };
        let since = Instant::now();
        entries.push_back(Entry { key, known, since });
        self.tidy(&mut entries);
    }

    pub(super) fn forget(&self, key: &Key) {
        let mut entries = self.lock();
        entries.retain(|entry| entry.key != *key);
        self.tidy(&mut entries);
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes pages that are too old or too many.
    fn tidy(&self, entries: &mut VecDeque<Entry>) {
        while entries.len() > MOST_ENTRIES {
            entries.pop_front();
        }
        let mut bytes = 0;
        for entry in entries.iter_mut().rev() {
            let Some(page) = &entry.known.page else {
                continue;
            };
            let kept = page.bytes();
            bytes += kept;
            if bytes > self.bytes || entry.since.elapsed() > self.time {
                bytes -= kept;
                entry.known.page = None;
            }
        }
    }
}

/// The most pages and fingerprints.
const MOST_ENTRIES: usize = 128;
