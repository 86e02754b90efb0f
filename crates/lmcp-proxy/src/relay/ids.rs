//! Ids of the proxy's own, that neither side uses.

use std::hash::{BuildHasher as _, RandomState};

use lmcp_wire::RequestId;

#[derive(Debug)]
pub(super) struct Ids {
    /// How each of them begins: another word in every process, so that no client has ids like these.
    beginning: String,
    /// How many servers there have been.
    server: u64,
    count: u64,
}

impl Ids {
    pub(super) fn new() -> Self {
        // Its keys are random, and nothing here is a secret.
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

    /// Those that come are for another server.
    pub(super) fn next_server(&mut self) {
        self.server += 1;
    }

    /// The next one; it says which server it is for.
    pub(super) fn next(&mut self) -> RequestId {
        self.count += 1;
        RequestId::from(&*format!(
            "{}{}-{}",
            self.beginning, self.server, self.count
        ))
    }

    /// Was there a server?
    pub(super) fn had_server(&self) -> bool {
        self.server > 0
    }

    pub(super) fn is_own(&self, id: &RequestId) -> bool {
        matches!(id, RequestId::String(text) if text.starts_with(&self.beginning))
    }
}
