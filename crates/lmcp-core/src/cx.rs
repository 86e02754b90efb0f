//! [`Cx`]: the context of one call.

use std::{
    any::Any,
    pin::pin,
    sync::{Arc, PoisonError, atomic::Ordering},
    task::Poll,
    time::Duration,
};

use lmcp_wire::{self as wire, LoggingLevel, RequestId, logging::LoggingMessageParams, task};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::time::timeout;

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

/// A step that waits so long for others is logged.
const LONG_WAIT: Duration = Duration::from_secs(5);

/// The context of one call: every handler gets it as its last argument.
///
/// | a handler wants to | it calls |
/// |---|---|
/// | know who calls | [`principal`](Cx::principal), [`role`](Cx::role), [`caller`](Cx::caller), [`extension`](Cx::extension) |
/// | reach what handlers share | [`state`](Cx::state), [`server`](Cx::server) |
/// | tell the client how far it is | [`progress`](Cx::progress), [`log`](Cx::log) |
/// | ask the user, or the model | [`ask`](Cx::ask), [`ask_all`](Cx::ask_all) and their like |
/// | run code that blocks | [`blocking`](Cx::blocking) |
/// | finish a step that must not be torn in two | [`shield`](Cx::shield) |
/// | go on without the client's connection | [`detach`](Cx::detach) |
///
/// ```
/// use lmcp::{Cx, ToolResult};
/// use schemars::JsonSchema;
/// use serde::Deserialize;
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Copy {
///     from: Vec<String>,
/// }
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Sure {
///     /// Overwrite what is there?
///     overwrite: bool,
/// }
///
/// async fn copy(args: Copy, cx: Cx) -> ToolResult<String> {
///     let sure: Sure = cx.ask("sure", "Some files are there already.").await?;
///     if !sure.overwrite {
///         return Ok("nothing was copied".into());
///     }
///     let progress = cx.progress(args.from.len());
///     for file in &args.from {
///         // copy it
///         progress.step(file);
///     }
///     let who = cx.principal().unwrap_or("somebody");
///     Ok(format!("{who} copied {} files", args.from.len()))
/// }
/// ```
///
/// A `Cx` is cheap to clone, and other threads and tasks may hold it. After the call has ended, progress and log messages go
/// nowhere.
///
/// # Cancellation
/// When a client cancels a call or goes away, the future of the handler is *dropped* at its next `.await`: clean up in `Drop`. Work
/// on another thread cannot be dropped; such work looks at [`Cx::is_cancelled`] or awaits [`Cx::cancelled`]. A step that must not be
/// torn in two goes through [`Cx::shield`].
#[derive(Clone)]
pub struct Cx(pub(crate) Arc<Call>);

impl Cx {
    /// The id of the request, as the client chose it.
    pub fn id(&self) -> &RequestId {
        self.0.request.id()
    }

    /// The caller: its transport, its process, its credentials.
    pub fn caller(&self) -> &Caller {
        self.0.request.caller()
    }

    /// The name that the credentials of the caller stand for. `None`: the caller showed no credentials.
    ///
    /// ```
    /// # use lmcp::{Cx, NoArgs};
    /// async fn whoami(_: NoArgs, cx: Cx) -> String {
    ///     format!("you are {}", cx.principal().unwrap_or("nobody in particular"))
    /// }
    /// ```
    pub fn principal(&self) -> Option<&str> {
        self.caller().principal()
    }

    /// The role that the caller acts in, by its credentials or its [`Identity`](crate::Identity).
    pub fn role(&self) -> Option<&str> {
        self.caller().role()
    }

    /// The scopes that the credentials of the caller grant.
    pub fn scopes(&self) -> &[String] {
        self.caller().scopes()
    }

    /// Further claims of the credentials of the caller. `None`: the caller showed no credentials.
    pub fn claims(&self) -> Option<&Map<String, Value>> {
        self.caller().claims()
    }

    /// The value of this type that travels with the request: added by a layer ([`Request::extend`](crate::Request::extend)), else by
    /// whoever made the [`Caller`] ([`Caller::extended`]), else by HTTP middleware (see `login` and `carry` of a mounted service).
    ///
    /// ```
    /// # use lmcp::{Cx, NoArgs, Server};
    /// struct Tenant(String);
    ///
    /// let server = Server::new("shop", "1.0.0").layer(|mut request, next| {
    ///     request.extend(Tenant("acme".into()));
    ///     next.call(request)
    /// });
    ///
    /// async fn orders(_: NoArgs, cx: Cx) -> String {
    ///     cx.extension::<Tenant>().map_or_else(String::new, |tenant| format!("orders of {}", tenant.0))
    /// }
    /// ```
    pub fn extension<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.0.request.extension()
    }

    /// A unique name of the conversation that the request belongs to: that of its connection, else that of its session. `None`:
    /// every request stands alone, as over HTTP since 2026-07-28.
    pub fn session_name(&self) -> Option<String> {
        let connection = self.caller().connection().map(str::to_owned);
        connection.or_else(|| self.0.request.session()?.name())
    }

    /// A header of an HTTP request, by its name in lower case. Other transports have no headers.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.caller().header(name)
    }

    /// The value of this type that was given to [`Server::state`](crate::Server::state).
    ///
    /// ```
    /// # use lmcp::{Cx, NoArgs, Server, ToolResult};
    /// struct Pool; // of database connections
    ///
    /// let server = Server::new("shop", "1.0.0").state(Pool);
    ///
    /// async fn query(_: NoArgs, cx: Cx) -> ToolResult<&'static str> {
    ///     let pool = cx.state::<Pool>()?;
    ///     Ok("42")
    /// }
    /// ```
    ///
    /// # Errors
    /// The server has no value of this type. The program is wrong then; the model is told that the server failed.
    pub fn state<T: Any + Send + Sync>(&self) -> ToolResult<Arc<T>> {
        self.0.engine.state.get::<T>().ok_or_else(|| {
            let name = std::any::type_name::<T>();
            ToolError::new(format!(
                "the server has no state of type `{name}`; its author must add it"
            ))
        })
    }

    /// Runs code that blocks, such as reading a file or asking a database, on another thread, where it holds up no other call.
    /// Callers share 12 of these threads, and one caller alone gets 8, unless [`Limits::blocking_steps`](crate::Limits::blocking_steps) says
    /// otherwise. Further steps wait. So work that takes minutes belongs on a thread of its own (`std::thread::spawn`).
    ///
    /// ```
    /// # use lmcp::{Cx, ToolResult};
    /// async fn read(path: String, cx: Cx) -> ToolResult<String> {
    ///     Ok(cx.blocking(move || std::fs::read_to_string(path)).await??)
    /// }
    /// ```
    ///
    /// The code goes on when the call is cancelled. Code that takes long looks at [`Cx::is_cancelled`], and may report progress. A library
    /// that calls back is stopped from its callback:
    ///
    /// ```
    /// # use lmcp::{Cx, NoArgs, ToolResult};
    /// # struct Db;
    /// # impl Db {
    /// #     fn open() -> Self { Self }
    /// #     fn copy(&self, each_page: impl Fn(usize) -> bool) -> usize { each_page(1); 1 }
    /// # }
    /// async fn back_up(_: NoArgs, cx: Cx) -> ToolResult<String> {
    ///     let (watch, progress) = (cx.clone(), cx.open_progress());
    ///     let pages = cx
    ///         .blocking(move || {
    ///             Db::open().copy(|page| {
    ///                 progress.set(page, "copied");
    ///                 !watch.is_cancelled() // `false` stops the copy
    ///             })
    ///         })
    ///         .await?;
    ///     Ok(format!("{pages} pages"))
    /// }
    /// ```
    ///
    /// # Errors
    /// The code panicked.
    pub async fn blocking<T: Send + 'static>(
        &self,
        step: impl FnOnce() -> T + Send + 'static,
    ) -> ToolResult<T> {
        let payer = self.caller().payer();
        let mut entering = pin!(self.0.engine.steps.enter(&payer));
        let place = match timeout(LONG_WAIT, &mut entering).await {
            Ok(place) => place,
            Err(_) => {
                tracing::warn!(
                    "a blocking step has waited {} s for other steps of its caller to end; work that takes long belongs on its own thread",
                    LONG_WAIT.as_secs()
                );
                entering.await
            }
        };
        let run = move || {
            let result = step();
            // The thread occupies the place until the step ends, even if nobody waits for the result any more.
            drop(place);
            result
        };
        let done = tokio::task::spawn_blocking(run).await;
        done.map_err(|ended| match ended.try_into_panic() {
            Ok(panic) => ToolError::rpc(incident(&*panic)),
            Err(_) => ToolError::new("the server is closing"),
        })
    }

    /// The server that runs this handler, to add and remove tools, or to announce that a resource changed.
    ///
    /// ```
    /// # use lmcp::{Cx, NoArgs};
    /// async fn save(_: NoArgs, cx: Cx) -> &'static str {
    ///     cx.server().resource_updated("note://garden");
    ///     "saved"
    /// }
    /// ```
    pub fn server(&self) -> Handle {
        Handle::of(&self.0.engine)
    }

    /// The `_meta` of the request: trace context, and whatever else the client put there.
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

    /// The capabilities that the client declares: what it can be asked for.
    pub fn capabilities(&self) -> wire::ClientCapabilities {
        self.0.request.capabilities()
    }

    /// The name and version that the client claims. Use them for a log line, and never for a decision.
    pub fn client_info(&self) -> Option<wire::Implementation> {
        self.0.request.client_info()
    }

    /// How results are presented to the client: how much text it takes, and whether it gets `structuredContent`.
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

    /// Sets memory aside for the caller, before the handler loads something large. Dropping the reservation gives the memory back.
    /// Waits a moment while callers occupy all of [`Limits::memory_bytes`](crate::Limits::memory_bytes).
    ///
    /// ```
    /// # use lmcp::{Cx, NoArgs, ToolResult};
    /// async fn picture(_: NoArgs, cx: Cx) -> ToolResult<String> {
    ///     let _room = cx.reserve(8 << 20).await?;
    ///     let pixels = vec![0_u8; 8 << 20];
    ///     Ok(format!("{} bytes", pixels.len()))
    /// }
    /// ```
    ///
    /// # Errors
    /// Memory is full. The error tells the client whether to try again.
    pub async fn reserve(&self, bytes: usize) -> ToolResult<Reservation> {
        let wait = self.0.engine.limits.admission_wait;
        let reserved = self.account().reserve(bytes, wait).await;
        reserved.map_err(|no_room| ToolError::rpc(no_room.into()))
    }

    /// Sets memory aside as [`Cx::reserve`] does, without waiting: for code on another thread.
    ///
    /// # Errors
    /// Memory is full.
    pub fn try_reserve(&self, bytes: usize) -> Result<Reservation, NoRoom> {
        self.account().try_reserve(bytes)
    }

    /// The memory that the caller occupies, for data that grows while it arrives.
    pub fn account(&self) -> Account {
        self.0.engine.account(&self.0.request)
    }

    /// Reports progress towards a known end. Only clients that asked for progress hear of it.
    ///
    /// ```
    /// # use lmcp::{Cx, NoArgs};
    /// async fn count(_: NoArgs, cx: Cx) -> &'static str {
    ///     let progress = cx.progress(3);
    ///     for file in ["a", "b", "c"] {
    ///         progress.step(format!("looked at {file}"));
    ///     }
    ///     "done"
    /// }
    /// ```
    pub fn progress(&self, total: usize) -> Progress {
        Progress {
            cx: self.clone(),
            total: Some(total),
        }
    }

    /// Reports progress towards an end that is not known.
    pub fn open_progress(&self) -> Progress {
        Progress {
            cx: self.clone(),
            total: None,
        }
    }

    /// Sends a log message to the client, if the client wants messages of this level. A client of an older revision that named no
    /// level gets *info* and above. Messages for whoever runs the server go through `tracing` instead.
    ///
    /// ```
    /// # use lmcp::{Cx, LoggingLevel, NoArgs};
    /// async fn index(_: NoArgs, cx: Cx) -> &'static str {
    ///     cx.log(LoggingLevel::Warning, "the index is a week old");
    ///     "done"
    /// }
    /// ```
    pub fn log(&self, level: LoggingLevel, data: impl Serialize) {
        if self.0.request.log_level().is_none_or(|least| level < least) {
            return;
        }
        let data =
            serde_json::to_value(data).unwrap_or_else(|err| format!("(unprintable: {err})").into());
        let params = LoggingMessageParams::new(level, data);
        self.0.outbox.log(params, &self.0.engine.limits);
    }

    /// Closes the HTTP connection of the call, and has the client come back for the answer after this time. For work that takes
    /// long, where connections do not last. Only 2025-11-25 over HTTP has this; elsewhere nothing happens.
    pub fn retry_after(&self, time: Duration) {
        self.0.outbox.push(Reply::Pause(time));
    }

    /// Whether the call was cancelled: by the client, by its deadline, or by the end of the server. For loops on other threads.
    ///
    /// ```
    /// # use lmcp::{Cx, NoArgs, ToolResult};
    /// async fn search(_: NoArgs, cx: Cx) -> ToolResult<String> {
    ///     let watch = cx.clone();
    ///     let count = move || (0..1_000_000).take_while(|_| !watch.is_cancelled()).count();
    ///     Ok(cx.blocking(count).await?.to_string())
    /// }
    /// ```
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Waits until the call is cancelled, as [`is_cancelled`](Self::is_cancelled) tells. For tasks that outlive the future of the handler.
    pub async fn cancelled(&self) {
        self.0.cancelled().await;
    }

    /// Runs a step to its end, even if the call is cancelled meanwhile.
    ///
    /// ```
    /// # use lmcp::{Cx, NoArgs, ToolResult};
    /// # async fn debit() {}
    /// # async fn credit() {}
    /// async fn transfer(_: NoArgs, cx: Cx) -> ToolResult<&'static str> {
    ///     cx.shield(async {
    ///         debit().await;
    ///         credit().await;
    ///     })
    ///     .await?;
    ///     Ok("transferred")
    /// }
    /// ```
    ///
    /// # Errors
    /// The step panicked.
    pub async fn shield<T: Send + 'static>(
        &self,
        step: impl Future<Output = T> + Send + 'static,
    ) -> ToolResult<T> {
        let (done, result) = tokio::sync::oneshot::channel();
        self.0.engine.spawned.spawn(async move {
            // The send fails if nobody waits any more. The step has run to its end all the same.
            let _ = done.send(step.await);
        });
        result.await.map_err(|_| ToolError::new("the step failed"))
    }

    /// Turns the rest of the call into a task, if the client knows tasks. The client gets the id of the task at once, may disconnect, and
    /// asks for the result later. If the client does not know tasks, or the server already keeps [`Limits::tasks`](crate::Limits::tasks) of them,
    /// the call stays a call, and the client waits for the result.
    ///
    /// Questions before this line are put to the client in the ordinary way, questions after it through the task.
    ///
    /// ```
    /// # use lmcp::{Cx, NoArgs};
    /// # async fn build_everything() {}
    /// async fn build(_: NoArgs, cx: Cx) -> &'static str {
    ///     cx.detach().await;
    ///     build_everything().await; // takes an hour
    ///     "built"
    /// }
    /// ```
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
        // Yields once: the reply stream sees the flag and hands the future over, and the task store polls it from then on.
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

/// Tells the client how far a call is. Call it as often as you like: only some of the reports are sent.
#[derive(Clone, Debug)]
pub struct Progress {
    cx: Cx,
    total: Option<usize>,
}

impl Progress {
    /// Reports one more step.
    pub fn step(&self, message: impl Into<String>) {
        self.send(Step::Next, message.into());
    }

    /// Reports how much is done. Progress only grows: a value that is not above the last one is not sent.
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
