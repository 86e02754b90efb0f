//! The transports that serve, and when the last of them stops.
//!
//! Not the connections of a transport: those are its own (`transport/connections.rs`).

use std::{
    ptr::addr_eq,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::service::Service;

/// The transports that serve now.
#[derive(Default)]
pub(crate) struct Transports(Mutex<All>);

#[derive(Default)]
struct All {
    /// Those that have not said that they stop.
    open: Vec<Arc<Serving>>,
    /// Those that have, and give their connections a moment.
    stopping: Vec<Arc<Serving>>,
}

/// A transport, and the service that it serves.
pub(crate) struct Serving {
    transports: Arc<Transports>,
    service: Arc<dyn Service>,
}

/// A transport for as long as it serves: dropped when it has ended, in whatever way.
pub(crate) struct Served(Arc<Serving>);

impl Served {
    pub(crate) fn begin(transports: &Arc<Transports>, service: &Arc<dyn Service>) -> Self {
        let serving = Arc::new(Serving {
            transports: Arc::clone(transports),
            service: Arc::clone(service),
        });
        transports.lock().open.push(Arc::clone(&serving));
        Self(serving)
    }

    pub(crate) fn serving(&self) -> &Arc<Serving> {
        &self.0
    }
}

impl Serving {
    /// The transport stops, and its connections can still be written to. Where no other goes on, the services of all that stop close.
    pub(crate) fn stop(self: &Arc<Self>) {
        let mut all = self.transports.lock();
        let Some(this) = take(&mut all.open, self) else {
            return;
        };
        all.stopping.push(this);
        let closing = all.closing();
        drop(all);
        closing.iter().for_each(Service::close);
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let mut all = self.0.transports.lock();
        let stopped = take(&mut all.stopping, &self.0);
        // It ended by itself, as a connection does: beside some that stop it may have been the last.
        let ended = take(&mut all.open, &self.0);
        let closing = ended.as_ref().map(|_| all.closing());
        drop(all);
        drop((stopped, ended));
        closing.iter().flatten().for_each(Service::close);
    }
}

impl Transports {
    fn lock(&self) -> MutexGuard<'_, All> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl All {
    /// The services that nothing serves any more but transports that stop, each of them once.
    fn closing(&self) -> Vec<Arc<dyn Service>> {
        let mut closing: Vec<Arc<dyn Service>> = Vec::new();
        for serving in self.stopping.iter().filter(|_| self.open.is_empty()) {
            let service = &serving.service;
            let is_same =
                |other: &Arc<dyn Service>| addr_eq(Arc::as_ptr(other), Arc::as_ptr(service));
            if !closing.iter().any(is_same) {
                closing.push(Arc::clone(service));
            }
        }
        closing
    }
}

/// Takes a transport out of those where it stands.
fn take(transports: &mut Vec<Arc<Serving>>, serving: &Arc<Serving>) -> Option<Arc<Serving>> {
    let place = transports
        .iter()
        .position(|other| Arc::ptr_eq(other, serving))?;
    Some(transports.swap_remove(place))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::{request::Request, service::Replies};

    /// Counts how often it closes.
    #[derive(Default)]
    struct Closing(Arc<AtomicUsize>);

    impl Service for Closing {
        fn call(&self, _: Request) -> Replies {
            unreachable!("nobody calls")
        }

        fn close(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn service() -> (Arc<dyn Service>, impl Fn() -> usize) {
        let closing = Closing::default();
        let times = Arc::clone(&closing.0);
        (Arc::new(closing), move || times.load(Ordering::Relaxed))
    }

    #[test]
    fn transports_that_stop_together_close_their_service_once() {
        let ((service, times), transports) = (service(), Arc::default());
        let [first, second] = [(); 2].map(|()| Served::begin(&transports, &service));
        first.serving().stop();
        assert_eq!(times(), 0);
        second.serving().stop();
        second.serving().stop();
        drop((first, second));
        assert_eq!(times(), 1);
    }

    #[test]
    fn a_connection_that_ends_last_closes_the_service_of_those_that_stop() {
        let [(service, times), (other, other_times)] = [(); 2].map(|()| service());
        let transports = Arc::default();
        let port = Served::begin(&transports, &service);
        drop(Served::begin(&transports, &other));
        let connection = Served::begin(&transports, &other);
        port.serving().stop();
        assert_eq!(times(), 0);
        drop(connection);
        assert_eq!((times(), other_times()), (1, 0));
    }

    #[test]
    fn a_transport_that_has_ended_stops_nothing() {
        let ((service, times), transports) = (service(), Arc::default());
        let served = Served::begin(&transports, &service);
        let serving = Arc::clone(served.serving());
        drop(served);
        serving.stop();
        assert_eq!(times(), 0);
    }
}
