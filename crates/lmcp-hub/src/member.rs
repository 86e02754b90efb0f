//! One server of a hub: started when it is needed, left alone for a while when it cannot be started, stopped when nobody
//! needs it.

use std::{
    hash::{BuildHasher as _, Hasher as _, RandomState},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use lmcp_core::{Deadline, Deadlines, Endpoint, Service, Tasks};
use lmcp_upstream::Health;
use lmcp_wire::RpcError;
use serde_json::json;
use tokio::{
    sync::{Notify, watch},
    time::{Instant, timeout},
};

use crate::{
    ask::{self, Offer},
    config::{Isolate, ServerConfig},
    limits::{FIRST_PAUSE, HANG_UP, LONGEST_PAUSE},
    names::{head, slug},
    start::{Listed, Start},
    status::{History, ServerState, ServerStatus},
};

/// Makes the service that stands for a server. Nothing is connected before the first call.
pub(crate) type Make = Box<dyn Fn(&Arc<Health>) -> Result<Made, RpcError> + Send + Sync>;

/// A service that stands for a server.
#[derive(Clone)]
pub(crate) struct Made {
    pub(crate) service: Arc<dyn Service>,
    /// Returns how often the server was started, for a service that starts it again by itself.
    pub(crate) times_opened: Arc<dyn Fn() -> u64 + Send + Sync>,
}

impl Made {
    /// Wraps a service that is never started again.
    pub(crate) fn once(service: Arc<dyn Service>) -> Self {
        Self {
            service,
            times_opened: Arc::new(|| 1),
        }
    }
}

pub(crate) struct Member {
    pub(crate) name: Arc<str>,
    /// The beginning of its names: its prefix, in a form that clients accept.
    pub(crate) prefix: String,
    /// The beginning of its URIs.
    pub(crate) slug: String,
    /// For a mounted service, only the times are used.
    config: RwLock<Arc<ServerConfig>>,
    pub(crate) is_mounted: bool,
    make: Make,
    /// Writes what happens to the server into the log.
    pub(crate) health: Arc<Health>,
    state: Mutex<State>,
    /// Held while the server is opened: other callers wait for the result.
    opening: tokio::sync::Mutex<()>,
    /// Notified when the server was opened or somebody waits for its lists, because the lists may have changed. The task
    /// beside the server listens.
    pub(crate) opened: Notify,
    /// It said nothing for too long in a call: nobody knows whether it is there. The task beside it listens.
    pub(crate) doubted: Notify,
    /// How its lists were last asked for.
    pub(crate) lists: watch::Sender<Listed>,
    /// The deadlines of calls that wait for the server.
    deadlines: Deadlines,
    /// Services that were given up and still have to end.
    leaving: Tasks,
    /// The lists of the server are known, or it is known that it cannot be asked.
    pub(crate) is_tried: AtomicBool,
}

#[derive(Default)]
struct State {
    live: Option<Live>,
    /// The answer to `server/discover` when the server was opened; `None` while it is not open.
    offer: Option<Offer>,
    generation: u64,
    calls: usize,
    watchers: usize,
    used: Option<Instant>,
    /// The restarts that services made before they were given up.
    restarts: u64,
    /// The server ran and was lost: the next start is a restart.
    was_lost: bool,
    /// Failures in a row.
    failures: u32,
    /// Until this time nobody tries to open the server, and callers get this error.
    closed_until: Option<(Instant, RpcError)>,
    history: History,
}

/// The service that stands for a server now.
#[derive(Clone)]
pub(crate) struct Live {
    pub(crate) service: Arc<dyn Service>,
    pub(crate) endpoint: Endpoint,
    times_opened: Arc<dyn Fn() -> u64 + Send + Sync>,
    generation: u64,
    /// How many calls go on there.
    calls: Arc<watch::Sender<usize>>,
}

impl Live {
    /// Does no call go on there?
    pub(crate) fn is_quiet(&self) -> bool {
        *self.calls.borrow() == 0
    }

    /// Waits until no call goes on there.
    async fn until_quiet(&self) {
        let mut calls = self.calls.subscribe();
        // The sender is ours.
        let _ = calls.wait_for(|calls| *calls == 0).await;
    }

    /// How often the server was there.
    pub(crate) fn times_opened(&self) -> u64 {
        (self.times_opened)()
    }

    /// Returns which start of the server the service has reached.
    pub(crate) fn start(&self) -> Start {
        Start {
            generation: self.generation,
            times_opened: self.times_opened(),
        }
    }
}

impl State {
    /// Drops the service, if it is still this one.
    fn let_go(&mut self, live: &Live) {
        if self.has(live) {
            self.restarts += live.times_opened().saturating_sub(1);
            self.live = None;
            self.offer = None;
        }
    }

    /// Returns whether this service stands for the server now. News of an older service are ignored.
    fn has(&self, live: &Live) -> bool {
        let now = self.live.as_ref();
        now.is_some_and(|now| now.generation == live.generation)
    }
}

impl Member {
    pub(crate) fn new(name: &str, config: ServerConfig, is_mounted: bool, make: Make) -> Self {
        let prefix = config.prefix.as_deref().unwrap_or(name).to_owned();
        Self {
            name: Arc::from(name),
            slug: slug(&prefix),
            prefix: head(&prefix),
            config: RwLock::new(Arc::new(config)),
            is_mounted,
            make,
            health: Arc::new(Health::new(format!("server `{name}`"))),
            state: Mutex::default(),
            opening: tokio::sync::Mutex::default(),
            opened: Notify::new(),
            doubted: Notify::new(),
            lists: watch::Sender::default(),
            deadlines: Deadlines::default(),
            leaving: Tasks::default(),
            is_tried: AtomicBool::new(false),
        }
    }

    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        let config = self.config.read();
        Arc::clone(&config.unwrap_or_else(PoisonError::into_inner))
    }

    /// Sets other filters or times for the same server.
    pub(crate) fn reconfigure(&self, config: ServerConfig) {
        let mut held = self.config.write().unwrap_or_else(PoisonError::into_inner);
        *held = Arc::new(config);
    }

    /// Returns a deadline for a server that is silent during a call, counted from now.
    pub(crate) fn patience(&self) -> Deadline {
        self.deadlines.after(self.config().timeout)
    }

    pub(crate) fn is_disabled(&self) -> bool {
        self.config().disabled
    }

    /// Does every caller, or every session, have a server of its own?
    pub(crate) fn has_copies(&self) -> bool {
        self.config().isolate != Isolate::None
    }

    /// The service, which stays for as long as the lease is held.
    pub(crate) fn lease(self: &Arc<Self>, purpose: Purpose) -> Result<Lease, RpcError> {
        let mut state = self.lock();
        if state.live.is_none() {
            let made = (self.make)(&self.health);
            let made = made.map_err(|error| {
                self.health.failed(&error.message);
                state.history.failed(&error.message);
                self.told(error)
            })?;
            state.generation += 1;
            state.live = Some(Live {
                endpoint: Endpoint::new(Arc::clone(&made.service)),
                service: made.service,
                times_opened: made.times_opened,
                generation: state.generation,
                calls: Arc::default(),
            });
        }
        let live = state.live.clone().ok_or_else(|| self.gone())?;
        match purpose {
            Purpose::Call => {
                state.calls += 1;
                live.calls.send_modify(|calls| *calls += 1);
            }
            Purpose::Watch => state.watchers += 1,
        }
        drop(state);
        Ok(Lease {
            member: Arc::clone(self),
            live,
            purpose,
        })
    }

    /// Returns the service and the server's capabilities, while the server is open.
    pub(crate) fn open_now(&self) -> Option<(Live, Offer)> {
        let state = self.lock();
        state.live.clone().zip(state.offer.clone())
    }

    /// Returns whether this is still the service of the server, and the server is open.
    pub(crate) fn is_current(&self, live: &Live) -> bool {
        let state = self.lock();
        state.offer.is_some() && state.has(live)
    }

    /// Waits until the server runs, at most for its start timeout.
    ///
    /// # Errors
    /// The server does not run, or another service stands for it by now.
    pub(crate) async fn open(&self, live: &Live) -> Result<(), RpcError> {
        let most = self.config().start_timeout;
        let late = || {
            let words = format!("it was not there within {} s", most.as_secs_f32());
            RpcError::internal(words).with_data(json!({ "retriable": true, "fault": "transport" }))
        };
        let opening = timeout(most, self.opening.lock());
        let _alone = opening.await.map_err(|_| self.told(late()))?;
        {
            let mut state = self.lock();
            if !state.has(live) {
                return Err(self.gone());
            }
            if state.offer.is_some() {
                return Ok(());
            }
            if let Some((until, error)) = &state.closed_until
                && Instant::now() < *until
            {
                return Err(self.told(error.clone()));
            }
            // A server that failed keeps the state `Failed` until it runs.
            if state.failures == 0 {
                state.history.enter(ServerState::Starting);
            }
        }
        match timeout(most, ask::discover(&live.endpoint)).await {
            Ok(Ok(offer)) => {
                let mut state = self.lock();
                if !state.has(live) {
                    return Err(self.gone());
                }
                state.offer = Some(offer);
                state.restarts += u64::from(std::mem::take(&mut state.was_lost));
                state.failures = 0;
                state.closed_until = None;
                state.history.enter(ServerState::Ready);
                drop(state);
                self.opened.notify_one();
                Ok(())
            }
            Ok(Err(error)) => Err(self.failed(live, error)),
            Err(_) => {
                let failed = self.failed(live, late());
                // The server hangs, and waiting longer does not help.
                self.discard(live);
                Err(failed)
            }
        }
    }

    /// Notes that the server could not be opened. Nobody tries again for a pause, which grows with each failure.
    fn failed(&self, live: &Live, error: RpcError) -> RpcError {
        let mut state = self.lock();
        if state.has(live) {
            state.failures += 1;
            let pause = pause(state.failures);
            state.closed_until = Some((Instant::now() + pause, error.clone()));
            state.offer = None;
            state.history.failed(&error.message);
            self.health.failed(&error.message);
        }
        drop(state);
        self.told(error)
    }

    /// Waits until the server may be tried again.
    pub(crate) async fn may_be_tried(&self) {
        let until = self.lock().closed_until.as_ref().map(|(until, _)| *until);
        if let Some(until) = until {
            tokio::time::sleep_until(until).await;
        }
    }

    /// Notes the end of a call. After an error of the connection, the server has to be opened again.
    pub(crate) fn ended(&self, live: &Live, time: Duration, error: Option<&RpcError>) {
        let mut state = self.lock();
        state.history.called(time);
        if let Some(error) = error.filter(|error| is_of_transport(error))
            && state.has(live)
        {
            state.offer = None;
            state.history.failed(&error.message);
        }
    }

    /// Notes that the lists of the server could not be read.
    pub(crate) fn complained(&self, error: &RpcError) {
        self.lock().history.complained(&error.message);
    }

    /// Returns for how long nobody has needed the server; `None` while somebody needs it.
    pub(crate) fn idle_for(&self) -> Option<Duration> {
        let state = self.lock();
        let is_idle = state.calls == 0 && state.watchers == 0;
        is_idle.then(|| state.used.map_or(Duration::ZERO, |used| used.elapsed()))
    }

    /// Stops the server, unless somebody needs it by now.
    pub(crate) async fn stop(&self, live: &Live) -> bool {
        {
            let mut state = self.lock();
            if state.calls > 0 || state.watchers > 0 {
                return false;
            }
            state.let_go(live);
            state.history.enter(ServerState::Stopped);
        }
        let _ = timeout(HANG_UP, live.service.hang_up()).await;
        true
    }

    /// Notes that the server was lost or does not answer: the next call starts it again.
    pub(crate) fn lose(&self, live: &Live, error: &RpcError) {
        {
            let mut state = self.lock();
            if state.has(live) {
                state.history.failed(&error.message);
                self.health.failed(&error.message);
            }
        }
        self.discard(live);
    }

    /// Drops the service. The service may take long to end, and nobody waits for that.
    fn discard(&self, live: &Live) {
        {
            let mut state = self.lock();
            state.was_lost |= state.has(live) && live.times_opened() > 0;
            state.let_go(live);
        }
        let live = live.clone();
        self.leaving.spawn(async move {
            live.until_quiet().await;
            let _ = timeout(HANG_UP, live.service.hang_up()).await;
        });
    }

    /// Closes the connection to the server.
    pub(crate) async fn hang_up(&self) {
        self.health.over();
        let live = self.lock().live.take();
        if let Some(live) = live {
            let _ = timeout(HANG_UP, live.service.hang_up()).await;
        }
    }

    pub(crate) fn status(&self) -> ServerStatus {
        let state = self.lock();
        let mut status = state.history.status(&self.name);
        status.running = state.calls;
        let live = state.live.as_ref().map_or(0, Live::times_opened);
        status.restarts = state.restarts + live.saturating_sub(1);
        drop(state);
        if self.is_disabled() {
            status.state = ServerState::Disabled;
        }
        status
    }

    /// Turns an error into the one that clients get: with the name of the server, and whether a retry makes sense.
    pub(crate) fn told(&self, mut error: RpcError) -> RpcError {
        if !is_of_transport(&error) {
            return error;
        }
        error.message = format!("server `{}`: {}", self.name, error.message).into();
        if let Some(data) = error.data.as_mut() {
            data["server"] = json!(&*self.name);
        }
        error
    }

    pub(crate) fn gone(&self) -> RpcError {
        RpcError::internal(format!("server `{}` is gone", self.name))
            .with_data(json!({ "retriable": true, "fault": "transport", "server": &*self.name }))
    }

    pub(crate) fn tried(&self) -> bool {
        self.is_tried.load(Ordering::Acquire) || self.is_disabled()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The purpose of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A call, which keeps the server busy.
    Call,
    /// A task that waits for messages of the server.
    Watch,
}

/// A server that somebody needs. The server is not stopped while the lease is held.
pub(crate) struct Lease {
    pub(crate) member: Arc<Member>,
    pub(crate) live: Live,
    purpose: Purpose,
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut state = self.member.lock();
        match self.purpose {
            Purpose::Call => {
                state.calls -= 1;
                self.live.calls.send_modify(|calls| *calls -= 1);
            }
            Purpose::Watch => state.watchers -= 1,
        }
        state.used = Some(Instant::now());
    }
}

