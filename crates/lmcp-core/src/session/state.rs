//! The state of a session.

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

/// The answer of a client to a question.
type ClientAnswer = Result<Box<RawValue>, NoAnswer>;

/// Why a question has no answer.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// The client answered with an error, or its session has ended.
    Error(RpcError),
    /// The client's revision has no such question. The words are for the handler that asked.
    Unaskable(String),
}

/// Questions that wait for an answer, and the wishes of the client.
#[derive(Default)]
pub struct SessionState {
    /// The id of the next question. Set by the first question.
    next: OnceLock<AtomicI64>,
    questions: Mutex<HashMap<i64, Waiting>>,
    /// The number of calls that only wait for answers.
    waiting: AtomicUsize,
    wishes: Mutex<Wishes>,
    /// The folders that the client named. The client is asked when a handler first needs them.
    folders: Mutex<Arc<Folders>>,
}

/// The folders that a client works in. Set when the client was asked.
pub(crate) type Folders = OnceCell<Box<[PathBuf]>>;

/// A handler that waits for an answer.
struct Waiting {
    /// The request of the handler that asked.
    request: RequestId,
    answer: oneshot::Sender<ClientAnswer>,
}

#[derive(Default)]
struct Wishes {
    level: Option<LoggingLevel>,
    listener: Option<Arc<Listener>>,
    /// The resources that the client watches at a service that does not use this crate's server, each with the memory that is
    /// set aside for it.
    watched: BTreeMap<String, Option<Reservation>>,
    /// The number of changes of `watched`.
    watch_changes: u64,
}

impl SessionState {
    /// Hands a client's answer to the handler that waits for it. `false`: no handler waits.
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

    /// Returns the questions of a cancelled request, so that the client can be told not to answer them. The handler is not
    /// told: it is stopped, and must not go on as if the client had refused.
    pub fn take_back(&self, request: &RequestId) -> Vec<RequestId> {
        let questions = self.lock();
        let asked = questions
            .iter()
            .filter(|(_, waiting)| waiting.request == *request);
        asked.map(|(id, _)| RequestId::Number(*id)).collect()
    }

    /// Whether the client has wishes that must be remembered.
    pub fn has_wishes(&self) -> bool {
        let wishes = self.wishes();
        let watches = |listener: &Arc<Listener>| listener.watches_something();
        wishes.level.is_some()
            || !wishes.watched.is_empty()
            || wishes.listener.as_ref().is_some_and(watches)
    }

    /// Whether the state holds anything that must not be lost: a wish of the client, or the folders that it named.
    pub fn is_worth_keeping(&self) -> bool {
        self.has_wishes() || self.folders().initialized()
    }

    /// Forgets the folders: the client works elsewhere now, and is asked again when a handler needs them.
    pub fn forget_folders(&self) {
        *self.folders.lock().unwrap_or_else(PoisonError::into_inner) = Arc::default();
    }

    /// The folders that the client works in. The first handler that needs them asks for them.
    pub(crate) fn folders(&self) -> Arc<Folders> {
        let folders = self.folders.lock();
        Arc::clone(&folders.unwrap_or_else(PoisonError::into_inner))
    }

    /// The number of calls of the session that only wait for the client's answers.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Acquire)
    }

    /// Counts a call that waits for answers, until the value is dropped.
    pub(crate) fn wait(self: &Arc<Self>) -> Waits {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        Waits(Arc::clone(self))
    }

    /// Makes a new question.
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

    /// Sets the lowest level of log messages that the client wants from now on.
    pub fn set_level(&self, level: LoggingLevel) {
        self.wishes().level = Some(level);
    }

    /// Remembers that the client watches a resource, for services that announce changes themselves. The resource is forgotten
    /// with the session, and its memory is given back.
    pub(crate) fn watch(&self, uri: &str, counted: Option<Reservation>) {
        let mut wishes = self.wishes();
        wishes.watched.insert(uri.to_owned(), counted);
        wishes.watch_changes += 1;
    }

    /// Forgets that the client watches this resource.
    pub fn unwatch(&self, uri: &str) {
        let mut wishes = self.wishes();
        wishes.watched.remove(uri);
        wishes.watch_changes += 1;
    }

    /// The resources that [`Request::watch`](crate::Request::watch) has remembered.
    pub fn watched(&self) -> Vec<String> {
        self.wishes().watched.keys().cloned().collect()
    }

    /// How often `watched` has changed. If the number is the same as before, the list need not be read again.
    pub fn watch_changes(&self) -> u64 {
        self.wishes().watch_changes
    }

    /// Whether the client watches this resource, or one above it.
    pub fn watches(&self, uri: &str) -> bool {
        let wishes = self.wishes();
        let mut watched = wishes.watched.keys();
        watched.any(|watched| lmcp_wire::resource::covers(watched, uri))
    }

    /// The listener that announces changes to this client. The first call makes it.
    pub(crate) fn listener(&self, make: impl FnOnce() -> Arc<Listener>) -> Arc<Listener> {
        Arc::clone(self.wishes().listener.get_or_insert_with(make))
    }

    pub(crate) fn known_listener(&self) -> Option<Arc<Listener>> {
        self.wishes().listener.clone()
    }

    /// Forgets the wishes of the client after a new handshake. Its stream stays, and announces only changes of lists.
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

/// Returns a random first id of questions, so that an answer to a question of an earlier session fits none of this one.
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

/// A call that waits for answers. Dropping it stops the counting.
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

    /// Makes the reply that puts the question to the client.
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
    /// The parameters as another server wrote them. They may have members that lmcp does not know.
    written: Option<Box<RawValue>>,
    asked: Asked,
}

/// The id of a question, and the state that its answer arrives in.
#[derive(Debug)]
pub(crate) struct Asked {
    id: i64,
    live: Arc<SessionState>,
}

impl Ask {
    /// The question.
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

    /// Tells the handler that waits that the question cannot be put.
    pub(crate) fn refuse(&self, words: String) {
        let question = self.live.lock().remove(&self.id);
        if let Some(question) = question {
            let _ = question.answer.send(Err(NoAnswer::Unaskable(words)));
        }
    }
}
