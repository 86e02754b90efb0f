//! The requests of one connection that are being answered.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use lmcp_wire::RequestId;
use tokio::{sync::Notify, task::AbortHandle};

use super::connections::Connection;
use crate::budget::Reservation;

/// The requests that are being answered.
#[derive(Default)]
pub(super) struct InFlight {
    requests: Mutex<HashMap<RequestId, Entry>>,
    /// The number of requests that ever entered.
    entered: AtomicU64,
    /// Notified when a place is free.
    freed: Notify,
    /// The connection is marked as busy while there are any requests.
    seen: Option<Arc<Connection>>,
}

struct Entry {
    /// Tells this request from a later one of the same id.
    number: u64,
    abort: Option<AbortHandle>,
    listening: bool,
}

/// The place of a request. Dropping it frees the place.
pub(super) struct RequestPlace {
    id: RequestId,
    number: u64,
    among: Arc<InFlight>,
    /// The memory of the request.
    counted: Option<Reservation>,
}

impl RequestPlace {
    /// Frees the place, and keeps this many bytes of its memory for the answer that waits to be written.
    pub(super) fn leave(mut self, bytes: usize) -> Option<Reservation> {
        let mut counted = self.counted.take();
        if let Some(counted) = &mut counted {
            counted.shrink_to(bytes);
        }
        counted
    }
}

impl InFlight {
    /// Makes an empty set. `seen` is the record that the listener keeps of the connection.
    pub(super) fn seen_as(seen: Option<Arc<Connection>>) -> Self {
        Self {
            seen,
            ..Self::default()
        }
    }

    pub(super) fn enter(
        self: &Arc<Self>,
        id: RequestId,
        listening: bool,
        counted: Reservation,
    ) -> RequestPlace {
        let number = self.entered.fetch_add(1, Ordering::Relaxed);
        let entry = Entry {
            number,
            abort: None,
            listening,
        };
        let mut requests = self.lock();
        requests.insert(id.clone(), entry);
        self.show(&requests);
        drop(requests);
        RequestPlace {
            id,
            number,
            among: Arc::clone(self),
            counted: Some(counted),
        }
    }

    /// Sets how to stop a request. The request may have ended already.
    pub(super) fn abort_with(&self, id: &RequestId, abort: AbortHandle) {
        if let Some(entry) = self.lock().get_mut(id) {
            entry.abort = Some(abort);
        }
    }

    /// Stops a request. Its place and its id are free at once.
    pub(super) fn cancel(&self, id: &RequestId) {
        let mut requests = self.lock();
        let entry = requests.remove(id);
        self.show(&requests);
        drop(requests);
        if let Some(abort) = entry.and_then(|entry| entry.abort) {
            abort.abort();
            self.freed.notify_one();
        }
    }

    /// Tells the listener whether the connection is busy. Called under the lock, so that the last report is right.
    fn show(&self, requests: &HashMap<RequestId, Entry>) {
        match &self.seen {
            Some(seen) if requests.is_empty() => seen.end(true),
            Some(seen) => seen.begin(),
            None => {}
        }
    }

    pub(super) fn cancel_listening(&self) {
        let requests = self.lock();
        requests
            .values()
            .filter(|entry| entry.listening)
            .filter_map(|entry| entry.abort.as_ref())
            .for_each(AbortHandle::abort);
    }

    /// Waits until the number of requests is small enough.
    pub(super) async fn until(&self, enough: impl Fn(usize) -> bool) {
        loop {
            let freed = self.freed.notified();
            if enough(self.len()) {
                return;
            }
            freed.await;
        }
    }

    /// Waits until no request is left but subscriptions, which end with the connection.
    pub(super) async fn all_answered(&self) {
        loop {
            let freed = self.freed.notified();
            if self.lock().values().all(|entry| entry.listening) {
                return;
            }
            freed.await;
        }
    }

    pub(super) fn contains(&self, id: &RequestId) -> bool {
        self.lock().contains_key(id)
    }

    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RequestId, Entry>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RequestPlace {
    fn drop(&mut self) {
        let mut requests = self.among.lock();
        if requests
            .get(&self.id)
            .is_some_and(|entry| entry.number == self.number)
        {
            requests.remove(&self.id);
            self.among.show(&requests);
        }
        drop(requests);
        self.among.freed.notify_one();
    }
}
