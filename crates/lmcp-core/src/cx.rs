//! [`Cx`]: what a handler may do besides returning.

use std::{
    any::Any,
    sync::{Arc, PoisonError, atomic::Ordering},
    task::Poll,
};

use lmcp_wire::{self as wire, LoggingLevel, RequestId, logging::LoggingMessageParams, task};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    budget::{Account, NoRoom, Reservation},
    call::Call,
    caller::Caller,
    error::{ToolError, ToolResult},
    layer::incident,
    outbox::Step,
    present::Presentation,
    reply::{ProgressReport, Reply},
    server::Handle,
};

/// The context of one request: who asks, how to say how far it has got, how to ask back.
///
/// Cheap to clone, and usable from other threads and tasks. Once the request has ended, what is said through it goes
/// nowhere.
///
/// # Cancellation
/// A request that is cancelled has its future *dropped* at its next `.await`: put clean-up into `Drop`. Work that
/// cannot be dropped, on another thread say, looks at [`Cx::is_cancelled`] or awaits [`Cx::cancelled`]. A step that
/// must not be torn in two goes through [`Cx::shield`].
#[derive(Clone)]
pub struct Cx(pub(crate) Arc<Call>);

impl Cx {
    /// The request's id.
    pub fn id(&self) -> &RequestId {
        self.0.request.id()
    }

    /// Who asks.
    pub fn caller(&self) -> &Caller {
        self.0.request.caller()
    }

    /// The name that belongs to the caller's credentials. `None`: nobody in particular.
    pub fn principal(&self) -> Option<&str> {
        self.caller().principal()
    }

    /// The role that the caller acts in.
    pub fn role(&self) -> Option<&str> {
        self.caller().role()
    }

    /// What the caller's credentials allow.
    pub fn scopes(&self) -> &[String] {
        self.caller().scopes()
    }

    /// What else the caller's credentials say. `None`: it has shown none.
    pub fn claims(&self) -> Option<&Map<String, Value>> {
        self.caller().claims()
    }

