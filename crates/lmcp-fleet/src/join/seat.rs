//! The place of one name at the hub: the host that shows the token of the name takes the place, and keeps it until its
//! connection is lost.

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

/// The place of one name.
#[derive(Default)]
pub(crate) struct Seat {
    /// Held from the decision about a new host until its connection is taken, so that two hosts cannot both be admitted.
    deciding: Arc<tokio::sync::Mutex<()>>,
    taken: Mutex<Option<Taken>>,
}

/// The host that has the place.
struct Taken {
    service: Arc<dyn Service>,
    cut: Cut,
}

impl Seat {
    /// Returns the service of the host that has joined. Its connection may be lost by now.
    pub(crate) fn service(&self) -> Result<Arc<dyn Service>, String> {
        match &*self.taken() {
            Some(taken) => Ok(Arc::clone(&taken.service)),
            None => Err("no host has joined under this name since the hub was started".to_owned()),
        }
    }

    fn taken(&self) -> MutexGuard<'_, Option<Taken>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the host in the place answers. If so, tells it about the new host.
    async fn is_held(&self) -> bool {
        let Ok(present) = self.service() else {
            return false;
        };
        let is_there = match timeout(PRESENT, present.ping()).await {
            Ok(Ok(())) => true,
            // An error that the host itself sends proves that the host is there, but busy.
            Ok(Err(error)) => error.data.unwrap_or_default()["fault"] != "transport",
            Err(_) => false,
        };
        if is_there && let Ok(request) = hubs::own(RIVAL) {
            let _ = timeout(PRESENT, present.call(request).response()).await;
        }
        is_there
    }
}

/// The reason why a host may not join.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// No host joins under this name.
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

/// The permission to join, for one connection.
pub struct Admission {
    host: Arc<Host>,
    seat: Arc<Seat>,
    _deciding: OwnedMutexGuard<()>,
}

impl Fleet {
    /// Decides whether a host may join under a name, after it has shown the token of the name. A host that joined before and
    /// does not answer any more loses the place.
    ///
    /// # Errors
    /// The host may not join.
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
    /// Makes the hub call the host over this connection from now on. An earlier connection is ended.
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

/// Makes the hub check the host when the connection is dropped, so that no caller has to find out.
struct Farewell(Weak<Host>);

impl Drop for Farewell {
    fn drop(&mut self) {
        if let Some(host) = self.0.upgrade() {
            host.look_soon();
        }
    }
}
