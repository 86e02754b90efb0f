//! The state of one server, shared between its callers and the task that speaks with it.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use lmcp_client::{
    Route,
    conversation::{Call, Conversation, Ids, Output, Peer, Profile},
};
use lmcp_core::{
    Account, Tasks,
    client::{Answerer, Asked},
    try_later,
};
use lmcp_wire::{
    Object, RpcError, input::InputRequest, members::Members, meta, method::notification,
};
use serde::Deserialize;
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, timeout},
};

use crate::{
    callers::{Callers, Client},
    health::Health,
    held::HeldCalls,
    limits::{CALLS, GRANT_WAIT},
    listeners::Listeners,
    mirrored::Mirrored,
    news::News,
    slot::{Question, Room, Slot},
    turns::Turns,
};

/// The state that callers and the task share.
pub(crate) struct Shared {
    pub(crate) route: Route,
    pub(crate) profile: Profile,
    pub(crate) ids: Ids,
    pub(crate) answer: Option<Answerer>,
    pub(crate) hear: Option<Hear>,
    pub(crate) health: Option<Arc<Health>>,
    pub(crate) held: HeldCalls,
    /// `None`: headers are not checked.
    pub(crate) mirrored: Option<Mirrored>,
    state: Mutex<State>,
    /// The room for messages to all callers.
    pub(crate) room: Room,
    /// Notified when something is to be sent.
    pub(crate) woken: Notify,
    pub(crate) status: watch::Sender<Status>,
    /// The number of callers that wait for a server.
    wanting: AtomicUsize,
    /// Questions that are being answered.
    answering: Tasks,
}

/// Gets log messages that belong to no call.
pub(crate) type Hear = Arc<dyn Fn(&RawValue) + Send + Sync>;

/// The state of the connection.
#[derive(Debug, Default)]
pub(crate) struct Status {
    /// The server, while it is there.
    pub(crate) peer: Option<Arc<Peer>>,
    /// The number of times that the server opened.
    pub(crate) opened: u64,
    /// The number of times that the server could not be reached. A caller that waits is told the next failure, whatever
    /// comes after it.
    failures: u64,
    /// The error of the last failure.
    error: Option<RpcError>,
}

pub(crate) struct State {
    pub(crate) conversation: Conversation,
    pub(crate) slots: BTreeMap<i64, Taker>,
    /// Calls that the server gets later.
    turns: Turns<Call>,
    /// The call that each question was given to.
    asked: HashMap<u64, i64>,
    pub(crate) listeners: Listeners,
    pub(crate) callers: Callers,
    /// When the server ended the subscriptions, if clients were not told yet.
    pub(crate) listening_ended: Option<Instant>,
    is_closed: bool,
}

impl State {
    /// Forgets a call that has ended, with its questions.
    fn forget(&mut self, id: i64) -> Option<Taker> {
        if !self.asked.is_empty() {
            self.asked.retain(|_, call| *call != id);
        }
        let taker = self.slots.remove(&id)?;
        self.turns.leave(id);
        while let Some(next) = self.turns.next() {
            self.conversation.call(next);
        }
        Some(taker)
    }
}

/// The origin of a call; by default, this process itself.
#[derive(Default)]
pub(crate) struct Origin {
    /// The client that the call belongs to.
    pub(crate) client: Option<Client>,
    /// Whether the client can be asked something.
    pub(crate) is_askable: bool,
    /// The account that pays for a long answer.
    pub(crate) account: Option<Account>,
    /// The start of the server that the call is for; `None`: any.
    pub(crate) start: Option<AtStart>,
}

/// The receiver of an answer.
pub(crate) struct Taker {
    pub(crate) slot: Arc<Slot>,
    /// Whether the client can be asked something.
    pub(crate) is_askable: bool,
    /// The client that the call belongs to; `None` if this process asks for itself.
    client: Option<Client>,
    /// The start of the server that the call is for; `None`: any.
    start: Option<AtStart>,
}

/// Binds a request to one start of a server. Put it into the [extensions](lmcp_core::Request::extend) of the request. If the
/// server was lost since that start, the request fails, and the next start of the server never gets it. Use it for a caller
/// that decides by an earlier listing of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtStart(u64);

impl AtStart {
    /// Names the start with this number, as [`times_opened`](crate::Upstream::times_opened) counts them.
    pub fn new(times_opened: u64) -> Self {
        Self(times_opened)
    }
}

