//! One host: knows which way to it is open and whether it is up, and makes calls there.
//!
//! A call uses the first way that is open, or that nobody has tried yet. Only the task beside the host (`probe`) and callers
//! that wait for the host try a failed way again, so any other call to a host that is down fails at once.

mod standing;
#[cfg(test)]
mod tests;

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use lmcp_core::{Budget, Outcome, Replies, Reply, Request, Reservation, Say, Service};
use lmcp_wire::RpcError;
use tokio::{
    sync::Notify,
    time::{Instant, sleep, timeout},
};

use crate::{
    config::{HostConfig, Times},
    failed::Failed,
    hubs,
    join::Seat,
    limits::{HANG_UP, OPENING, PING, QUIET, REFUSAL_BYTES, WAIT_PAUSE},
    path::{Kind, Way, ways},
    status::{HostState, one_line},
    summary::cut,
};

/// A host of the fleet.
pub(crate) struct Host {
    pub(crate) name: Arc<str>,
    pub(crate) config: HostConfig,
    times: Times,
    ways: Vec<Way>,
    state: Mutex<State>,
    /// Held while a way is opened: other callers wait for the result.
    opening: tokio::sync::Mutex<()>,
    /// A way was lost: the task beside the host decides when to try it again.
    pub(crate) woken: Notify,
    /// The place that the host takes when it joins, if it is a host that joins.
    pub(crate) seat: Option<Arc<Seat>>,
    /// The hub that the host is behind, and its name there.
    within: Option<(Arc<Self>, String)>,
    /// The id of the fleet, which other hubs are told.
    fleet: Arc<str>,
}

struct State {
    /// One road for each way.
    roads: Vec<Road>,
    standing: HostState,
    since: Instant,
    looked: Option<Instant>,
    /// Something has happened since the last check, so the next check comes early.
    has_news: bool,
}

/// The state of a way.
struct Road {
    /// The service, while the way is open.
    live: Option<Arc<dyn Service>>,
    failure: Option<Failure>,
    /// The number of calls that run on this way.
    calls: Arc<AtomicUsize>,
    /// Places for calls. Each caller has a share of them.
    places: Budget,
}

impl Road {
    fn new(way: &Way) -> Self {
        Self {
            live: None,
            failure: None,
            calls: Arc::default(),
            places: Budget::new(way.kind.most_calls()),
        }
    }
}

struct Failure {
    why: String,
    /// Failures in a row.
    count: usize,
    until: Instant,
}

/// What came of a call, and on which way.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) path: Option<Kind>,
    pub(crate) result: Result<Outcome, Failed>,
}

/// Receives the messages of a host before its answer.
pub(crate) trait Hear: Sync {
    /// Passes on a message, when there is room for it.
    fn hear(&self, reply: Reply) -> impl Future<Output = ()> + Send;
}

impl Hear for Say {
    fn hear(&self, reply: Reply) -> impl Future<Output = ()> + Send {
        self.say(reply)
    }
}

/// Says which ways may be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Try {
    /// Ways that nobody has tried.
    Untried,
    /// Also ways that failed and whose pause is over.
    Due,
    /// All ways.
    All,
}

/// An open way to a host.
struct Open {
    place: usize,
    kind: Kind,
    service: Arc<dyn Service>,
    places: Budget,
    _busy: Busy,
}

