//! The handle that callers of a server share.

use std::{
    fmt,
    pin::Pin,
    sync::{Arc, Weak},
    time::Duration,
};

use lmcp_client::{Route, conversation::Profile};
use lmcp_core::{
    Owned, OwnerKey, Payload, Replies, Request, Service, Starts, Tasks,
    client::{Answerer, Settings},
};
use lmcp_wire::{
    ClientCapabilities, Implementation, ProtocolVersion, RpcError, legacy::SetLevelParams,
    method::request,
};
use serde_json::{json, value::RawValue};
use tokio::sync::watch;

use crate::{
    call, cross,
    health::Health,
    limits::PATIENCE,
    ping, pump,
    state::{AtStart, Hear, Shared},
};

/// A remote server as a [`Service`]: callers of every revision share it, whichever revision the server speaks.
///
/// An upstream connects when it is first needed, and again whenever the server is lost. A request that the server may have begun then gets
/// an error that says so; all other requests wait for the next connection. Dropping the last clone disconnects, and ends the process that
/// was started for it.
#[derive(Clone)]
pub struct Upstream(Arc<Owner>);

struct Owner {
    shared: Arc<Shared>,
    /// Tells the task to end. Only the task has a receiver, until it has ended.
    closing: watch::Sender<bool>,
    /// Ends with the owner.
    pump: Tasks,
}

impl Upstream {
    /// Makes an upstream on this route. Questions that the server asks during a call go to the client of that call.
    pub fn new(route: Route) -> Self {
        Self::builder(route).build()
    }

    /// Sets the name, the revision and more, before the upstream connects.
    pub fn builder(route: Route) -> Builder {
        let declared = json!({ "elicitation": { "form": {}, "url": {} }, "sampling": { "tools": {} }, "roots": {} });
        let mut profile = Profile::new(Implementation::new("lmcp", env!("CARGO_PKG_VERSION")));
        profile.capabilities = serde_json::from_value(declared).unwrap_or_default();
        Builder {
            route,
            profile,
            answer: None,
            hear: None,
            health: None,
            checks_headers: false,
            patience: PATIENCE,
        }
    }

    /// Connects, and waits until the server has answered.
    ///
    /// # Errors
    /// The server cannot be reached, or speaks no revision that lmcp knows.
    pub async fn ready(&self) -> Result<ProtocolVersion, RpcError> {
        Ok(self.0.shared.peer().await?.version)
    }

    /// How many times the upstream has connected to the server, or started it.
    pub fn times_opened(&self) -> u64 {
        self.0.shared.times_opened()
    }

    /// Disconnects from the server, and waits until that is done.
    pub async fn close(&self) {
        let _ = self.0.closing.send(true);
        self.0.closing.closed().await;
    }

    /// Lets each caller reach only its own tasks and states. They stay valid with the same key, name and target, across restarts of this
    /// program, too. Tasks of a process that is started here end with the process.
    pub fn owned(self, key: &OwnerKey, name: &str) -> Owned<Self> {
        let route = &self.0.shared.route;
        let name = named(name, route);
        if route.is_shared() {
            return Owned::new(self, key, &name);
        }
        let starts = Started(Arc::downgrade(&self.0.shared));
        Owned::of_process(self, key, &name, Arc::new(starts))
    }

    /// Is the server there now?
    pub(crate) fn is_open(&self) -> bool {
        self.0.shared.is_open()
    }

    /// Do both stand for one server?
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Runs a future until it ends, or until this server is dropped.
    pub(crate) fn run_beside(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.0.pump.spawn(future);
    }

    /// Tells the server that the client works in other folders now.
    pub fn roots_changed(&self) {
        let method = lmcp_wire::method::notification::ROOTS_CHANGED;
        self.0.shared.lock().conversation.notify(method);
        self.0.shared.woken.notify_one();
    }
}

/// Names a server by the name that its operator gave it, and by its address.
pub(crate) fn named(name: &str, route: &Route) -> String {
    format!("{name}\0{}", route.address())
}

/// The starts of a process. Replies in progress may hold it longer than the upstream lives.
struct Started(Weak<Shared>);

impl Starts for Started {
    fn now(&self) -> (Option<u64>, u64) {
        let Some(shared) = self.0.upgrade() else {
            return (None, u64::MAX);
        };
        // Both are read at once.
        let status = shared.status.borrow();
        match status.peer.is_some() {
            true => (Some(status.opened), status.opened),
            false => (None, status.opened + 1),
        }
    }

    fn bind(&self, request: &mut Request, start: u64) {
        // A start that was asked for already is not a later one than this, so a wrong one is refused when it is sent.
        if request.extension::<AtStart>().is_none() {
            request.extend(AtStart::new(start));
        }
    }
}

/// The settings of an [`Upstream`], before it connects.
#[must_use = "`build` makes the upstream"]
#[derive(Clone)]
pub struct Builder {
    route: Route,
    profile: Profile,
    answer: Option<Answerer>,
    hear: Option<Hear>,
    health: Option<Arc<Health>>,
    checks_headers: bool,
    patience: Duration,
}

impl Builder {
    /// Sets the name of the client, for servers with sessions.
    pub fn info(mut self, info: Implementation) -> Self {
        self.profile.info = info;
        self
    }