impl Shared {
    pub(crate) fn new(
        route: Route,
        profile: Profile,
        answer: Option<Answerer>,
        hear: Option<Hear>,
        health: Option<Arc<Health>>,
        checks_headers: bool,
    ) -> Self {
        let ids = Ids::default();
        let state = State {
            conversation: Conversation::new(profile.clone(), ids.clone()),
            slots: BTreeMap::new(),
            turns: Turns::new(route.places()),
            asked: HashMap::new(),
            listeners: Listeners::default(),
            callers: Callers::default(),
            listening_ended: None,
            is_closed: false,
        };
        Self {
            route,
            profile,
            ids,
            answer,
            hear,
            health,
            held: HeldCalls::default(),
            mirrored: checks_headers.then(Mirrored::default),
            state: Mutex::new(state),
            room: Room::default(),
            woken: Notify::new(),
            status: watch::Sender::new(Status::default()),
            wanting: AtomicUsize::new(0),
            answering: Tasks::default(),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a call.
    pub(crate) fn begin(&self, call: Call, origin: Origin) -> Result<Arc<Slot>, RpcError> {
        let Origin {
            client,
            is_askable,
            account,
            start,
        } = origin;
        let mut state = self.lock();
        if state.is_closed {
            return Err(closed());
        }
        if start.is_some_and(|AtStart(start)| start != self.times_opened()) {
            return Err(started_again());
        }
        if state.slots.len() >= CALLS {
            let words = format!("{CALLS} calls wait for the server already; try again later");
            return Err(try_later(words, "upstream_calls", CALLS));
        }
        if let Some(client) = &client {
            state.callers.called(client);
        }
        let slot = Arc::new(Slot::of_call(&call.method, account, self.room.clone()));
        let id = call.id;
        let call = match &client {
            Some(client) => state.turns.come(&client.owner, id, call),
            None => Some(call),
        };
        let taker = Taker {
            slot: Arc::clone(&slot),
            is_askable,
            client,
            start,
        };
        state.slots.insert(id, taker);
        if let Some(call) = call {
            state.conversation.call(call);
        }
        drop(state);
        self.woken.notify_one();
        Ok(slot)
    }

    pub(crate) fn cancel(&self, id: i64) {
        let mut state = self.lock();
        if state.forget(id).is_some() {
            state.conversation.cancel(id);
            drop(state);
            self.woken.notify_one();
        }
    }

    pub(crate) fn answer(&self, question: u64, answer: Result<&RawValue, &RpcError>) {
        let mut state = self.lock();
        state.asked.remove(&question);
        state.conversation.answer(question, answer);
        drop(state);
        self.woken.notify_one();
    }

    /// Returns the server, and waits until it has opened.
    pub(crate) async fn peer(&self) -> Result<Arc<Peer>, RpcError> {
        if let Some(peer) = &self.status.borrow().peer {
            return Ok(Arc::clone(peer));
        }
        let mut status = self.status.subscribe();
        let failures = {
            let now = status.borrow_and_update();
            if let Some(peer) = &now.peer {
                return Ok(Arc::clone(peer));
            }
            now.failures
        };
        if self.lock().is_closed {
            return Err(closed());
        }
        let _wanting = Wanting::new(self);
        self.woken.notify_one();
        loop {
            if status.changed().await.is_err() {
                return Err(closed());
            }
            let now = status.borrow_and_update();
            if let Some(peer) = &now.peer {
                return Ok(Arc::clone(peer));
            }
            if now.failures > failures {
                return Err(now.error.clone().unwrap_or_else(closed));
            }
        }
    }

    /// Waits until the server has confirmed all wishes. The time is limited, because some servers never confirm.
    pub(crate) async fn granted(&self) -> Result<(), RpcError> {
        let mut status = self.status.subscribe();
        let failures = status.borrow_and_update().failures;
        let granted = async {
            while !self.lock().conversation.is_granted() {
                if status.changed().await.is_err() {
                    return Err(closed());
                }
                let now = status.borrow_and_update();
                if now.failures > failures {
                    return Err(now.error.clone().unwrap_or_else(closed));
                }
            }
            Ok(())
        };
        timeout(GRANT_WAIT, granted).await.unwrap_or(Ok(()))
    }

    /// Fails all calls that wait and ends all subscriptions, because no server will be there soon.
    pub(crate) fn give_up(&self, error: &RpcError) {
        let mut state = self.lock();
        state.end_listening(&Err(error.clone()));
        for id in state.turns.give_up() {
            if let Some(taker) = state.forget(id) {
                taker.slot.done(Err(error.clone()));
            }
        }
        state.conversation.give_up(error);
    }

    /// Notes that the server cannot be reached, or is not an MCP server.
    pub(crate) fn failed(&self, error: RpcError) {
        self.status.send_modify(|status| {
            status.peer = None;
            status.failures += 1;
            status.error = Some(error);
        });
    }

    /// Reports a failure in the log.
    pub(crate) fn complain(&self, why: &str) {
        if let Some(health) = &self.health {
            health.failed(why);
        }
    }

    /// Notes that the server has opened, or is lost.
    pub(crate) fn is_there(&self, peer: Option<Arc<Peer>>) {
        if let (Some(health), Some(_)) = (&self.health, &peer) {
            health.there();
        }
        self.status.send_modify(|status| {
            status.opened += u64::from(peer.is_some());
            status.peer = peer;
        });
    }

    /// Is the server there now?
    pub(crate) fn is_open(&self) -> bool {
        self.status.borrow().peer.is_some()
    }

    /// How often the server was there.
    pub(crate) fn times_opened(&self) -> u64 {
        self.status.borrow().opened
    }

    /// Learns from one page of the server's tools.
    pub(crate) fn learn(&self, page: &RawValue) {
        if let Some(mirrored) = &self.mirrored {
            mirrored.learn(self.times_opened(), page);
        }
    }

    /// Returns whether a caller wants a server.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanting.load(Ordering::Acquire) > 0 || self.lock().conversation.wants_server()
    }

    /// Notes that a connection is open, to a server that knows no caller yet.
    pub(crate) fn opened(&self) {
        let mut state = self.lock();
        state.conversation.opened();
        state.listening_ended = None;
        // Nothing was sent yet, so calls for an earlier start of the server have not begun.
        let bound = state.slots.iter().filter(|(_, it)| it.start.is_some());
        let bound: Vec<i64> = bound.map(|(id, _)| *id).collect();
        for id in bound {
            state.conversation.cancel(id);
            if let Some(taker) = state.forget(id) {
                taker.slot.done(Err(started_again()));
            }
        }
        let State { slots, callers, .. } = &mut *state;
        callers.begin_again(slots.values().filter_map(|taker| taker.client.as_ref()));
    }

    /// Takes a line of the server. `false`: the server writes only rubbish.
    pub(crate) fn hear_line(&self, line: &bytes::Bytes) -> bool {
        let conversation = &mut self.lock().conversation;
        conversation.line(line);
        !conversation.is_rubbish()
    }

    /// Handles the events of the conversation, and returns the lines to send.
    pub(crate) fn settle(self: &Arc<Self>) -> Settled {
        let mut settled = Settled::default();
        let mut state = self.lock();
        while let Some(output) = state.conversation.output() {
            match output {
                Output::Send(line) => settled.lines.push(line),
                Output::Ready(peer) => {
                    self.is_there(Some(peer));
                    if self.times_opened() > 1 {
                        state.listeners.may_have_changed();
                    }
                }
                Output::Unfit(error) => {
                    self.complain(&error.message);
                    // Another try may help if only the connection broke.
                    let data = error.data.as_ref();
                    if data.is_none_or(|data| data["retriable"] != true) {
                        state.end_listening(&Err(error.clone()));
                    }
                    self.failed(error);
                    settled.is_over = true;
                }
                Output::Progress(id, params) => {
                    if let Some(taker) = state.slots.get(&id) {
                        taker.slot.progress(params);
                    }
                }
                Output::Done(id, result) => {
                    if let Some(taker) = state.forget(id) {
                        taker.slot.done(result);
                    }
                }
                Output::Heard(method, params) => self.heard(&mut state, &method, params),
                Output::Asked(number, method, params) => {
                    let question = Question {
                        number,
                        method,
                        params,
                    };
                    self.asked(&mut state, question);
                }
                Output::ListeningEnded(Ok(())) => state.listening_ended = Some(Instant::now()),
                Output::ListeningEnded(Err(error)) => state.end_listening(&Err(error)),
                Output::ListensAgain => state.listeners.may_have_changed(),
                Output::WishesRefused(error) => state.refuse_wishes(error),
                // Waiting callers check again.
                Output::Granted => self.status.send_modify(|_| {}),
                Output::TakenBack(number) => {
                    let asked = state.asked.remove(&number);
                    if let Some(taker) = asked.and_then(|id| state.slots.get(&id)) {
                        taker.slot.take_back(number);
                    }
                }
                _ => {}
            }
        }
        settled
    }

    fn heard(&self, state: &mut State, method: &str, params: Box<RawValue>) {
        if method == notification::TOOLS_CHANGED
            && let Some(mirrored) = &self.mirrored
        {
            mirrored.forget();
        }
        if state.listeners.hear(method, &params) {
            return;
        }
        if method == notification::MESSAGE
            && let Some(hear) = &self.hear
        {
            return hear(&params);
        }
        // Where several call, or called before, nobody can tell whose call it is about, and it may be for one of them alone.
        // What this process asks for itself is nobody's.
        let takers = state.slots.values();
        let mut calls = takers.filter_map(|taker| Some((&taker.slot, taker.client.as_ref()?)));
        if let (Some((slot, client)), None) = (calls.next(), calls.next())
            && state.callers.are_only(&client.owner)
        {
            slot.notice(News::new(method, params));
        }
    }

    /// Passes a question to the common answerer, if there is one, or to the call that began last, because servers usually
    /// ask at once. A question does not say which call it is about, and one client must not answer for another. So nobody is
    /// asked where several clients call, nor where the server has ever heard of another owner: it may ask about a call that
    /// has ended.
    fn asked(self: &Arc<Self>, state: &mut State, question: Question) {
        if let Some(answer) = &self.answer {
            return self.answer_with(Arc::clone(answer), &question);
        }
        let takers = state.slots.values();
        let mut clients = takers.filter_map(|taker| taker.client.as_ref());
        let is_one = clients.next().is_none_or(|first| {
            state.callers.are_only(&first.owner) && clients.all(|client| client == first)
        });
        let mut takers = state.slots.iter().rev();
        let taker = takers.find(|(_, taker)| taker.is_askable && is_one);
        if let Some((id, taker)) = taker {
            state.asked.insert(question.number, *id);
            taker.slot.question(question);
            return;
        }
        let words = match is_one {
            true => "no call goes on whose client could be asked",
            false => {
                "several clients use this server, and nobody can tell whose call the question is about; `lmcp bridge \
                 --per-client`, or `isolate = \"session\"` in a hub, gives every client a server of its own"
            }
        };
        let error = RpcError::invalid_request(words);
        state.conversation.answer(question.number, Err(&error));
    }

    fn answer_with(self: &Arc<Self>, answer: Answerer, question: &Question) {
        let asked = InputRequest::read(&question.method, &question.params);
        let key = key_of(&question.params);
        let (number, shared) = (question.number, Arc::downgrade(self));
        // The answer runs on a task of its own: people think long, and the state is locked here.
        self.answering.spawn(async move {
            let answered = match asked {
                Some(asked) => answer(Asked::new(key, asked)).await,
                None => Err(RpcError::invalid_params("the question cannot be read")),
            };
            let answered = answered.and_then(|answer| {
                to_raw_value(&answer).map_err(|err| RpcError::internal(err.to_string()))
            });
            if let Some(shared) = shared.upgrade() {
                shared.answer(number, answered.as_deref());
            }
        });
    }

    /// Fails all calls, because the task has ended.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        for taker in std::mem::take(&mut state.slots).into_values() {
            taker.slot.done(Err(closed()));
        }
        state.listeners.close();
        drop(state);
        self.held.clear();
        self.failed(closed());
    }
}