/// Returns whether an error comes from the connection to a server, and not from the server itself.
pub(crate) fn is_of_transport(error: &RpcError) -> bool {
    let data = error.data.as_ref();
    data.is_some_and(|data| data["fault"] == "transport")
}

/// Returns how long nobody tries after so many failures: twice as long each time, and with a random part, so that servers
/// that failed together are not tried together.
fn pause(failures: u32) -> Duration {
    let pause = FIRST_PAUSE * 2_u32.saturating_pow(failures.saturating_sub(1).min(10));
    let random = RandomState::new().build_hasher().finish() % 512;
    pause.min(LONGEST_PAUSE) * (768 + random as u32) / 1024
}

#[cfg(test)]
mod tests {
    use lmcp_core::{Handle, Replies, Request, Server};

    use super::*;
    use crate::config::Reach;

    /// A server that waits for the gate, and then answers well or with an error.
    struct Slow {
        gate: Arc<Notify>,
        server: Result<Handle, RpcError>,
    }

    impl Service for Slow {
        fn call(&self, request: Request) -> Replies {
            let (gate, server) = (Arc::clone(&self.gate), self.server.clone());
            Replies::later(async move {
                gate.notified().await;
                match server {
                    Ok(server) => Service::call(&server, request),
                    Err(error) => Replies::error(error),
                }
            })
        }
    }

