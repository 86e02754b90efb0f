//! What goes on in a session now.

use std::{
    collections::{BTreeMap, HashMap},
    future::poll_fn,
    path::PathBuf,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicI64, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use lmcp_wire::{LoggingLevel, RequestId, RpcError, input::InputRequest};
use serde_json::value::RawValue;
use tokio::sync::{OnceCell, oneshot};

use crate::{budget::Reservation, random, subscribe::Listener};

/// What a client said to a question.
type ClientAnswer = Result<Box<RawValue>, NoAnswer>;

/// Why a question has no answer.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// The client answered with an error, or its session has ended.
    Error(RpcError),
    /// The client's revision has no way to ask it, in words for whoever asked.
    Unaskable(String),
}

/// Questions that wait for an answer, and what the client wished for.
#[derive(Default)]
pub struct SessionState {
    /// The id of the next question; none before the first.
    next: OnceLock<AtomicI64>,
    questions: Mutex<HashMap<i64, Waiting>>,
    /// Calls that do nothing but wait for answers.
    waiting: AtomicUsize,
    wishes: Mutex<Wishes>,
    /// Where the client works, as it said; not asked before somebody needs it.
    folders: Mutex<Arc<Folders>>,
}

/// The folders that a client works in, once it was asked.
pub(crate) type Folders = OnceCell<Box<[PathBuf]>>;

/// Somebody waits for an answer.
struct Waiting {
    /// The request in which it was asked.
    request: RequestId,
    answer: oneshot::Sender<ClientAnswer>,
}

#[derive(Default)]
struct Wishes {
    level: Option<LoggingLevel>,
    listener: Option<Arc<Listener>>,
    /// Resources that it watches at a service which is no server of this crate, each with the memory that is set aside for it.
    watched: BTreeMap<String, Option<Reservation>>,
    /// How often that has changed.
    watch_changes: u64,
}

impl SessionState {
    /// Hands a client's answer to whoever waits for it. `false`: nobody does.
    pub fn answer(&self, id: Option<&RequestId>, outcome: Result<&RawValue, RpcError>) -> bool {
        let Some(RequestId::Number(id)) = id else {
            return false;
        };
        let Some(question) = self.lock().remove(id) else {
            return false;
        };
        let answer = outcome.map(ToOwned::to_owned).map_err(NoAnswer::Error);
        question.answer.send(answer).is_ok()
    }

    /// The questions that need not be answered when a request is cancelled: the client is to be told. Who asked hears
    /// nothing of it; it is stopped, and must not go on as if it had been refused.
    pub fn take_back(&self, request: &RequestId) -> Vec<RequestId> {
        let questions = self.lock();
        let asked = questions
            .iter()
            .filter(|(_, waiting)| waiting.request == *request);
        asked.map(|(id, _)| RequestId::Number(*id)).collect()
    }

    /// Did the client wish for anything that must be remembered?
    pub fn has_wishes(&self) -> bool {
        let wishes = self.wishes();
        let watches = |listener: &Arc<Listener>| listener.watches_something();
        wishes.level.is_some()
            || !wishes.watched.is_empty()
            || wishes.listener.as_ref().is_some_and(watches)
    }

    /// Is there anything that would be lost with it: a wish of the client, or what it was asked once and for all?
    pub fn is_worth_keeping(&self) -> bool {
        self.has_wishes() || self.folders().initialized()
    }

    /// The client works elsewhere now: it is asked again by the next who needs to know.
    pub fn forget_folders(&self) {
        *self.folders.lock().unwrap_or_else(PoisonError::into_inner) = Arc::default();
    }

    /// The folders that the client works in: asked for once, by the first who needs them.
    pub(crate) fn folders(&self) -> Arc<Folders> {
        let folders = self.folders.lock();
        Arc::clone(&folders.unwrap_or_else(PoisonError::into_inner))
    }

