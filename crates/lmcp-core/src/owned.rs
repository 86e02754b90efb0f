//! [`Owned`]: a service that several callers share, while tasks and states can be used by the caller that got them only.
//!
//! A server behind a bridge or a hub sees one client, so it cannot know whose a task or a state is. This service stands in
//! front of the server. It signs the id of a task together with its caller, and seals the state of a call with its caller and
//! its request. Nothing is stored, so both stay valid across a restart with the same key. A server that starts anew with each
//! process may give its ids again, so there ids are bound to one start of the server ([`Starts`]).

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use lmcp_wire::{
    RpcError,
    members::Members,
    method::{notification, request},
    subscribe::ListenParams,
};
use ring::hmac;
use serde_json::value::{RawValue, to_raw_value};

use crate::{
    outcome::{Outcome, Payload},
    random,
    reply::{Notice, Reply},
    request::Request,
    seal::{Sealer, Subject},
    secret::equal,
    service::{Replies, Service, Source},
    task::unknown,
};

/// The key that signs the tasks and seals the states of an [`Owned`] service.
#[derive(Clone)]
pub struct OwnerKey(hmac::Key);

impl OwnerKey {
    /// Makes a random key. After a restart with another key, callers cannot use the tasks and states that they carry.
    pub fn random() -> Self {
        Self::from(random::bytes())
    }

    /// Makes another key of this one, for one of several programs that share it.
    #[must_use]
    pub fn within(&self, place: &str) -> Self {
        Self::from(self.derive("place", place))
    }

    fn derive(&self, purpose: &str, name: &str) -> [u8; 32] {
        let text = format!("lmcp {purpose} 1\0{name}");
        let mut key = [0; 32];
        key.copy_from_slice(hmac::sign(&self.0, text.as_bytes()).as_ref());
        key
    }
}

impl From<[u8; 32]> for OwnerKey {
    fn from(key: [u8; 32]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, &key))
    }
}

/// Counts the starts of a server that knows nothing of its earlier starts, such as a process.
pub trait Starts: Send + Sync + 'static {
    /// Returns the number of the start that runs now, or `None` while the server does not run, and the number of the start that a request
    /// reaches at the earliest.
    fn now(&self) -> (Option<u64>, u64);

    /// Lets a request reach this start of the server only.
    fn bind(&self, request: &mut Request, start: u64);
}

/// A service whose tasks and states belong to the callers that started them. For other callers a task does not exist, and a
/// state is refused. Put it around a service that stands for a remote server, to which all callers look the same. Cheap to
/// clone if the service is.
#[derive(Clone)]
pub struct Owned<S> {
    service: S,
    keys: Keys,
    starts: Option<Arc<dyn Starts>>,
}

#[derive(Clone)]
struct Keys(Arc<(hmac::Key, Sealer)>);

/// The start of a server that a request reaches: a part of its signatures. Always 0 for a server whose starts are not counted.
#[derive(Clone, Copy)]
struct Start {
    /// The start that the ids of the request must come from. `None`: no start runs that knows any.
    known: Option<u64>,
    /// The start that new ids are for.
    new: u64,
}

impl<S: Service> Owned<S> {
    /// Puts ownership around a service. The name tells the service from others with the same key: the tasks of one are unknown to another.
    pub fn new(service: S, key: &OwnerKey, name: &str) -> Self {
        let ids = hmac::Key::new(hmac::HMAC_SHA256, &key.derive("ids of tasks", name));
        let states = Sealer::new(&key.derive("states of servers", name));
        Self {
            service,
            keys: Keys((ids, states).into()),
            starts: None,
        }
    }

    /// Puts ownership around a server whose tasks end with its process: they are unknown to each later start. States stay valid, because
    /// a question may wait for longer than a process runs.
    pub fn of_process(service: S, key: &OwnerKey, name: &str, starts: Arc<dyn Starts>) -> Self {
        let ids = OwnerKey::random().derive("ids of tasks", name);
        let ids = hmac::Key::new(hmac::HMAC_SHA256, &ids);
        let states = Sealer::new(&key.derive("states of servers", name));
        Self {
            service,
            keys: Keys((ids, states).into()),
            starts: Some(starts),
        }
    }

    /// Returns the start that a request reaches, as far as that is known before it is sent.
    fn start(&self) -> Start {
        match self.starts.as_ref().map(|starts| starts.now()) {
            Some((known, new)) => Start { known, new },
            None => Start {
                known: Some(0),
                new: 0,
            },
        }
    }
}

