//! `subscriptions/listen`: streams that announce changes.
//!
//! The pending changes of a listener are a set, not a queue: a list that changed twice is announced once. So a listener that
//! does not read holds no more than it subscribed to.

mod stream;
mod telling;

use std::{
    collections::{BTreeSet, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    task::Waker,
};

use lmcp_wire::{
    RpcError,
    subscribe::{ListenParams, SubscriptionFilter},
};
use serde_json::{json, value::RawValue};

use stream::Listening;
pub use telling::{Audience, Telling};

use crate::{
    budget::{Budget, Reservation, try_later},
    caller::Caller,
    error::no_resource,
    face::Face,
    limits::Limits,
    outcome::{Outcome, Payload},
    request::Request,
    server::{
        Engine,
        catalog::{Lists, Views},
    },
    service::Replies,
    session::Session,
    watch::expect_room,
};

/// All listeners of a server.
pub(crate) struct Listeners {
    all: Mutex<Known>,
    /// A place for each open stream, shared between callers.
    places: Budget,
    /// The most updated resources that wait for one listener.
    most_updates: usize,
    /// The server has closed: new listeners are told so at once.
    closed: AtomicBool,
}

#[derive(Default)]
struct Known {
    listeners: Vec<Weak<Listener>>,
    /// At this number, listeners that are gone are removed.
    crowded: usize,
}

pub(crate) struct Listener {
    /// The name and role of the listener.
    face: Face,
    /// Whether the listener has a session, where the server may send any notification.
    has_session: bool,
    filter: Mutex<SubscriptionFilter>,
    pending: Mutex<Pending>,
    /// The memory that the watched URIs take.
    counted: Mutex<Option<Reservation>>,
}

/// The changes that a listener has not been told.
#[derive(Default)]
struct Pending {
    lists: Lists,
    /// The view of the caller when it was last told of each list, by [`Engine::views`].
    views: Views,
    updated: BTreeSet<String>,
    /// Notifications of the program, the oldest first.
    notices: VecDeque<(String, Box<RawValue>)>,
    tasks: BTreeSet<String>,
    closed: bool,
    /// The number of streams that have listened. Only the last one is told of changes.
    streams: u64,
    waker: Option<Waker>,
}

impl Listeners {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            all: Mutex::default(),
            places: Budget::new(limits.listeners),
            most_updates: limits.watched,
            closed: AtomicBool::new(false),
        }
    }

    pub(crate) fn lists_changed(&self, changed: Lists) {
        self.lists_changed_to(changed, |_| true);
    }

    fn lists_changed_to(&self, changed: Lists, is_meant: impl Fn(&Listener) -> bool) {
        self.tell_to(is_meant, |filter, pending| {
            if filter.tools_list_changed == Some(true) {
                pending.lists.tools.join(changed.tools);
            }
            if filter.prompts_list_changed == Some(true) {
                pending.lists.prompts.join(changed.prompts);
            }
            if filter.resources_list_changed == Some(true) {
                pending.lists.resources.join(changed.resources);
            }
        });
    }

    pub(crate) fn resource_updated(&self, uri: &str) {
        self.resource_updated_to(uri, |_| true);
    }

    fn resource_updated_to(&self, uri: &str, is_meant: impl Fn(&Listener) -> bool) {
        self.tell_to(is_meant, |filter, pending| {
            let mut watched = filter.resource_subscriptions.iter().flatten();
            let Some(watched) = watched.find(|watched| lmcp_wire::resource::covers(watched, uri))
            else {
                return;
            };
            // Any number of resources may be below a watched one: past a bound, the watched resource stands for all of them.
            let uri = if pending.updated.len() < self.most_updates {
                uri
            } else {
                watched
            };
            pending.updated.insert(uri.into());
        });
    }

    pub(crate) fn task_changed(&self, id: &str) {
        self.tell(|filter, pending| {
            if filter
                .task_ids
                .iter()
                .flatten()
                .any(|watched| watched == id)
            {
                pending.tasks.insert(id.into());
            }
        });
    }

    /// Ends all subscriptions, without an error.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.tell(|_, pending| pending.closed = true);
    }

    /// Adds a listener. `views` is its present view of the items that not everybody sees.
    fn add(
        &self,
        filter: SubscriptionFilter,
        (request, views): (&Request, Views),
        counted: Option<Reservation>,
    ) -> Arc<Listener> {
        // The flag is read under the lock: a server that closes now either tells this listener, or has set the flag before.
        let mut all = self.lock();
        let pending = Pending {
            views,
            closed: self.closed.load(Ordering::Acquire),
            ..Pending::default()
        };
        let listener = Arc::new(Listener {
            face: request.caller().face(),
            has_session: request.session().is_some(),
            filter: Mutex::new(filter),
            pending: Mutex::new(pending),
            counted: Mutex::new(counted),
        });
        if all.listeners.len() >= all.crowded {
            all.listeners.retain(|listener| listener.strong_count() > 0);
            all.crowded = 2 * all.listeners.len() + 16;
        }
        all.listeners.push(Arc::downgrade(&listener));
        listener
    }

    /// Reserves a place for one more stream of a caller.
    fn open(&self, caller: &Caller) -> Result<Reservation, RpcError> {
        let places = self.places.account(&caller.payer());
        places.try_reserve(1).map_err(|no_room| {
            let most = no_room.total;
            let words = format!("{most} subscriptions are open, or your share of them is");
            try_later(words, "listeners", most)
        })
    }

    fn tell(&self, change: impl Fn(&SubscriptionFilter, &mut Pending)) {
        self.tell_to(|_| true, change);
    }

    /// Tells the listeners that are meant, and returns their number.
    fn tell_to(
        &self,
        is_meant: impl Fn(&Listener) -> bool,
        change: impl Fn(&SubscriptionFilter, &mut Pending),
    ) -> usize {
        let all = self.lock();
        let listeners = all.listeners.iter().filter_map(Weak::upgrade);
        let mut told = 0;
        for listener in listeners.filter(|listener| is_meant(listener)) {
            let mut pending = listener.lock();
            change(&listener.filter(), &mut pending);
            if let Some(waker) = pending.waker.take() {
                waker.wake();
            }
            told += 1;
        }
        told
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listener {
    /// Whether the listener watches a resource.
    pub(crate) fn watches_something(&self) -> bool {
        let filter = self.filter();
        let mut watched = filter.resource_subscriptions.iter().flatten();
        watched.next().is_some()
    }

    /// Starts a new stream, which gets the changes that the stream before it would have got. Returns its number.
    fn take_over(&self) -> u64 {
        let mut pending = self.lock();
        pending.streams += 1;
        if let Some(waker) = pending.waker.take() {
            waker.wake();
        }
        pending.streams
    }

    /// Stops watching all resources.
    pub(crate) fn watch_nothing(&self) {
        self.filter().resource_subscriptions = None;
    }

    /// Counts the memory of another watched URI.
    fn count(&self, more: Reservation) {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *counted {
            Some(counted) => counted.join(more),
            None => *counted = Some(more),
        }
    }

    /// Gives back the memory of a URI that is not watched any more.
    fn discount(&self, less: usize) {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(counted) = &mut *counted {
            counted.shrink_to(counted.bytes().saturating_sub(less));
        }
    }

    fn filter(&self) -> MutexGuard<'_, SubscriptionFilter> {
        self.filter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens a subscription to the part of the filter that the server offers.
pub(crate) fn listen(engine: &Arc<Engine>, request: Request) -> Result<Replies, RpcError> {
    if let Some(session) = request.session() {
        let place = engine.listeners.open(request.caller())?;
        let listener = listener_of(engine, session, &request)?;
        let stream = listener.take_over();
        let listening = Listening::new(engine, listener, place, request);
        return Ok(Replies::from_source(listening.of_session(stream)));
    }
    let ListenParams {
        notifications: mut filter,
        ..
    } = request.params()?;
    let offers = engine.catalog().offers;
    filter.tools_list_changed = filter
        .tools_list_changed
        .filter(|wanted| *wanted && offers.tools);
    filter.prompts_list_changed = filter
        .prompts_list_changed
        .filter(|wanted| *wanted && offers.prompts);
    filter.resources_list_changed = filter
        .resources_list_changed
        .filter(|wanted| *wanted && offers.resources);
    filter.resource_subscriptions = filter.resource_subscriptions.filter(|_| offers.resources);
    if let Some(ids) = filter.task_ids.take() {
        request.expect_tasks()?;
        filter.task_ids = Some(engine.tasks.owned(ids, &request.caller().owner()));
    }
    let watched = || {
        let resources = filter.resource_subscriptions.iter();
        resources.chain(&filter.task_ids).flatten()
    };
    if watched().count() > engine.limits.watched {
        let most = engine.limits.watched;
        let error = RpcError::invalid_params(format!(
            "one subscription watches at most {most} resources and tasks"
        ));
        return Err(error.with_data(json!({ "limit": "watched", "value": most })));
    }
    let account = engine.budget.account(&request.caller().payer());
    let counted =
        account.try_reserve(LISTENER_BYTES + watched().map(|uri| cost(uri)).sum::<usize>())?;
    let place = engine.listeners.open(request.caller())?;
    let engine = Arc::clone(engine);
    if filter
        .resource_subscriptions
        .iter()
        .flatten()
        .next()
        .is_none()
    {
        return Ok(open(&engine, filter, counted, place, request));
    }
    Ok(Replies::later_harmless(async move {
        for uri in filter.resource_subscriptions.take().unwrap_or_default() {
            if may_watch(&engine, &uri, &request).await {
                filter
                    .resource_subscriptions
                    .get_or_insert_default()
                    .push(uri);
            }
        }
        filter.resource_subscriptions.get_or_insert_default();
        open(&engine, filter, counted, place, request)
    }))
}

fn open(
    engine: &Arc<Engine>,
    filter: SubscriptionFilter,
    counted: Reservation,
    place: Reservation,
    request: Request,
) -> Replies {
    let seen = (&request, engine.views(&request));
    let listener = engine.listeners.add(filter, seen, Some(counted));
    Replies::from_source(Listening::new(engine, listener, place, request))
}

/// The memory that a subscription takes besides its URIs.
const LISTENER_BYTES: usize = 1024;

/// The memory that a watched URI takes.
fn cost(uri: &str) -> usize {
    uri.len() + 64
}

/// Whether the caller of a request may watch this URI: a resource that it may read, or any folder (`…/`), because a resource
/// below a folder is checked when it changes.
async fn may_watch(engine: &Arc<Engine>, uri: &str, request: &Request) -> bool {
    is_folder(uri) || is_result(&engine.try_read(uri, request).response().await)
}

fn is_folder(uri: &str) -> bool {
    uri.ends_with('/')
}

fn is_result(end: &Option<Result<Outcome, RpcError>>) -> bool {
    matches!(end, Some(Ok(_)))
}

/// `resources/subscribe`: adds a resource to the stream of a session.
pub(crate) fn watch(engine: &Arc<Engine>, request: Request) -> Result<Replies, RpcError> {
    let uri = request.target()?.into_owned();
    let engine = Arc::clone(engine);
    Ok(Replies::later_harmless(async move {
        if !may_watch(&engine, &uri, &request).await {
            return Replies::error(no_resource(&uri));
        }
        match add_watched(&engine, &request, uri) {
            Ok(()) => engine.complete(Payload::Acknowledged),
            Err(error) => Replies::error(error),
        }
    }))
}

fn add_watched(engine: &Arc<Engine>, request: &Request, uri: String) -> Result<(), RpcError> {
    let no_session = || RpcError::invalid_request("this needs a session");
    let session = request.session().ok_or_else(no_session)?;
    let listener = listener_of(engine, session, request)?;
    let mut filter = listener.filter();
    let watched = filter.resource_subscriptions.get_or_insert_default();
    if watched.contains(&uri) {
        return Ok(());
    }
    expect_room(watched, &uri, &engine.limits)?;
    let account = engine.budget.account(&request.caller().payer());
    listener.count(account.try_reserve(cost(&uri))?);
    watched.push(uri);
    Ok(())
}

/// `resources/unsubscribe`: removes a resource from the stream of a session.
pub(crate) fn unwatch(request: &Request) -> Result<(), RpcError> {
    let uri = request.target()?;
    // If the session has no listener, none is made for this.
    let live = request.session().and_then(Session::find);
    if let Some(listener) = live.and_then(|live| live.known_listener()) {
        let mut filter = listener.filter();
        for watched in filter.resource_subscriptions.iter_mut() {
            let before = watched.len();
            watched.retain(|watched| *watched != uri);
            if watched.len() < before {
                listener.discount(cost(&uri));
            }
        }
    }
    Ok(())
}

/// Returns the listener of a session, for every list and for the resources that the session watches.
fn listener_of(
    engine: &Arc<Engine>,
    session: &Session,
    request: &Request,
) -> Result<Arc<Listener>, RpcError> {
    let live = session.live()?;
    if let Some(known) = live.known_listener() {
        return Ok(known);
    }
    // The program's own rule may run here, so nothing is locked meanwhile.
    let views = engine.views(request);
    Ok(live.listener(|| {
        let mut filter = SubscriptionFilter::default();
        filter.tools_list_changed = Some(true);
        filter.prompts_list_changed = Some(true);
        filter.resources_list_changed = Some(true);
        let listener = engine.listeners.add(filter, (request, views), None);
        // Adds the changes since the handshake: the client may have listed before it listens, even on an earlier instance of
        // the server.
        let changed = engine.catalog().changed_since(session.made());
        let mut pending = listener.lock();
        pending.lists.tools.join(changed.tools);
        pending.lists.prompts.join(changed.prompts);
        pending.lists.resources.join(changed.resources);
        drop(pending);
        listener
    }))
}
