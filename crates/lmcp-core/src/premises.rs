//! The surroundings of a service: its limits, the memory that its callers share, the key of its sessions, and the checks of who
//! connects.

use std::{fmt, sync::Arc};

use lmcp_wire::RpcError;
use tokio::sync::Semaphore;

use crate::{
    budget::Budget,
    limits::{LONG_AT_ONCE, Limits},
    peer::{CheckingLocalPeer, LocalPeer, Peer},
    random,
    serving::Transports,
    session::SessionKey,
};

/// A function that admits a process that connects, or refuses it with an error.
pub(crate) type PeerCheck = Box<dyn Fn(&Peer) -> Result<(), RpcError> + Send + Sync>;
pub(crate) type LocalPeerCheck = Box<dyn Fn(LocalPeer) -> CheckingLocalPeer + Send + Sync>;

/// How a [`Service`](crate::Service) is to be served: see [`Endpoint::on_terms`](crate::Endpoint::on_terms).
#[derive(Default)]
#[must_use = "terms do nothing until a service is served on them"]
pub struct Terms {
    pub(crate) limits: Limits,
    pub(crate) key: Option<[u8; 32]>,
    pub(crate) peer_checks: Vec<PeerCheck>,
    pub(crate) local_peer_checks: Vec<LocalPeerCheck>,
}

impl Terms {
    /// As [`Server::limits`](crate::Server::limits).
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// As [`Server::key`](crate::Server::key).
    pub fn key(mut self, key: [u8; 32]) -> Self {
        self.key = Some(key);
        self
    }

    /// As [`Server::admit_peers`](crate::Server::admit_peers).
    pub fn admit_peers(
        mut self,
        check: impl Fn(&Peer) -> Result<(), RpcError> + Send + Sync + 'static,
    ) -> Self {
        self.peer_checks.push(Box::new(check));
        self
    }

    /// As [`Server::admit_local_peers`](crate::Server::admit_local_peers).
    pub fn admit_local_peers(
        mut self,
        check: impl Fn(LocalPeer) -> CheckingLocalPeer + Send + Sync + 'static,
    ) -> Self {
        self.local_peer_checks.push(Box::new(check));
        self
    }
}

impl fmt::Debug for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Terms").finish_non_exhaustive()
    }
}

/// The part that all transports of one service share.
pub(crate) struct Premises {
    pub(crate) limits: Limits,
    /// The memory that callers share.
    pub(crate) budget: Budget,
    /// Places for questions that wait.
    pub(crate) questions: Budget,
    /// Places for long messages that are being read.
    long_messages: Arc<Semaphore>,
    pub(crate) session_key: SessionKey,
    peer_checks: Vec<PeerCheck>,
    local_peer_checks: Vec<LocalPeerCheck>,
    pub(crate) transports: Arc<Transports>,
}

impl Premises {
    pub(crate) fn new(terms: Terms) -> Self {
        let key = terms.key.unwrap_or_else(random::bytes);
        Self {
            budget: Budget::of_memory(terms.limits.memory_bytes),
            questions: Budget::new(terms.limits.questions),
            long_messages: Arc::new(Semaphore::new(LONG_AT_ONCE)),
            session_key: SessionKey::derive(&key),
            limits: terms.limits,
            peer_checks: terms.peer_checks,
            local_peer_checks: terms.local_peer_checks,
            transports: Arc::default(),
        }
    }

    /// Reads a long message on another thread than the one that all callers share. Waits until one of the places for this is
    /// free.
    ///
    /// # Errors
    /// Reading the message panicked, or everything closes.
    pub(crate) async fn read_long<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, RpcError> {
        let place = Arc::clone(&self.long_messages).acquire_owned().await;
        let reading = tokio::task::spawn_blocking(move || {
            let read = read();
            drop(place);
            read
        });
        let read = reading.await;
        read.map_err(|_| RpcError::internal("the message could not be read"))
    }

    /// Checks whether this process may connect.
    pub(crate) fn admits(&self, peer: &Peer) -> Result<(), RpcError> {
        let mut checks = self.peer_checks.iter();
        checks.try_for_each(|check| check(peer))
    }

    pub(crate) fn checks_local_peers(&self) -> bool {
        !self.local_peer_checks.is_empty()
    }

    pub(crate) async fn admits_local(&self, peer: LocalPeer) -> Result<(), RpcError> {
        for check in &self.local_peer_checks {
            check(peer).await?;
        }
        Ok(())
    }
}