impl<S: Service> Service for Owned<S> {
    fn call(&self, request: Request) -> Replies {
        let start = self.start();
        let (mut request, carries) = match self.keys.opened(request, start) {
            Ok(opened) => opened,
            Err(error) => return Replies::error(error),
        };
        // Between this look and the sending of the request, the server may be started again.
        if let (Carries::Own, Some(starts), Some(known)) = (carries, &self.starts, start.known) {
            starts.bind(&mut request, known);
        }
        let mut kept = request.clone();
        if request.method() == request::LISTEN {
            kept.forget_message();
        }
        let mut replies = self.service.call(request);
        let keys = self.keys.clone();
        match replies.take_ready() {
            Some(reply) => Replies::ready(keys.closed(reply, &kept, start.new)),
            None => Replies::from_source(Closing {
                replies,
                request: kept,
                keys,
                start,
                starts: self.starts.clone(),
            }),
        }
    }

    fn close(&self) {
        self.service.close();
    }

    fn hang_up(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.service.hang_up()
    }

    fn ping(&self) -> Pin<Box<dyn Future<Output = Result<(), RpcError>> + Send + '_>> {
        self.service.ping()
    }

    fn is_idle(&self) -> bool {
        self.service.is_idle()
    }
}

/// The replies to a request, with their tasks and states signed and sealed for its caller.
struct Closing {
    replies: Replies,
    request: Request,
    keys: Keys,
    start: Start,
    starts: Option<Arc<dyn Starts>>,
}

impl Closing {
    /// Returns whether a reply is news of a task that another start of the server may have sent: a subscription outlives its server.
    fn is_of_another_start(&self, reply: &Reply) -> bool {
        let is_of_task =
            matches!(reply, Reply::Notify(notice) if notice.method == notification::TASKS);
        let Some(starts) = self.starts.as_ref().filter(|_| is_of_task) else {
            return false;
        };
        starts.now().1 != self.start.new
    }
}

impl Source for Closing {
    fn poll_reply(&mut self, cx: &mut Context<'_>) -> Poll<Option<Reply>> {
        loop {
            let Some(reply) = std::task::ready!(self.replies.poll_next(cx)) else {
                return Poll::Ready(None);
            };
            if !self.is_of_another_start(&reply) {
                let closed = self.keys.closed(reply, &self.request, self.start.new);
                return Poll::Ready(Some(closed));
            }
        }
    }

    fn is_harmless(&self) -> bool {
        self.replies.is_harmless()
    }

    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.replies.poll_deadline(cx)
    }
}

/// Says whether a request carries an id of the server.
#[derive(Clone, Copy)]
enum Carries {
    Own,
    Nothing,
}

impl Keys {
    /// Returns the request in the form that the server knows: with its own ids and states.
    fn opened(&self, request: Request, start: Start) -> Result<(Request, Carries), RpcError> {
        let owner = request.caller().owner();
        match request.method() {
            request::TASKS_GET | request::TASKS_UPDATE | request::TASKS_CANCEL => {
                let id = request.target()?;
                // A client that does not know tasks gets that error first, whatever the id.
                if request.has_tasks() {
                    request.expect_tasks()?;
                }
                let own = self.task_of(&id, &owner, start.known);
                let own = own.ok_or_else(|| unknown(&id))?.to_owned();
                Ok((request.with_param("taskId", &own)?, Carries::Own))
            }
            // Only the ids could tell whose the tasks of a list are, and the server writes its own ids there. So the method
            // does not exist.
            method if method.starts_with("tasks/") => Err(RpcError::method_not_found(method)),
            request::LISTEN => {
                let ListenParams { notifications, .. } = request.params()?;
                let Some(ids) = notifications.task_ids else {
                    return Ok((request, Carries::Nothing));
                };
                let own = ids.iter();
                let own = own.filter_map(|id| self.task_of(id, &owner, start.known));
                let own: Vec<_> = own.collect();
                let whole: Members<'_> = request.params()?;
                let filter = whole.get("notifications").map(ToOwned::to_owned);
                let filter = filter.unwrap_or_default();
                let mut filter = Members::read(filter.get()).unwrap_or_default();
                filter.set("taskIds", &own);
                let carries = match own.is_empty() {
                    true => Carries::Nothing,
                    false => Carries::Own,
                };
                Ok((request.with_param("notifications", &filter)?, carries))
            }
            _ => {
                let request = match self.0.1.open_of::<String>(&request)? {
                    Some(state) => request.with_param("requestState", &state)?,
                    None => request,
                };
                Ok((request, Carries::Nothing))
            }
        }
    }

    /// Returns a reply in the form that the caller of the request gets.
    fn closed(&self, reply: Reply, request: &Request, start: u64) -> Reply {
        match reply {
            Reply::Done(Ok(outcome)) => Reply::Done(self.outcome(outcome, request, start)),
            Reply::Notify(notice) => {
                Reply::Notify(self.notice(notice, &request.caller().owner(), start))
            }
            other => other,
        }
    }