    /// How many calls of the session do nothing but wait for the client's answers.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Acquire)
    }

    /// Counts a call that waits for answers, for as long as it does.
    pub(crate) fn wait(self: &Arc<Self>) -> Waits {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        Waits(Arc::clone(self))
    }

    /// A new question.
    pub(crate) fn question(self: &Arc<Self>, request: &RequestId) -> Question {
        let next = self.next.get_or_init(|| AtomicI64::new(anywhere()));
        let id = next.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        let waiting = Waiting {
            request: request.clone(),
            answer,
        };
        self.lock().insert(id, waiting);
        Question {
            id,
            answered,
            live: Arc::clone(self),
        }
    }

    pub(crate) fn level(&self) -> Option<LoggingLevel> {
        self.wishes().level
    }

    /// From now on the client wants log messages of this level and above.
    pub fn set_level(&self, level: LoggingLevel) {
        self.wishes().level = Some(level);
    }

    /// Remembers that the client watches a resource, for services that tell clients of changes by themselves. It is forgotten
    /// with the session, and the memory that was set aside for it is given back.
    pub(crate) fn watch(&self, uri: &str, counted: Option<Reservation>) {
        let mut wishes = self.wishes();
        wishes.watched.insert(uri.to_owned(), counted);
        wishes.watch_changes += 1;
    }

    /// The client watches this resource no longer.
    pub(crate) fn unwatch(&self, uri: &str) {
        let mut wishes = self.wishes();
        wishes.watched.remove(uri);
        wishes.watch_changes += 1;
    }

    /// What [`Request::watch`](crate::Request::watch) has remembered.
    pub fn watched(&self) -> Vec<String> {
        self.wishes().watched.keys().cloned().collect()
    }

    /// How often that has changed: where it has not, there is no need to look at all of it again.
    pub fn watch_changes(&self) -> u64 {
        self.wishes().watch_changes
    }

    /// Is this one of them, or below one?
    pub fn watches(&self, uri: &str) -> bool {
        let wishes = self.wishes();
        let mut watched = wishes.watched.keys();
        watched.any(|watched| lmcp_wire::resource::covers(watched, uri))
    }

    /// What tells this client of changes; made by the first who needs it.
    pub(crate) fn listener(&self, make: impl FnOnce() -> Arc<Listener>) -> Arc<Listener> {
        Arc::clone(self.wishes().listener.get_or_insert_with(make))
    }

    pub(crate) fn known_listener(&self) -> Option<Arc<Listener>> {
        self.wishes().listener.clone()
    }

    /// The client begins anew: its stream stays, and tells of lists alone.
    pub(crate) fn forget_wishes(&self) {
        self.forget_folders();
        let mut wishes = self.wishes();
        wishes.level = None;
        wishes.watched.clear();
        wishes.watch_changes += 1;
        if let Some(listener) = &wishes.listener {
            listener.watch_nothing();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<i64, Waiting>> {
        self.questions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn wishes(&self) -> MutexGuard<'_, Wishes> {
        self.wishes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where ids of questions begin: anywhere, so that an answer to a question of an earlier life meets none of this one.
fn anywhere() -> i64 {
    i64::from(u32::from_be_bytes(random::bytes())) << 16
}

impl std::fmt::Debug for SessionState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionState")
            .field("questions", &self.lock().len())
            .finish_non_exhaustive()
    }
}

/// A call that waits for answers.
#[derive(Debug)]
pub(crate) struct Waits(Arc<SessionState>);

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A question on its way. Dropping it forgets the question.
#[derive(Debug)]
pub(crate) struct Question {
    id: i64,
    answered: oneshot::Receiver<ClientAnswer>,
    live: Arc<SessionState>,
}

impl Question {
    pub(crate) fn id(&self) -> RequestId {
        RequestId::Number(self.id)
    }

    /// What puts it to the client.
    pub(crate) fn ask(&self, question: InputRequest, written: Option<Box<RawValue>>) -> Ask {
        Ask {
            question,
            written,
            asked: Asked {
                id: self.id,
                live: Arc::clone(&self.live),
            },
        }
    }

    pub(crate) fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<ClientAnswer> {
        let gone = |_| NoAnswer::Error(RpcError::internal("the session has ended"));
        let answered = Pin::new(&mut self.answered).poll(cx);
        answered.map(|answered| answered.map_err(gone)?)
    }

    pub(crate) async fn answer(&mut self) -> ClientAnswer {
        poll_fn(|cx| self.poll_answer(cx)).await
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        self.live.lock().remove(&self.id);
    }
}

/// A question that is put to the client while the call goes on, and whose answer arrives in the session.
#[derive(Debug)]
pub struct Ask {
    question: InputRequest,
    /// The parameters as another server wrote them: they may have members that nobody here knows.
    written: Option<Box<RawValue>>,
    asked: Asked,
}

/// What the answer to a question is known by.
#[derive(Debug)]
pub(crate) struct Asked {
    id: i64,
    live: Arc<SessionState>,
}

impl Ask {
    /// What is asked.
    pub fn question(&self) -> &InputRequest {
        &self.question
    }

    pub(crate) fn split(self) -> (InputRequest, Option<Box<RawValue>>, Asked) {
        (self.question, self.written, self.asked)
    }
}

impl Asked {
    pub(crate) fn id(&self) -> RequestId {
        RequestId::Number(self.id)
    }

    /// The question cannot be put: whoever waits is told.
    pub(crate) fn refuse(&self, words: String) {
        let question = self.live.lock().remove(&self.id);
        if let Some(question) = question {
            let _ = question.answer.send(Err(NoAnswer::Unaskable(words)));
        }
    }
}
