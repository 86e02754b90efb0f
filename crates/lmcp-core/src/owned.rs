//! [`Owned`]: a service that several callers share, while tasks and states can be used by the caller that got them only.
//!
//! A server behind a bridge or a hub sees one client, so it cannot know whose a task or a state is. This service stands in
//! front of the server. It signs the id of a task together with its caller, and seals the state of a call with its caller and
//! its request. Nothing is stored, so both stay valid across a restart with the same key.

use std::{
    fmt,
    pin::Pin,
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

/// A service whose tasks and states belong to the callers that started them. For other callers a task does not exist, and a
/// state is refused. Put it around a service that stands for a remote server, to which all callers look the same. Cheap to
/// clone if the service is.
#[derive(Clone)]
pub struct Owned<S> {
    service: S,
    keys: Keys,
}

#[derive(Clone)]
struct Keys(std::sync::Arc<(hmac::Key, Sealer)>);

impl<S: Service> Owned<S> {
    /// Puts ownership around a service. The name tells the service from others with the same key: the tasks of one are unknown to another.
    pub fn new(service: S, key: &OwnerKey, name: &str) -> Self {
        let ids = hmac::Key::new(hmac::HMAC_SHA256, &key.derive("ids of tasks", name));
        let states = Sealer::new(&key.derive("states of servers", name));
        Self {
            service,
            keys: Keys((ids, states).into()),
        }
    }
}

impl<S: Service> Service for Owned<S> {
    fn call(&self, request: Request) -> Replies {
        let request = match self.keys.opened(request) {
            Ok(request) => request,
            Err(error) => return Replies::error(error),
        };
        let mut kept = request.clone();
        if request.method() == request::LISTEN {
            kept.forget_message();
        }
        let mut replies = self.service.call(request);
        let keys = self.keys.clone();
        match replies.take_ready() {
            Some(reply) => Replies::ready(keys.closed(reply, &kept)),
            None => Replies::from_source(Closing {
                replies,
                request: kept,
                keys,
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
}

impl Source for Closing {
    fn poll_reply(&mut self, cx: &mut Context<'_>) -> Poll<Option<Reply>> {
        let reply = self.replies.poll_next(cx);
        reply.map(|reply| reply.map(|reply| self.keys.closed(reply, &self.request)))
    }

    fn is_harmless(&self) -> bool {
        self.replies.is_harmless()
    }

    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.replies.poll_deadline(cx)
    }
}

impl Keys {
    /// Returns the request in the form that the server knows: with its own ids and states.
    fn opened(&self, request: Request) -> Result<Request, RpcError> {
        let owner = request.caller().owner();
        match request.method() {
            request::TASKS_GET | request::TASKS_UPDATE | request::TASKS_CANCEL => {
                let id = request.target()?;
                // A client that does not know tasks gets that error first, whatever the id.
                if request.has_tasks() {
                    request.expect_tasks()?;
                }
                let own = self.task_of(&id, &owner).ok_or_else(|| unknown(&id))?;
                let own = own.to_owned();
                request.with_param("taskId", &own)
            }
            // Only the ids could tell whose the tasks of a list are, and the server writes its own ids there. So the method
            // does not exist.
            method if method.starts_with("tasks/") => Err(RpcError::method_not_found(method)),
            request::LISTEN => {
                let ListenParams { notifications, .. } = request.params()?;
                let Some(ids) = notifications.task_ids else {
                    return Ok(request);
                };
                let own = ids.iter().filter_map(|id| self.task_of(id, &owner));
                let own: Vec<_> = own.collect();
                let whole: Members<'_> = request.params()?;
                let filter = whole.get("notifications").map(ToOwned::to_owned);
                let filter = filter.unwrap_or_default();
                let mut filter = Members::read(filter.get()).unwrap_or_default();
                filter.set("taskIds", &own);
                request.with_param("notifications", &filter)
            }
            _ => match self.0.1.open_of::<String>(&request)? {
                Some(state) => request.with_param("requestState", &state),
                None => Ok(request),
            },
        }
    }

    /// Returns a reply in the form that the caller of the request gets.
    fn closed(&self, reply: Reply, request: &Request) -> Reply {
        match reply {
            Reply::Done(Ok(outcome)) => Reply::Done(self.outcome(outcome, request)),
            Reply::Notify(notice) => Reply::Notify(self.notice(notice, &request.caller().owner())),
            other => other,
        }
    }

    fn outcome(&self, mut outcome: Outcome, request: &Request) -> Result<Outcome, RpcError> {
        let owner = request.caller().owner();
        match &mut outcome.payload {
            Payload::InputRequired(required) => {
                if let Some(state) = &mut required.request_state {
                    *state = self.0.1.seal_foreign(state, Subject::of(request))?;
                }
            }
            Payload::TaskCreated(task) | Payload::Task(task) => {
                task.task_id = self.signed(&task.task_id, &owner);
            }
            Payload::Raw(result) => {
                if let Some(changed) = self.result(result, request, &owner)? {
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
            members.set(TASK_ID, &self.signed(&id, owner));
        }
        if let Some(state) = text(members.get(STATE)) {
            let sealed = self.0.1.seal_foreign(&state, Subject::of(request))?;
            members.set(STATE, &sealed);
        }
        Ok(to_raw_value(&members).ok())
    }

    fn notice(&self, mut notice: Notice, owner: &str) -> Notice {
        let changed = match &*notice.method {
            notification::TASKS => self.task_notice(&notice.params, owner),
            notification::LISTEN_ACKNOWLEDGED => self.acknowledged(&notice.params, owner),
            _ => None,
        };
        if let Some(params) = changed {
            notice.params = params;
        }
        notice
    }

    fn task_notice(&self, params: &RawValue, owner: &str) -> Option<Box<RawValue>> {
        let mut members = Members::read(params.get()).ok()?;
        let id = text(members.get(TASK_ID))?;
        members.set(TASK_ID, &self.signed(&id, owner));
        to_raw_value(&members).ok()
    }

    fn acknowledged(&self, params: &RawValue, owner: &str) -> Option<Box<RawValue>> {
        let mut members = Members::read(params.get()).ok()?;
        let filter = members.get("notifications")?.to_owned();
        let mut filter = Members::read(filter.get()).ok()?;
        let ids: Vec<String> = serde_json::from_str(filter.get("taskIds")?.get()).ok()?;
        let ids: Vec<_> = ids.iter().map(|id| self.signed(id, owner)).collect();
        filter.set("taskIds", &ids);
        members.set("notifications", &filter);
        to_raw_value(&members).ok()
    }

    /// Returns the id of a task in the form that its owner gets. It is always the same.
    fn signed(&self, id: &str, owner: &str) -> String {
        format!("{id}.{}", self.signature(id, owner))
    }

    /// Returns the server's id of a task, if the task belongs to this owner.
    fn task_of<'a>(&self, signed: &'a str, owner: &str) -> Option<&'a str> {
        let (id, signature) = signed.rsplit_once('.')?;
        let expected = self.signature(id, owner);
        equal(signature.as_bytes(), expected.as_bytes()).then_some(id)
    }

    fn signature(&self, id: &str, owner: &str) -> String {
        // The length separates the owner from the id, whatever characters they have.
        let text = format!("{}:{owner}{id}", owner.len());
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
