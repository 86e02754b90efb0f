//! Whether a connection to a port that asks for no token is served. Two things decide: the user who made the connection,
//! and what the server says about the process that holds it (`Server::admit_local_peers`).

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use lmcp_core::{Endpoint, Throttle, transport::LocalPeer};
use lmcp_wire::{RpcError, error::INTERNAL_ERROR};
use tokio::net::TcpStream;

use crate::local_user;

/// What a port asks about those who connect.
pub(crate) struct Door {
    pub(crate) server: Endpoint,
    /// Only the user of this server and root are served.
    pub(crate) asks_for_user: bool,
    /// The server is asked about every connection from this machine.
    pub(crate) asks_server: bool,
    /// Refusals, which a flood of connections must not fill a log with.
    pub(crate) refusals: Mutex<Throttle>,
}

/// One connection at the door.
pub(crate) struct Entry {
    door: Arc<Door>,
    /// The server is to be asked about this peer.
    peer: Option<LocalPeer>,
    /// Set as soon as it is decided.
    verdict: OnceLock<Result<(), RpcError>>,
}

impl Door {
    /// Looks who connected. This has to be done at once: when the peer has closed its end, nobody can tell any more.
    pub(crate) fn look(self: &Arc<Self>, stream: &TcpStream) -> Entry {
        let mut entry = Entry {
            door: Arc::clone(self),
            peer: None,
            verdict: OnceLock::new(),
        };
        if !self.asks_for_user && !self.asks_server {
            return entry;
        }
        let found = local_user::socket_of_peer(stream);
        if self.asks_for_user
            && let Some(why) = local_user::refusal(&found)
        {
            tracing::debug!("a connection is not served: {why}");
            entry.verdict = OnceLock::from(Err(RpcError::invalid_request(why)));
            return entry;
        }
        let socket = found.unwrap_or_default();
        // A connection that is not in the table is of another machine, or was closed already.
        let is_local = || {
            let peer = stream.peer_addr();
            peer.map_or(true, local_user::is_of_this_machine)
        };
        if self.asks_server && (socket.is_some() || is_local()) {
            entry.peer = Some(LocalPeer::new(socket));
        }
        entry
    }

    fn log(&self, refused: &RpcError) {
        let refusals = self.refusals.lock();
        let times = refusals.unwrap_or_else(PoisonError::into_inner).count();
        if let Some(times) = times {
            tracing::warn!(times, "a connection is not served: {}", refused.message);
        }
    }
}

impl Entry {
    /// Is the connection served? Asked before every request, and decided at the first.
    pub(crate) async fn admit(&self) -> Result<(), RpcError> {
        if let Some(verdict) = self.verdict.get() {
            return verdict.clone();
        }
        let Some(peer) = self.peer else {
            return Ok(());
        };
        let verdict = self.door.server.admits_local(peer).await;
        match &verdict {
            // It cannot be told now.
            Err(error) if error.code == INTERNAL_ERROR => {}
            Err(error) => {
                self.door.log(error);
                let _ = self.verdict.set(verdict.clone());
            }
            Ok(()) => {
                let _ = self.verdict.set(Ok(()));
            }
        }
        verdict
    }
}