/// The result of a turn.
#[derive(Default)]
pub(crate) struct Settled {
    pub(crate) lines: Vec<bytes::Bytes>,
    /// The client and the server have no common revision.
    pub(crate) is_over: bool,
}

/// Returns a question as a member of an answer.
pub(crate) fn question<'a>(method: &str, params: &RawValue) -> Members<'a> {
    let mut question = Members::default();
    question.set("method", method);
    question.set("params", params);
    question
}

/// Counts a caller that waits for a server.
struct Wanting<'a>(&'a Shared);

impl<'a> Wanting<'a> {
    fn new(shared: &'a Shared) -> Self {
        shared.wanting.fetch_add(1, Ordering::AcqRel);
        Self(shared)
    }
}

impl Drop for Wanting<'_> {
    fn drop(&mut self) {
        self.0.wanting.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Returns the key of a question, which only a server in this process sets.
fn key_of(params: &RawValue) -> String {
    #[derive(Default, Deserialize)]
    struct Params {
        #[serde(default, rename = "_meta")]
        meta: Object,
    }
    let params: Params = serde_json::from_str(params.get()).unwrap_or_default();
    let key = params.meta.get(meta::KEY).and_then(Value::as_str);
    key.unwrap_or_default().to_owned()
}

/// Makes the error for a call that was for another start of the server.
fn started_again() -> RpcError {
    let words = "the server was started again; the request was not sent, and can be tried again";
    RpcError::internal(words)
        .with_data(json!({ "retriable": true, "fault": "transport", "began": false }))
}

fn closed() -> RpcError {
    RpcError::internal("the client is closed")
        .with_data(json!({ "retriable": false, "fault": "transport" }))
}

#[cfg(test)]
mod tests;
