//! `subscriptions/listen`: streams that tell of changes.
//!
//! What a listener has not read yet is a set, not a queue: a list that changed twice is told once. So a listener that
//! does not read holds no more than it asked for.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
};

use lmcp_wire::{
    RequestId, RpcError, jsonrpc, meta,
    method::{notification, request},
    subscribe::{ListenParams, SubscriptionFilter},
};
use serde::Serialize;
use serde_json::json;

use crate::{
    caller::Transport,
    dispatch::expect_tasks,
    era::modern,
    limits::Limits,
    outcome::Outcome,
    request::Request,
    server::{Engine, catalog::Lists},
    service::{Replies, Reply, Source},
    session::Session,
};

/// Everybody who listens.
pub(crate) struct Listeners {
    all: Mutex<Known>,
    /// How many are being listened to, and how many may be.
    open: Arc<AtomicUsize>,
    most: usize,
    /// Of resources below a watched one, for each listener.
    most_updates: usize,
    /// The server has closed: who comes now is told so.
    closed: AtomicBool,
}

#[derive(Default)]
struct Known {
    listeners: Vec<Weak<Listener>>,
    /// Look for those that are gone at this size.
    crowded: usize,
}

/// Counts a stream for as long as it is open.
struct Open(Arc<AtomicUsize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

pub(crate) struct Listener {
    filter: Mutex<SubscriptionFilter>,
    pending: Mutex<Pending>,
}

/// What a listener has not been told.
#[derive(Default)]
struct Pending {
    lists: Lists,
    updated: BTreeSet<String>,
    tasks: BTreeSet<String>,
    closed: bool,
    /// How many streams have listened; only the last one is told.
    streams: u64,
    waker: Option<Waker>,
}

impl Listeners {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            all: Mutex::default(),
            open: Arc::default(),
            most: limits.listeners,
            most_updates: limits.watched,
            closed: AtomicBool::new(false),
        }
    }

    pub(crate) fn lists_changed(&self, changed: Lists) {
        self.tell(|filter, pending| {
            pending.lists.tools |= changed.tools && filter.tools_list_changed == Some(true);
            pending.lists.prompts |= changed.prompts && filter.prompts_list_changed == Some(true);
            pending.lists.resources |=
                changed.resources && filter.resources_list_changed == Some(true);
        });
    }

    pub(crate) fn resource_updated(&self, uri: &str) {
        self.tell(|filter, pending| {
            let mut watched = filter.resource_subscriptions.iter().flatten();
            let Some(watched) = watched.find(|watched| covers(watched, uri)) else {
                return;
            };
            // Far below a watched resource there may be any number: past a bound, the watched one stands for all.
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

    /// Every subscription ends well.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.tell(|_, pending| pending.closed = true);
    }

    fn add(&self, filter: SubscriptionFilter) -> Arc<Listener> {
        let pending = Pending {
            closed: self.closed.load(Ordering::Acquire),
            ..Pending::default()
        };
        let listener = Arc::new(Listener {
            filter: Mutex::new(filter),
            pending: Mutex::new(pending),
        });
        let mut all = self.lock();
        if all.listeners.len() >= all.crowded {
            all.listeners.retain(|listener| listener.strong_count() > 0);
            all.crowded = 2 * all.listeners.len() + 16;
        }
        all.listeners.push(Arc::downgrade(&listener));
        listener
    }

    /// A place for one more stream.
    fn open(&self) -> Result<Open, RpcError> {
        let place = Open(Arc::clone(&self.open));
        if self.open.fetch_add(1, Ordering::AcqRel) < self.most {
            return Ok(place);
        }
        let most = self.most;
        let words = format!("{most} subscriptions are open, and no more are taken");
        let data = json!({ "limit": "listeners", "value": most });
        Err(RpcError::internal(words).with_data(data))
    }

    fn tell(&self, change: impl Fn(&SubscriptionFilter, &mut Pending)) {
        for listener in self.lock().listeners.iter().filter_map(Weak::upgrade) {
            let mut pending = listener.lock();
            change(&listener.filter(), &mut pending);
            if let Some(waker) = pending.waker.take() {
                waker.wake();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listener {
    /// Is there a resource it watches?
    pub(crate) fn watches_something(&self) -> bool {
        let filter = self.filter();
        let mut watched = filter.resource_subscriptions.iter().flatten();
        watched.next().is_some()
    }

    /// A new stream, which is told what the one before would have been.
    fn take_over(&self) -> u64 {
        let mut pending = self.lock();
        pending.streams += 1;
        if let Some(waker) = pending.waker.take() {
            waker.wake();
        }
        pending.streams
    }

    /// Watches no resource any longer.
    pub(crate) fn watch_nothing(&self) {
        self.filter().resource_subscriptions = None;
    }

    fn filter(&self) -> MutexGuard<'_, SubscriptionFilter> {
        self.filter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A watched URI covers itself and what is below it.
fn covers(watched: &str, uri: &str) -> bool {
    uri.strip_prefix(watched)
        .is_some_and(|rest| rest.is_empty() || watched.ends_with('/') || rest.starts_with('/'))
}

/// Opens a subscription to what of the wish can be served.
pub(crate) fn listen(engine: &Arc<Engine>, request: &Request) -> Result<Replies, RpcError> {
    if let Some(session) = request.session() {
        let place = engine.listeners.open()?;
        let listener = listener_of(engine, session)?;
        let stream = listener.take_over();
        return Ok(Replies::from_source(Listening {
            listener,
            stream,
            _place: place,
            engine: Arc::clone(engine),
            id: request.id.clone(),
            owner: String::new(),
            of_session: true,
            notice: false,
            stage: Stage::Open,
        }));
    }
    let ListenParams {
        notifications: mut filter,
        ..
    } = request.params()?;
    request.check_flaw()?;
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
        expect_tasks(request)?;
        filter.task_ids = Some(engine.tasks.owned(ids, &request.caller().owner()));
    }
    let watched = filter
        .resource_subscriptions
        .iter()
        .chain(&filter.task_ids)
        .map(Vec::len)
        .sum::<usize>();
    if watched > engine.limits.watched {
        let most = engine.limits.watched;
        let error = RpcError::invalid_params(format!(
            "one subscription watches at most {most} resources and tasks"
        ));
        return Err(error.with_data(json!({ "limit": "watched", "value": most })));
    }
    Ok(Replies::from_source(Listening {
        _place: engine.listeners.open()?,
        listener: engine.listeners.add(filter),
        stream: 0,
        engine: Arc::clone(engine),
        id: request.id.clone(),
        owner: request.caller().owner().into_owned(),
        // The specification wants the notice wherever streams share a channel, and the response everywhere.
        notice: request.caller().transport() != Transport::Http,
        of_session: false,
        stage: Stage::Opening,
    }))
}

/// `resources/subscribe` and `resources/unsubscribe`: what the stream of a session tells of.
pub(crate) fn watch(
    engine: &Arc<Engine>,
    session: &Session,
    request: &Request,
) -> Result<(), RpcError> {
    let uri = request.target()?;
    request.check_flaw()?;
    if &*request.method == request::UNSUBSCRIBE {
        // Who watches nothing yet need not begin to for this.
        if let Some(listener) = session.find().and_then(|live| live.known_listener()) {
            let mut filter = listener.filter();
            let watched = filter.resource_subscriptions.iter_mut();
            watched.for_each(|watched| watched.retain(|watched| *watched != uri));
        }
        return Ok(());
    }
    let listener = listener_of(engine, session)?;
    let mut filter = listener.filter();
    let watched = filter.resource_subscriptions.get_or_insert_default();
    if watched.iter().any(|watched| *watched == uri) {
        return Ok(());
    }
    let (most, bytes) = (engine.limits.watched, engine.limits.watched_bytes);
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
    watched.push(uri.into_owned());
    Ok(())
}

/// What tells a session of changes: of every list, and of the resources it watches.
fn listener_of(engine: &Arc<Engine>, session: &Session) -> Result<Arc<Listener>, RpcError> {
    let live = session.live()?;
    Ok(live.listener(|| {
        let mut filter = SubscriptionFilter::default();
        filter.tools_list_changed = Some(true);
        filter.prompts_list_changed = Some(true);
        filter.resources_list_changed = Some(true);
        let listener = engine.listeners.add(filter);
        // What changed before the client came to listen: it may have listed already, even on a server before this one.
        let changed = engine.catalog().changed_since(session.made());
        let mut pending = listener.lock();
        pending.lists.tools |= changed.tools;
        pending.lists.prompts |= changed.prompts;
        pending.lists.resources |= changed.resources;
        drop(pending);
        listener
    }))
}

struct Listening {
    engine: Arc<Engine>,
    listener: Arc<Listener>,
    /// Which stream of the listener this is.
    stream: u64,
    _place: Open,
    id: RequestId,
    owner: String,
    /// Of a session: its messages belong to no request, and nothing begins or ends it.
    of_session: bool,
    notice: bool,
    stage: Stage,
}

#[derive(Clone, Copy)]
enum Stage {
    Opening,
    Open,
    Closing,
    Closed,
}

impl Listening {
    /// A notification that names the subscription it belongs to.
    fn notification<T: Serialize>(&self, method: &str, params: &T) -> Reply {
        if self.of_session {
            return Reply::notification(method, params);
        }
        let mut text = format!("{{\"_meta\":{{\"{}\":", meta::SUBSCRIPTION_ID).into_bytes();
        jsonrpc::append(&mut text, &self.id);
        text.push(b'}');
        modern::splice(&mut text, params);
        text.push(b'}');
        Reply::encoded_notification(jsonrpc::notification_with(method, &text))
    }

    /// One thing the listener has not been told.
    fn news(&self, cx: &Context<'_>) -> Option<Reply> {
        let mut pending = self.listener.lock();
        if pending.streams != self.stream {
            return None;
        }
        if std::mem::take(&mut pending.lists.tools) {
            return Some(self.notification(notification::TOOLS_CHANGED, &json!({})));
        }
        if std::mem::take(&mut pending.lists.prompts) {
            return Some(self.notification(notification::PROMPTS_CHANGED, &json!({})));
        }
        if std::mem::take(&mut pending.lists.resources) {
            return Some(self.notification(notification::RESOURCES_CHANGED, &json!({})));
        }
        if let Some(uri) = pending.updated.pop_first() {
            return Some(self.notification(notification::RESOURCE_UPDATED, &json!({ "uri": uri })));
        }
        while let Some(id) = pending.tasks.pop_first() {
            if let Ok(task) = self.engine.tasks.get(&id, &self.owner) {
                return Some(self.notification(notification::TASKS, &task));
            }
        }
        pending.waker = Some(cx.waker().clone());
        None
    }

    /// The server closes, or another stream has taken over.
    fn is_over(&self) -> bool {
        let pending = self.listener.lock();
        pending.closed || pending.streams != self.stream
    }

    fn end(&self) -> Reply {
        modern::encode(
            &self.id,
            Outcome::Unsubscribed(self.id.clone()),
            None,
            &self.engine.server_info,
        )
    }
}

impl Source for Listening {
    fn poll_reply(&mut self, cx: &mut Context<'_>) -> Poll<Option<Reply>> {
        match self.stage {
            Stage::Opening => {
                self.stage = Stage::Open;
                let notifications = json!({ "notifications": *self.listener.filter() });
                Poll::Ready(Some(
                    self.notification(notification::LISTEN_ACKNOWLEDGED, &notifications),
                ))
            }
            Stage::Open => match self.news(cx) {
                Some(reply) => Poll::Ready(Some(reply)),
                None if !self.is_over() => Poll::Pending,
                None if self.of_session => Poll::Ready(None),
                None if self.notice => {
                    self.stage = Stage::Closing;
                    let params = json!({ "requestId": self.id, "reason": "the server is closing" });
                    Poll::Ready(Some(Reply::notification(notification::CANCELLED, &params)))
                }
                None => {
                    self.stage = Stage::Closed;
                    Poll::Ready(Some(self.end()))
                }
            },
            Stage::Closing => {
                self.stage = Stage::Closed;
                Poll::Ready(Some(self.end()))
            }
            Stage::Closed => Poll::Ready(None),
        }
    }
}