    /// The value of this type that came with the request: added by a layer ([`Request::extend`](crate::Request::extend)),
    /// else given to its [`Caller`] ([`Caller::extended`]), else put there by middleware around the transport.
    pub fn extension<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.0.request.extension()
    }

    /// The conversation this request belongs to, by a name that no other has: that of its connection, else of its session.
    /// None where every request stands alone.
    pub fn session_name(&self) -> Option<String> {
        let connection = self.caller().connection().map(str::to_owned);
        connection.or_else(|| self.0.request.session()?.name())
    }

    /// A header of the request, on transports that have them. Names in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.caller().header(name)
    }

    /// The value of this type that was given to [`Server::state`](crate::Server::state).
    ///
    /// # Errors
    /// There is none: a mistake in the program, told to the model as a failure of the server.
    pub fn state<T: Any + Send + Sync>(&self) -> ToolResult<Arc<T>> {
        self.0.engine.state.get::<T>().ok_or_else(|| {
            let name = std::any::type_name::<T>();
            ToolError::new(format!(
                "the server has no state of type `{name}`; its author must add it"
            ))
        })
    }

    /// Runs a step that blocks, reading a file say, on a thread of its own, so that it holds up nobody else. Callers share
    /// such threads: see [`Limits::blocking_steps`](crate::Limits::blocking_steps).
    ///
    /// A step goes on when its request is cancelled: one that takes long looks at [`Cx::is_cancelled`].
    ///
    /// ```
    /// # use lmcp_core::{Cx, ToolResult};
    /// async fn read(path: String, cx: Cx) -> ToolResult<String> {
    ///     Ok(cx.blocking(move || std::fs::read_to_string(path)).await??)
    /// }
    /// ```
    ///
    /// # Errors
    /// The step panicked.
    pub async fn blocking<T: Send + 'static>(
        &self,
        step: impl FnOnce() -> T + Send + 'static,
    ) -> ToolResult<T> {
        let place = self.0.engine.steps.enter(&self.caller().payer()).await;
        let run = move || {
            let result = step();
            // The place is the thread's, whether or not somebody still waits for the result.
            drop(place);
            result
        };
        let done = tokio::task::spawn_blocking(run).await;
        done.map_err(|ended| match ended.try_into_panic() {
            Ok(panic) => ToolError::rpc(incident(&*panic)),
            Err(_) => ToolError::new("the server is closing"),
        })
    }

    /// The server that runs this handler: to add and remove tools, to say that a resource changed.
    pub fn server(&self) -> Handle {
        Handle::of(&self.0.engine)
    }

    /// The request's `_meta`, with trace context and whatever else the client put there.
    pub fn meta(&self) -> wire::Meta {
        #[derive(Deserialize)]
        struct Outer {
            #[serde(default, rename = "_meta")]
            meta: wire::Meta,
        }
        self.0
            .request
            .params::<Outer>()
            .map(|outer| outer.meta)
            .unwrap_or_default()
    }

    /// What the client can be asked for.
    pub fn capabilities(&self) -> wire::ClientCapabilities {
        self.0.request.capabilities()
    }

    /// Who the client says it is: good for a log line, never for a decision.
    pub fn client_info(&self) -> Option<wire::Implementation> {
        self.0.request.client_info()
    }

    /// How results are presented to the client: how much it takes, and whether it gets `structuredContent`.
    pub fn presentation(&self) -> Presentation {
        self.0.engine.presentation(&self.0.request)
    }

    /// Adds a member to the `_meta` of the result.
    ///
    /// # Errors
    /// The key is not one the protocol allows.
    pub fn set_meta(&self, key: &str, value: Value) -> ToolResult<()> {
        if !wire::meta::is_key(key) {
            return Err(ToolError::new(format!(
                "`{key}` is not a valid `_meta` key"
            )));
        }
        let mut meta = self.0.meta.lock().unwrap_or_else(PoisonError::into_inner);
        meta.get_or_insert_default().insert(key.into(), value);
        Ok(())
    }

    /// Sets memory aside for the caller, before something large is loaded: it is given back when the reservation is
    /// dropped. Waits a moment where callers occupy all of [`Limits::memory_bytes`](crate::Limits::memory_bytes).
    ///
    /// # Errors
    /// There is no room, and the client is told whether to try again.
    pub async fn reserve(&self, bytes: usize) -> ToolResult<Reservation> {
        let wait = self.0.engine.limits.admission_wait;
        let reserved = self.account().reserve(bytes, wait).await;
        reserved.map_err(|no_room| ToolError::rpc(no_room.into()))
    }

    /// Sets memory aside as [`Cx::reserve`] does, and does not wait for it: for work on a thread that others wait for.
    ///
    /// # Errors
    /// There is no room now.
    pub fn try_reserve(&self, bytes: usize) -> Result<Reservation, NoRoom> {
        self.account().try_reserve(bytes)
    }

    /// The memory that the caller occupies, for what grows as it comes.
    pub fn account(&self) -> Account {
        self.0.engine.account(&self.0.request)
    }

    /// Progress towards a known end. Without a progress token in the request it does nothing.
    pub fn progress(&self, total: usize) -> Progress {
        Progress {
            cx: self.clone(),
            total: Some(total),
        }
    }

    /// Progress towards an end nobody knows.
    pub fn open_progress(&self) -> Progress {
        Progress {
            cx: self.clone(),
            total: None,
        }
    }

    /// Sends a log message to the client, if it asked for messages of this level. A client of an older revision that has
    /// not said gets *info* and above.
    pub fn log(&self, level: LoggingLevel, data: impl Serialize) {
        if self.0.request.log_level().is_none_or(|least| level < least) {
            return;
        }
        let data =
            serde_json::to_value(data).unwrap_or_else(|err| format!("(unprintable: {err})").into());
        let params = LoggingMessageParams::new(level, data);
        self.0.outbox.log(params, &self.0.engine.limits);
    }

    /// Lets go of the client's connection: it need not hold it, and asks for the rest after this time. For work that
    /// takes long, on connections that do not last. Only 2025-11-25 over HTTP knows this; elsewhere it does nothing.
    pub fn retry_after(&self, time: std::time::Duration) {
        self.0.outbox.push(Reply::Pause(time));
    }

    /// Was the request cancelled? For loops on other threads.
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Waits until the request is cancelled. For tasks that outlive the handler's future.
    pub async fn cancelled(&self) {
        self.0.cancelled().await;
    }

    /// Runs a step to its end even if the request is cancelled meanwhile.
    ///
    /// # Errors
    /// The step panicked.
    pub async fn shield<T: Send + 'static>(
        &self,
        step: impl Future<Output = T> + Send + 'static,
    ) -> ToolResult<T> {
        let (done, result) = tokio::sync::oneshot::channel();
        self.0.engine.spawned.spawn(async move {
            // Nobody waiting any more is the very case this is for.
            let _ = done.send(step.await);
        });
        result.await.map_err(|_| ToolError::new("the step failed"))
    }

    /// From here on the work is a task, if the client knows tasks: it gets a handle at once, asks for the state when
    /// it likes, and the connection may go. A client that does not know tasks simply waits, and so does one that comes
    /// when no more tasks can be kept.
    ///
    /// Questions asked before this line are put to the client in the ordinary way; questions after it through the task.
    pub async fn detach(&self) {
        let tool = self.0.request.method() == wire::method::request::TOOLS_CALL;
        let known =
            tool && !self.0.asking.is_task() && self.capabilities().has_extension(task::EXTENSION);
        if !known
            || self
                .0
                .engine
                .tasks
                .expect_room(self.caller(), &self.0.engine.limits)
                .is_err()
        {
            return;
        }
        self.0.wants_task.store(true, Ordering::Release);
        let mut yielded = false;
        // One turn of the loop: the reply stream sees the wish and hands the future over; the task store polls on.
        std::future::poll_fn(|cx| {
            if std::mem::replace(&mut yielded, true) {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }
}

impl std::fmt::Debug for Cx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Cx").field(self.id()).finish()
    }
}

/// How far a request has got. Throttled: say as much as you like.
#[derive(Clone, Debug)]
pub struct Progress {
    cx: Cx,
    total: Option<usize>,
}

impl Progress {
    /// One step further.
    pub fn step(&self, message: impl Into<String>) {
        self.send(Step::Next, message.into());
    }

    /// This far. A value not above the last one is not sent: progress only grows.
    pub fn set(&self, done: usize, message: impl Into<String>) {
        self.send(Step::To(done as f64), message.into());
    }

    fn send(&self, step: Step, message: String) {
        if !self.cx.0.request.wants_progress() {
            return;
        }
        self.cx.0.outbox.progress(step, |value| {
            let mut report = ProgressReport::new(value);
            report.total = self.total.map(|total| total as f64);
            report.message = Some(message).filter(|message| !message.is_empty());
            report
        });
    }
}