    fn broken() -> RpcError {
        RpcError::internal("it broke").with_data(json!({ "fault": "transport" }))
    }

    /// Makes a server whose first service waits for the gate and then answers with `first`. All later services answer at
    /// once.
    fn member(first: Result<Handle, RpcError>) -> (Arc<Member>, Arc<Notify>) {
        let gate = Arc::<Notify>::default();
        let first = Mutex::new(Some(Slow {
            gate: Arc::clone(&gate),
            server: first,
        }));
        let make = Box::new(move |_: &_| {
            let first = first.lock().unwrap_or_else(PoisonError::into_inner).take();
            Ok(Made::once(match first {
                Some(first) => Arc::new(first) as Arc<dyn Service>,
                None => Arc::new(good()),
            }))
        });
        let config = ServerConfig::new(Reach::Socket("/none".into()));
        (Arc::new(Member::new("one", config, false, make)), gate)
    }

    fn good() -> Handle {
        let server = Server::new("good", "1").start();
        server.expect("the server is sound")
    }

    #[tokio::test(start_paused = true)]
    async fn an_opening_that_ends_late_says_nothing_of_the_next_service() {
        for first in [Ok(good()), Err(broken())] {
            let (member, gate) = member(first);
            let old = member.lease(Purpose::Watch).unwrap();
            let (late, new) = tokio::join!(member.open(&old.live), async {
                member.lose(&old.live, &broken());
                let new = member.lease(Purpose::Call).unwrap();
                gate.notify_one();
                new
            });
            let data = late.unwrap_err().data.unwrap_or_default();
            assert_eq!(data["fault"], "transport", "who waited may try again");
            assert!(!member.is_current(&new.live), "nobody has opened it yet");
            member.open(&new.live).await.unwrap();
            assert!(member.is_current(&new.live));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_ends_late_does_not_close_the_next_service() {
        let (member, _) = member(Ok(good()));
        let old = member.lease(Purpose::Call).unwrap();
        member.lose(&old.live, &broken());
        let new = member.lease(Purpose::Call).unwrap();
        member.open(&new.live).await.unwrap();
        member.ended(&old.live, Duration::ZERO, Some(&broken()));
        assert!(member.is_current(&new.live));
    }
}