    /// Sets what a server with sessions may ask callers for. By default that is everything. With empty capabilities no question of any
    /// server reaches a caller.
    pub fn capabilities(mut self, capabilities: ClientCapabilities) -> Self {
        self.profile.capabilities = capabilities;
        self
    }

    /// Speaks this revision only.
    pub fn version(mut self, version: ProtocolVersion) -> Self {
        self.profile.pinned = Some(version);
        self
    }

    /// Answers the questions of a server with sessions, for all callers.
    pub fn answer(mut self, answer: Answerer) -> Self {
        self.answer = Some(answer);
        self
    }

    /// Refuses calls over HTTP whose headers do not repeat the arguments that the tools of the server name in their schemas. For an
    /// endpoint that stands in for the server.
    pub fn checks_headers(mut self) -> Self {
        self.checks_headers = true;
        self
    }

    /// Tries a server that was lost once only, and then fails the requests that wait for it. For callers that know another way to the same
    /// server.
    pub fn impatient(mut self) -> Self {
        self.patience = Duration::ZERO;
        self
    }

    /// Tells the server which caller each request is for, by a name that reveals nothing else. A server of lmcp then keeps the tasks and
    /// jobs of these callers apart.
    pub fn names_callers(mut self) -> Self {
        self.profile.names_callers = true;
        self
    }

    /// Logs when the server is lost, cannot be reached, and is there again.
    pub fn health(mut self, health: Arc<Health>) -> Self {
        self.health = Some(health);
        self
    }

    /// Takes over the settings of a client.
    pub(crate) fn settings(mut self, settings: &Settings) -> Self {
        self.profile.info = settings.info.clone();
        self.profile.capabilities = settings.capabilities.clone();
        self.profile.pinned = settings.version;
        self.answer.clone_from(&settings.answer);
        let logs = settings.clone();
        self.hear = Some(Arc::new(move |params: &RawValue| {
            if let Ok(message) = serde_json::from_str(params.get()) {
                logs.log(message);
            }
        }));
        self
    }

    pub(crate) fn route(&self) -> &Route {
        &self.route
    }

    /// Makes the upstream, which connects with its first call.
    pub fn build(self) -> Upstream {
        let shared = Arc::new(Shared::new(
            self.route,
            self.profile,
            self.answer,
            self.hear,
            self.health,
            self.checks_headers,
        ));
        let (closing, closed) = watch::channel(false);
        let pump = Tasks::default();
        pump.spawn(pump::run(Arc::clone(&shared), closed, self.patience));
        Upstream(Arc::new(Owner {
            shared,
            closing,
            pump,
        }))
    }
}

impl Service for Upstream {
    fn call(&self, request: Request) -> Replies {
        let shared = Arc::clone(&self.0.shared);
        if is_answered_here(request.method())
            && let Err(error) = request.check_flaw()
        {
            return Replies::error(error);
        }
        match request.method() {
            request::INITIALIZE | request::DISCOVER => Replies::later(async move {
                match shared.peer().await {
                    Ok(peer) => Replies::done(cross::opening(&peer)),
                    Err(error) => Replies::error(error),
                }
            }),
            request::PING => Replies::later(async move {
                match ping::ping(&shared).await {
                    Ok(()) => Replies::done(Payload::Acknowledged),
                    Err(error) => Replies::error(error),
                }
            }),
            request::SET_LEVEL => match set_level(&shared, &request) {
                Ok(()) => Replies::done(Payload::Acknowledged),
                Err(error) => Replies::error(error),
            },
            request::LISTEN => Replies::speaking(|say| shared.listen(request, say)),
            request::SUBSCRIBE | request::UNSUBSCRIBE => Replies::later(async move {
                match shared.watch(&request).await {
                    Ok(outcome) => Replies::done(outcome),
                    Err(error) => Replies::error(error),
                }
            }),
            _ => Replies::speaking(|say| call::answer(shared, request, say)),
        }
    }

    fn close(&self) {
        self.0.shared.lock().listeners.close();
    }

    fn hang_up(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(Self::close(self))
    }

    fn ping(&self) -> Pin<Box<dyn Future<Output = Result<(), RpcError>> + Send + '_>> {
        Box::pin(ping::ping(&self.0.shared))
    }

    fn is_idle(&self) -> bool {
        self.0.shared.lock().slots.is_empty()
    }
}

/// Returns whether the upstream itself answers this method. For all other methods, headers are checked first.
fn is_answered_here(method: &str) -> bool {
    matches!(
        method,
        request::DISCOVER | request::LISTEN | request::SUBSCRIBE | request::UNSUBSCRIBE
    )
}

fn set_level(shared: &Shared, request: &Request) -> Result<(), RpcError> {
    let SetLevelParams { level, .. } = request.params()?;
    let Some(session) = request.session() else {
        return Err(RpcError::method_not_found(request.method()));
    };
    session.live()?.set_level(level);
    shared.wish_level(level);
    Ok(())
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.pump.abort();
        self.shared.close();
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Upstream")
            .field(&self.0.shared.route.to_string())
            .finish()
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("route", &self.route)
            .finish_non_exhaustive()
    }
}