    fn outcome(
        &self,
        mut outcome: Outcome,
        request: &Request,
        start: u64,
    ) -> Result<Outcome, RpcError> {
        let owner = request.caller().owner();
        match &mut outcome.payload {
            Payload::InputRequired(required) => {
                if let Some(state) = &mut required.request_state {
                    *state = self.sealed(state, request)?;
                }
            }
            Payload::TaskCreated(task) | Payload::Task(task) => {
                task.task_id = self.signed(&task.task_id, &owner, start);
            }
            Payload::Raw(result) => {
                if let Some(changed) = self.result(result, request, &owner, start)? {
                    *result = changed;
                }
            }
            _ => {}
        }
        Ok(outcome)
    }

    /// Changes a result that is passed on. `None`: the result contains neither a task nor a state.
    fn result(
        &self,
        result: &RawValue,
        request: &Request,
        owner: &str,
        start: u64,
    ) -> Result<Option<Box<RawValue>>, RpcError> {
        // Most results contain neither member, and need not be parsed. If a result hides the name by escapes, its id or state
        // stays as it is, and the caller cannot use it: without a signature it is refused.
        if !result.get().contains(TASK_ID) && !result.get().contains(STATE) {
            return Ok(None);
        }
        if !result.get().starts_with('{') {
            return Ok(None);
        }
        let refused = |err| RpcError::internal(format!("the result cannot be passed on: {err}"));
        let mut members = Members::read(result.get()).map_err(refused)?;
        if let Some(id) = text(members.get(TASK_ID)) {
            members.set(TASK_ID, &self.signed(&id, owner, start));
        }
        if let Some(state) = text(members.get(STATE)) {
            let sealed = self.sealed(&state, request)?;
            members.set(STATE, &sealed);
        }
        Ok(to_raw_value(&members).ok())
    }

    fn notice(&self, mut notice: Notice, owner: &str, start: u64) -> Notice {
        let changed = match &*notice.method {
            notification::TASKS => self.task_notice(&notice.params, owner, start),
            notification::LISTEN_ACKNOWLEDGED => self.acknowledged(&notice.params, owner, start),
            _ => None,
        };
        if let Some(params) = changed {
            notice.params = params;
        }
        notice
    }

    fn task_notice(&self, params: &RawValue, owner: &str, start: u64) -> Option<Box<RawValue>> {
        let mut members = Members::read(params.get()).ok()?;
        let id = text(members.get(TASK_ID))?;
        members.set(TASK_ID, &self.signed(&id, owner, start));
        to_raw_value(&members).ok()
    }

    fn acknowledged(&self, params: &RawValue, owner: &str, start: u64) -> Option<Box<RawValue>> {
        let mut members = Members::read(params.get()).ok()?;
        let filter = members.get("notifications")?.to_owned();
        let mut filter = Members::read(filter.get()).ok()?;
        let ids: Vec<String> = serde_json::from_str(filter.get("taskIds")?.get()).ok()?;
        let ids: Vec<_> = ids.iter().map(|id| self.signed(id, owner, start)).collect();
        filter.set("taskIds", &ids);
        members.set("notifications", &filter);
        to_raw_value(&members).ok()
    }

    /// Returns the id of a task in the form that its owner gets. It is always the same.
    fn signed(&self, id: &str, owner: &str, start: u64) -> String {
        format!("{id}.{}", self.signature(id, owner, start))
    }

    /// Returns the server's id of a task, if the task belongs to this owner and to this start of the server.
    fn task_of<'a>(&self, signed: &'a str, owner: &str, start: Option<u64>) -> Option<&'a str> {
        let (id, signature) = signed.rsplit_once('.')?;
        let expected = self.signature(id, owner, start?);
        equal(signature.as_bytes(), expected.as_bytes()).then_some(id)
    }

    fn sealed(&self, state: &str, request: &Request) -> Result<String, RpcError> {
        self.0.1.seal_foreign(&state, Subject::of(request))
    }

    fn signature(&self, id: &str, owner: &str, start: u64) -> String {
        // The length separates the owner from the id, whatever characters they have.
        let text = format!("{start}:{}:{owner}{id}", owner.len());
        let whole = hmac::sign(&self.0.0, text.as_bytes());
        // Half of SHA-256 is enough: nobody guesses 128 bits.
        let half = whole.as_ref().get(..16).unwrap_or_default();
        URL_SAFE_NO_PAD.encode(half)
    }
}

const TASK_ID: &str = "taskId";
const STATE: &str = "requestState";

fn text(raw: Option<&RawValue>) -> Option<String> {
    serde_json::from_str(raw?.get()).ok()
}

impl fmt::Debug for OwnerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnerKey")
    }
}

impl<S> fmt::Debug for Owned<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Owned")
    }
}
