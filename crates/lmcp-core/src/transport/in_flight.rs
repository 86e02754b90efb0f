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
    /// How many ever were.
    entered: AtomicU64,
    /// A place is free.
    freed: Notify,
    /// The connection is busy while there are any.
    seen: Option<Arc<Connection>>,
}

struct Entry {
    /// Tells it from a later request of the same id.
    number: u64,
    abort: Option<AbortHandle>,
    listening: bool,
}

/// A request's place; leaving it, in whatever way, frees it.
pub(super) struct RequestPlace {
    id: RequestId,
    number: u64,
    among: Arc<InFlight>,
    /// Its memory.
    counted: Option<Reservation>,
}

impl RequestPlace {
    /// Frees the place, and keeps so many bytes of its memory for what waits to be written.
    pub(super) fn leave(mut self, bytes: usize) -> Option<Reservation> {
        let mut counted = self.counted.take();
        if let Some(counted) = &mut counted {
            counted.shrink_to(bytes);
        }
        counted
    }
}

impl InFlight {
    /// None yet, on a connection that its listener sees so.
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

    /// How to stop it. It may have ended already.
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

    /// Tells the listener whether the connection is busy. Under the lock, so that the last word is the right one.
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

    /// Waits until so many are left.
    pub(super) async fn until(&self, enough: impl Fn(usize) -> bool) {
        loop {
            let freed = self.freed.notified();
            if enough(self.len()) {
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