/// Counts a call while it runs.
struct Busy(Arc<AtomicUsize>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Host {
    pub(crate) fn new(name: &str, config: HostConfig, times: Times, fleet: &Arc<str>) -> Self {
        let seat = config.join.then(Arc::<Seat>::default);
        let ways = ways(&config, times, seat.as_ref());
        Self {
            seat,
            fleet: Arc::clone(fleet),
            ..Self::over(name, config, times, ways)
        }
    }

    /// Does the same, with ways that are made elsewhere.
    pub(crate) fn over(name: &str, config: HostConfig, times: Times, ways: Vec<Way>) -> Self {
        let roads = ways.iter().map(Road::new).collect();
        Self {
            name: Arc::from(name),
            state: Mutex::new(State {
                roads,
                standing: match config.disabled {
                    true => HostState::Disabled,
                    false => HostState::Unknown,
                },
                since: Instant::now(),
                looked: None,
                has_news: false,
            }),
            config,
            times,
            ways,
            opening: tokio::sync::Mutex::default(),
            woken: Notify::new(),
            seat: None,
            within: None,
            fleet: Arc::default(),
        }
    }

    /// Returns a host that stands for hosts of a hub: our name for them, and the name that the hub is told.
    pub(crate) fn within(hub: &Arc<Self>, name: &str, inner: &str) -> Self {
        Self {
            within: Some((Arc::clone(hub), inner.to_owned())),
            fleet: Arc::clone(&hub.fleet),
            ..Self::over(name, hub.config.clone(), hub.times, Vec::new())
        }
    }

    /// Returns the service of the host on the way that is open.
    pub(crate) fn service(&self) -> Option<Arc<dyn Service>> {
        let state = self.lock();
        state.roads.iter().find_map(|road| road.live.clone())
    }

    /// Notes that the host has joined on a new connection.
    pub(crate) fn joined(&self) {
        let is_it = |way: &Way| way.kind == Kind::Join;
        let before = self.ways.iter().position(is_it).and_then(|place| {
            let road = &mut self.lock().roads[place];
            road.failure = None;
            road.live.take()
        });
        self.look_soon();
        drop(before);
    }

    /// Makes the task beside the host check it now.
    pub(crate) fn look_soon(&self) {
        self.lock().has_news = true;
        self.woken.notify_one();
    }

    /// Has the host answer a request. If the host is down, waits for it at most `wait`.
    ///
    /// # Cancellation
    /// Dropping the future cancels the call there.
    pub(crate) async fn call(
        &self,
        request: Request,
        wait: Duration,
        listener: &impl Hear,
    ) -> Answered {
        match &self.within {
            Some((hub, inner)) => hub.call_within(request, inner, wait, listener).await,
            None => self.call_here(request, wait, listener).await,
        }
    }

    async fn call_here(&self, request: Request, wait: Duration, listener: &impl Hear) -> Answered {
        let mut from = 0;
        let mut opened = self.open_within(wait).await;
        loop {
            let open = match opened {
                Ok(open) => open,
                Err(failed) => {
                    return Answered {
                        path: None,
                        result: Err(failed),
                    };
                }
            };
            let result = match self.place_for(&request, &open).await {
                Ok(_place) => {
                    let result = self.converse(&open, request.clone(), listener).await;
                    result.map_err(|error| self.heard_of(&open, &error))
                }
                Err(failed) => Err(failed),
            };
            let is_unbegun = matches!(&result, Err(failed) if failed.began == Some(false));
            from = from.max(open.place + 1);
            if is_unbegun && from < self.ways.len() {
                // The host has not seen the call, so another way can be used.
                let next = self.open_from(from, Try::Untried).await;
                if next.is_ok() {
                    opened = next;
                    continue;
                }
            }
            return Answered {
                path: Some(open.kind),
                result,
            };
        }
    }

    /// Returns a place among the calls on this way. A caller that has used its share waits until a call of its own has
    /// ended, and other callers still find room.
    async fn place_for(&self, request: &Request, open: &Open) -> Result<Reservation, Failed> {
        let caller = open.places.account(&request.caller().payer());
        let place = caller.reserve(1, self.config.timeout).await;
        place.map_err(|_| Failed {
            words: format!("too many calls go on there via {}", open.kind),
            began: Some(false),
            is_retriable: true,
        })
    }

    /// Has hosts of this hub answer a request.
    async fn call_within(
        &self,
        request: Request,
        inner: &str,
        wait: Duration,
        listener: &impl Hear,
    ) -> Answered {
        let mut answered = match hubs::onward(&request, inner, wait, &self.fleet) {
            Ok(request) => self.call_here(request, wait, listener).await,
            Err(error) => Answered {
                path: None,
                result: Err(Failed {
                    words: error.message.into_owned(),
                    began: Some(false),
                    is_retriable: false,
                }),
            },
        };
        if let Err(failed) = &mut answered.result {
            failed.words = format!("the hub `{}`: {}", self.name, failed.words);
        }
        answered
    }

    /// Returns an open way to the host, and waits for it at most `wait`.
    async fn open_within(&self, wait: Duration) -> Result<Open, Failed> {
        let until = Instant::now() + wait;
        let mut opened = self.open_from(0, Try::Untried).await;
        while opened.is_err() && Instant::now() < until {
            let rest = until - Instant::now();
            match timeout(rest, self.open_from(0, Try::All)).await {
                Ok(now) => opened = now,
                Err(_) => break,
            }
            if opened.is_err() {
                sleep(WAIT_PAUSE.min(until.saturating_duration_since(Instant::now()))).await;
            }
        }
        opened
    }

    /// Returns the first open way from this one on, or opens one.
    async fn open_from(&self, from: usize, tries: Try) -> Result<Open, Failed> {
        for place in from..self.ways.len() {
            if let Some(open) = self.open_now(place) {
                return Ok(open);
            }
            if !self.may_try(place, tries) {
                continue;
            }
            let _one = self.opening.lock().await;
            // Another caller may have tried meanwhile.
            if self.open_now(place).is_none() && self.may_try(place, tries) {
                self.try_way(place).await;
            }
            if let Some(open) = self.open_now(place) {
                return Ok(open);
            }
        }
        Err(self.down())
    }

    fn open_now(&self, place: usize) -> Option<Open> {
        let state = self.lock();
        let road = state.roads.get(place)?;
        let service = Arc::clone(road.live.as_ref()?);
        road.calls.fetch_add(1, Ordering::AcqRel);
        Some(Open {
            place,
            kind: self.ways[place].kind,
            service,
            places: road.places.clone(),
            _busy: Busy(Arc::clone(&road.calls)),
        })
    }

    fn may_try(&self, place: usize, tries: Try) -> bool {
        let state = self.lock();
        let failure = state
            .roads
            .get(place)
            .and_then(|road| road.failure.as_ref());
        match (failure, tries) {
            (None, _) | (_, Try::All) => true,
            (Some(failure), Try::Due) => failure.until <= Instant::now(),
            (Some(_), Try::Untried) => false,
        }
    }

    /// Opens a way, within its time. The first answer proves that the way leads to the host.
    async fn try_way(&self, place: usize) {
        let made = (self.ways[place].make)();
        let tried = match made {
            Ok(service) => match timeout(OPENING, self.prove(&*service)).await {
                Ok(Ok(())) => Ok(service),
                Ok(Err(error)) => Err(error.message.into_owned()),
                Err(_) => Err(format!("no answer within {} s", OPENING.as_secs())),
            },
            Err(why) => Err(why),
        };
        match tried {
            Ok(service) => self.opened(place, service),
            Err(why) => self.lost(place, None, &why),
        }
    }

    async fn prove(&self, service: &dyn Service) -> Result<(), RpcError> {
        service.ping().await?;
        match self.config.hub {
            true => hubs::expect_hub(service).await,
            false => Ok(()),
        }
    }

    /// Sends the call, and waits for its end: if the host is silent, it is asked whether it is still there.
    async fn converse(
        &self,
        open: &Open,
        request: Request,
        listener: &impl Hear,
    ) -> Result<Outcome, RpcError> {
        let mut replies = open.service.call(request);
        let mut heard = Instant::now();
        loop {
            let reply = match next_within(&mut replies, sleep(QUIET)).await {
                Some(reply) => reply,
                None => {
                    if heard.elapsed() >= self.config.timeout {
                        return Err(began(format!(
                            "it said nothing for {} s",
                            self.config.timeout.as_secs_f32()
                        )));
                    }
                    let asked = async { timeout(PING, open.service.ping()).await };
                    let mut answer = None;
                    let reply =
                        next_within(&mut replies, async { answer = Some(asked.await) }).await;
                    match (reply, answer) {
                        (Some(reply), _) => reply,
                        (None, Some(Ok(Ok(())))) => continue,
                        (None, _) => {
                            self.lost(open.place, Some(&open.service), SILENT);
                            return Err(began(SILENT.to_owned()));
                        }
                    }
                }
            };
            heard = Instant::now();
            match reply {
                Some(Reply::Done(result)) => return result,
                // Other messages of a host are dropped: they could be about another host, or ask for secrets.
                Some(reply @ (Reply::Progress(_) | Reply::Pause(_))) => listener.hear(reply).await,
                Some(Reply::Log(mut message)) => {
                    message.logger = Some(self.logger(message.logger.as_deref()));
                    listener.hear(Reply::Log(message)).await;
                }
                Some(_) => {}
                None => return Err(began("it gave no answer".to_owned())),
            }
        }
    }

    /// Returns the name for a log message of this host. For a hub, the name in the message of the hub is added.
    fn logger(&self, said: Option<&str>) -> String {
        match said.filter(|_| self.config.hub) {
            Some(inner) => format!("{}/{}", self.name, one_line(inner)),
            None => self.name.to_string(),
        }
    }

    /// Reads from an error what happened to the call and to the way.
    fn heard_of(&self, open: &Open, error: &RpcError) -> Failed {
        let data = error.data.clone().unwrap_or_default();
        if data["fault"] == "transport" {
            self.lost(open.place, Some(&open.service), &error.message);
        }
        let began = data["began"].as_bool();
        Failed {
            words: cut(&error.message, REFUSAL_BYTES).to_owned(),
            began,
            is_retriable: data["retriable"].as_bool().unwrap_or(began == Some(false)),
        }
    }

    /// Checks whether the host is up: asks on ways that are open, and tries those that may be tried.
    pub(crate) async fn look(&self, tries: Try) {
        let mut is_reached = false;
        self.lock().has_news = false;
        for place in 0..self.ways.len() {
            let live = self.lock().roads[place].live.clone();
            match live {
                // A better way is open again, so this one is not needed.
                Some(service) if is_reached => self.retire(place, service).await,
                Some(service) => match timeout(PING, service.ping()).await {
                    Ok(Ok(())) => is_reached = true,
                    Ok(Err(error)) => self.lost(place, Some(&service), &error.message),
                    Err(_) => self.lost(place, Some(&service), SILENT),
                },
                None => {}
            }
            let is_open = self.lock().roads[place].live.is_some();
            if !is_open && !is_reached && self.may_try(place, tries) {
                let _one = self.opening.lock().await;
                if self.open_now(place).is_none() {
                    self.try_way(place).await;
                }
                is_reached = self.open_now(place).is_some();
            }
        }
        self.lock().looked = Some(Instant::now());
    }

    /// Closes a way that no call uses.
    async fn retire(&self, place: usize, service: Arc<dyn Service>) {
        {
            let mut state = self.lock();
            let road = &mut state.roads[place];
            if road.calls.load(Ordering::Acquire) > 0 {
                return;
            }
            road.live = None;
        }
        let _ = timeout(HANG_UP, service.hang_up()).await;
    }

    /// Closes all ways.
    pub(crate) async fn hang_up(&self) {
        let live: Vec<_> = {
            let mut state = self.lock();
            let roads = state.roads.iter_mut();
            roads.filter_map(|road| road.live.take()).collect()
        };
        for service in live {
            let _ = timeout(HANG_UP, service.hang_up()).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the next reply; `None` if `other` ends first.
async fn next_within(
    replies: &mut Replies,
    other: impl Future<Output = ()>,
) -> Option<Option<Reply>> {
    tokio::select! {
        biased;
        reply = replies.next() => Some(reply),
        () = other => None,
    }
}

const SILENT: &str = "it does not answer any more";

/// Makes the error for a call that may have begun: nobody knows how far it got.
fn began(words: String) -> RpcError {
    RpcError::internal(words).with_data(serde_json::json!({ "retriable": false, "began": true }))
}
