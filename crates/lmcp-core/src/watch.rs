//! `resources/subscribe` at a service that does not use this crate's server: the session remembers the watched resources.

use lmcp_wire::{RpcError, method::request};
use serde_json::json;

use crate::{limits::Limits, request::Request, session::Session};

impl Request {
    /// Performs `resources/subscribe` or `resources/unsubscribe`: the session remembers the resource, or forgets it. For
    /// services that announce changes themselves; see [`SessionState::watches`](crate::session::SessionState::watches).
    ///
    /// # Errors
    /// The client has no session, or already watches as much as it may.
    pub fn watch(&self) -> Result<(), RpcError> {
        let uri = self.target()?;
        let unknown = || RpcError::method_not_found(self.method());
        let session = self.session().ok_or_else(unknown)?;
        if self.method() != request::SUBSCRIBE {
            // If the session has no state, none is made for this.
            if let Some(live) = Session::find(session) {
                live.unwatch(&uri);
            }
            return Ok(());
        }
        let live = session.live()?;
        let watched = live.watched();
        if watched.iter().any(|known| *known == uri) {
            return Ok(());
        }
        let usual = Limits::default();
        let limits = self.premises.as_ref().map(|premises| &premises.limits);
        expect_room(&watched, &uri, limits.unwrap_or(&usual))?;
        live.watch(&uri, self.reserve(cost(&uri))?);
        Ok(())
    }
}

/// The memory that a watched URI takes: here, in the stream to its server and in the request that opens it.
fn cost(uri: &str) -> usize {
    4 * uri.len() + 256
}

/// Checks that a session that watches these URIs may watch this one, too.
pub(crate) fn expect_room(watched: &[String], uri: &str, limits: &Limits) -> Result<(), RpcError> {
    let (most, bytes) = (limits.watched, limits.watched_bytes);
    if watched.iter().map(String::len).sum::<usize>() + uri.len() > bytes {
        let words =
            format!("the URIs that one session watches have at most {bytes} bytes together");
        let data = json!({ "limit": "watched_bytes", "value": bytes });
        return Err(RpcError::invalid_params(words).with_data(data));
    }
    if watched.len() >= most {
        let words = format!("one session watches at most {most} resources");
        let data = json!({ "limit": "watched", "value": most });
        return Err(RpcError::invalid_params(words).with_data(data));
    }
    Ok(())
}
