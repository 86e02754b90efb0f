//! The place of one name at the hub: the host that has its token takes it, and has it until its connection is lost.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use lmcp_client::Given;
use lmcp_core::Service;
use lmcp_upstream::Route;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::OwnedMutexGuard,
    time::timeout,
};

use super::{
    RIVAL,
    pulse::{Cut, Pulse},
};
use crate::{
    fleet::Fleet,
    host::Host,
    hubs,
    limits::{NEWCOMER, PRESENT},
    path::upstream,
};

/// See above.
#[derive(Default)]
pub(crate) struct Seat {
    /// Held from the decision about a newcomer until its connection is there: two cannot both be let in.
    deciding: Arc<tokio::sync::Mutex<()>>,
    taken: Mutex<Option<Taken>>,
}

/// Who has the place.
struct Taken {
    service: Arc<dyn Service>,
    cut: Cut,
}

impl Seat {
    /// The host that has joined, or had when it was last heard of.
    pub(crate) fn service(&self) -> Result<Arc<dyn Service>, String> {
        match &*self.taken() {
            Some(taken) => Ok(Arc::clone(&taken.service)),
            None => Err("no host has joined under this name since the hub was started".to_owned()),
        }
    }

    fn taken(&self) -> MutexGuard<'_, Option<Taken>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Is somebody there who answers? If so, it is told of the newcomer.
    async fn is_held(&self) -> bool {
        let Ok(present) = self.service() else {
            return false;
        };
        let is_there = match timeout(PRESENT, present.ping()).await {
            Ok(Ok(())) => true,
            // It is there and busy, if it says so itself.
            Ok(Err(error)) => error.data.unwrap_or_default()["fault"] != "transport",
            Err(_) => false,
        };
        if is_there && let Ok(request) = hubs::own(RIVAL) {
            let _ = timeout(PRESENT, present.call(request).response()).await;
        }
        is_there
    }
}

/// Why a host may not join.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// No host of this name joins.
    Unknown,
    /// Another host has joined under this name, and answers.
    Taken,
    /// Another host is about to join under this name.
    Busy,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "the hub has no such host that joins",
            Self::Taken => "another host has joined under this name, and answers",
            Self::Busy => "another host is about to join under this name",
        })
    }
}

/// The leave to join, for one connection.
pub struct Admission {
    host: Arc<Host>,
    seat: Arc<Seat>,
    _deciding: OwnedMutexGuard<()>,
}

impl Fleet {
    /// Asks whether a host may join under a name that it has shown the token of. A host that has joined before and does not
    /// answer any more is no obstacle.
    ///
    /// # Errors
    /// It may not.
    pub async fn admit(&self, name: &str) -> Result<Admission, Refusal> {
        let host = self.host(name).filter(|host| !host.config.disabled);
        let host = host.ok_or(Refusal::Unknown)?;
        let seat = host.seat.clone().ok_or(Refusal::Unknown)?;
        let deciding = Arc::clone(&seat.deciding).lock_owned();
        let deciding = timeout(NEWCOMER, deciding)
            .await
            .map_err(|_| Refusal::Busy)?;
        if seat.is_held().await {
            tracing::warn!("a second host wanted to join as `{name}`, and was refused");
            return Err(Refusal::Taken);
        }
        Ok(Admission {
            host,
            seat,
            _deciding: deciding,
        })
    }
}

impl Admission {
    /// Has the hub call the host over this connection from now on. What was there before is ended.
    pub fn take(self, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) {
        let name = &self.host.name;
        let farewell = Farewell(Arc::downgrade(&self.host));
        let (pulse, cut) = Pulse::new(stream, farewell);
        let given = Given::new(name, Box::new(pulse));
        let taken = Taken {
            service: upstream(Route::Given(given)),
            cut,
        };
        if let Some(before) = self.seat.taken().replace(taken) {
            let _ = before
                .cut
                .send("the host has joined again on another connection");
        }
        tracing::info!("host `{name}` has joined");
        self.host.joined();
    }
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Admission").field(&self.host.name).finish()
    }
}

/// Has the host looked at when its connection is dropped, so that nobody learns of the end by a call.
struct Farewell(Weak<Host>);

impl Drop for Farewell {
    fn drop(&mut self) {
        if let Some(host) = self.0.upgrade() {
            host.look_soon();
        }
    }
}
