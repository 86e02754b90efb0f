//! Ids of the proxy itself, which neither side uses.

use std::hash::{BuildHasher as _, RandomState};

use lmcp_wire::RequestId;

#[derive(Debug)]
pub(super) struct Ids {
    /// The beginning of each id: it differs in every process, so that no client has the same ids.
    beginning: String,
    /// The number of servers so far.
    server: u64,
    count: u64,
}

impl Ids {
    pub(super) fn new() -> Self {
        // The keys of `RandomState` are random, and the ids are not secret.
        let random = RandomState::new().hash_one(0);
        Self::beginning_with(format!("lmcp-proxy-{random:016x}-"))
    }

    pub(super) fn beginning_with(beginning: String) -> Self {
        Self {
            beginning,
            server: 0,
            count: 0,
        }
    }

    /// Notes that later ids are for another server.
    pub(super) fn next_server(&mut self) {
        self.server += 1;
    }

    /// Returns the next id, which contains the number of its server.
    pub(super) fn next(&mut self) -> RequestId {
        self.count += 1;
        RequestId::from(&*format!(
            "{}{}-{}",
            self.beginning, self.server, self.count
        ))
    }

    /// Returns whether there was a server.
    pub(super) fn had_server(&self) -> bool {
        self.server > 0
    }

    pub(super) fn is_own(&self, id: &RequestId) -> bool {
        matches!(id, RequestId::String(text) if text.starts_with(&self.beginning))
    }
}
