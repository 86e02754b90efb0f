//! One running request: its deadline, its panic fence, its exactly one response.
//!
//! The reply stream owns the handler's future. Nothing is spawned and no channel is made: polling the stream runs the
//! handler, dropping it drops the handler.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use lmcp_wire::{self as wire, RpcError};
use serde_json::{Value, json};
use tokio::{
    sync::Notify,
    time::{Instant, Sleep, sleep, sleep_until},
};

use crate::{
    ask::Asking,
    era,
    error::{Failure, ToolError},
    outbox::{Next, Outbox},
    outcome::Outcome,
    request::Request,
    server::Engine,
    service::{Reply, Source},
};

/// A handler at work.
pub(crate) type Work = Pin<Box<dyn Future<Output = Result<Outcome, ToolError>> + Send>>;

/// What a running handler's `Cx` and its reply stream share.
pub(crate) struct Call {
    pub(crate) request: Request,
    pub(crate) engine: Arc<Engine>,
    pub(crate) outbox: Outbox,
    pub(crate) asking: Asking,
    /// Members for the `_meta` of the result.
    pub(crate) meta: Mutex<Option<wire::Meta>>,
    cancelled: AtomicBool,
    cancellation: Notify,
    /// Set by `Cx::detach`: the reply stream hands the work over to the task store.
    pub(crate) wants_task: AtomicBool,
    /// When it began, if somebody reads the log.
    began: Option<Instant>,
}

impl Call {
    pub(crate) fn new(request: Request, engine: Arc<Engine>, asking: Asking) -> Arc<Self> {
        Arc::new(Self {
            request,
            engine,
            outbox: Outbox::default(),
            asking,
            meta: Mutex::default(),
            cancelled: AtomicBool::new(false),
            cancellation: Notify::new(),
            wants_task: AtomicBool::new(false),
            began: tracing::enabled!(tracing::Level::INFO).then(Instant::now),
        })
    }

    /// Writes a line to the log that names the call, how it ended, and how long it took.
    fn log(&self, outcome: &dyn std::fmt::Display) {
        let Some(began) = self.began else { return };
        let what = self.request.target().unwrap_or_default();
        let (method, milliseconds) = (self.request.method(), began.elapsed().as_millis());
        let caller = self.request.caller().owner();
        // Escaped: what a client sends must not look like lines of ours.
        tracing::info!("{method:?} {what:?}: {outcome} ({milliseconds} ms, {caller:?})");
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    pub(crate) async fn cancelled(&self) {
        loop {
            let notified = self.cancellation.notified();
            if self.is_cancelled() {
                return;
            }
            notified.await;
        }
    }

    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        self.cancellation.notify_waiters();
    }

    /// The outcome, or the error the peer program is to see.
    pub(crate) fn settle(&self, result: Result<Outcome, ToolError>) -> Result<Outcome, RpcError> {
        let failure = match result {
            Ok(Outcome::Tool(mut result)) => {
                if result.structured_content.is_some() {
                    self.engine.presentation(&self.request).shape(&mut result);
                }
                return Ok(Outcome::Tool(result));
            }
            Ok(outcome) => return Ok(outcome),
            Err(error) => error,
        };
        let text = shortened(failure.to_string());
        match failure.into_failure() {
            Failure::NeedsInput => self.input_required().map(Outcome::InputRequired),
            Failure::MissingCapability(needed) if self.request.session.is_none() => {
                Err(RpcError::missing_capability(&needed))
            }
            Failure::Rpc(error) => Err(error),
            Failure::NotFound => Err(RpcError::invalid_params("there is no such resource")),
            // Older revisions have no error of their own for a client that cannot be asked.
            Failure::Message { .. } | Failure::MissingCapability(_)
                if self.request.method() == wire::method::request::TOOLS_CALL =>
            {
                Ok(Outcome::Tool(wire::CallToolResult::error(text)))
            }
            Failure::Message { .. } => Err(RpcError::internal(text)),
            Failure::MissingCapability(_) => Err(RpcError::invalid_request(text)),
        }
    }

    /// What the handler put into the `_meta` of its result.
    pub(crate) fn take_meta(&self) -> Option<wire::Meta> {
        self.meta
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// The response, in the request's revision.
    pub(crate) fn respond(&self, result: Result<Outcome, ToolError>) -> Reply {
        match self.settle(result) {
            Ok(outcome) => {
                self.log(&outcome);
                let extra = self.take_meta();
                era::encode(&self.request, outcome, extra, &self.engine.server_info)
                    .counted(&self.engine.budget, &self.request.caller)
            }
            Err(error) => {
                self.log(&format_args!("error {}: {:?}", error.code, error.message));
                Reply::error(Some(&self.request.id), &error)
            }
        }
    }
}

/// The reply stream of a request that a handler answers.
pub(crate) struct Running {
    call: Arc<Call>,
    /// `None` once it has ended or was handed over.
    work: Option<Work>,
    deadline: Duration,
    /// Does it change nothing?
    harmless: bool,
    /// Armed when the first poll did not finish the work.
    alarm: Option<Pin<Box<Sleep>>>,
    /// Armed when progress came too soon after the last.
    tick: Option<Pin<Box<Sleep>>>,
    /// Held back until everything said before it is sent.
    response: Option<Reply>,
}

impl Running {
    pub(crate) fn new(call: Arc<Call>, work: Work, deadline: Duration, harmless: bool) -> Self {
        Self {
            call,
            work: Some(work),
            deadline,
            harmless,
            alarm: None,
            tick: None,
            response: None,
        }
    }

    fn poll_work(&mut self, cx: &mut Context<'_>) -> Poll<Reply> {
        let Some(work) = &mut self.work else {
            return Poll::Pending;
        };
        match poll_fenced(work, cx) {
            Poll::Ready(result) => {
                self.work = None;
                return Poll::Ready(self.call.respond(result));
            }
            Poll::Pending if self.call.wants_task.swap(false, Ordering::AcqRel) => {
                return Poll::Ready(self.hand_over());
            }
            Poll::Pending => {}
        }
        self.poll_alarm(cx)
    }

    /// The answer to a request that took too long.
    fn poll_alarm(&mut self, cx: &mut Context<'_>) -> Poll<Reply> {
        let alarm = self
            .alarm
            .get_or_insert_with(|| Box::pin(sleep(self.deadline)));
        let asking = &self.call.asking;
        if asking.take_answered() {
            alarm.as_mut().reset(Instant::now() + self.deadline);
        }
        ready!(alarm.as_mut().poll(cx));
        if asking.is_thinking() {
            alarm.as_mut().reset(Instant::now() + self.deadline);
            ready!(alarm.as_mut().poll(cx));
        }
        // What the handler holds may panic as it is dropped; that costs nothing more than the answer it costs anyway.
        let work = self.work.take();
        let _ = catch_unwind(AssertUnwindSafe(|| drop(work)));
        self.call.cancel();
        let seconds: Value = match self.deadline.subsec_nanos() {
            0 => self.deadline.as_secs().into(),
            _ => self.deadline.as_secs_f64().into(),
        };
        self.call.log(&format_args!("no answer within {seconds} s"));
        let error = RpcError::internal(format!("no answer within {seconds} s"))
            .with_data(json!({ "limit": "deadline", "seconds": seconds }));
        Poll::Ready(Reply::error(Some(&self.call.request.id), &error))
    }

    /// From now on the task store drives the work, and the client holds a handle.
    fn hand_over(&mut self) -> Reply {
        let Some(work) = self.work.take() else {
            unreachable!("only polled work asks to be handed over")
        };
        let task = self.call.engine.tasks.adopt(&self.call, work);
        self.call
            .respond(task.map(Outcome::TaskCreated).map_err(ToolError::rpc))
    }
}

impl Source for Running {
    fn poll_reply(&mut self, cx: &mut Context<'_>) -> Poll<Option<Reply>> {
        if self.response.is_none() {
            match self.poll_work(cx) {
                Poll::Ready(response) => self.response = Some(response),
                Poll::Pending if self.work.is_none() => return Poll::Ready(None),
                // Another thread may speak at any time from here on: register first, look second.
                Poll::Pending => self.call.outbox.register(cx.waker()),
            }
        }
        match self
            .call
            .outbox
            .next(&self.call.engine.limits, self.response.is_some())
        {
            Next::Reply(reply) => return Poll::Ready(Some(reply)),
            Next::At(time) => {
                let tick = self.tick.insert(Box::pin(sleep_until(time)));
                if tick.as_mut().poll(cx).is_ready() {
                    cx.waker().wake_by_ref();
                }
            }
            Next::Nothing => {}
        }
        let Some(response) = self.response.take() else {
            return Poll::Pending;
        };
        self.call.outbox.close();
        Poll::Ready(Some(response))
    }

    fn is_harmless(&self) -> bool {
        self.harmless
    }

    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.work.is_none() || self.response.is_some() {
            return Poll::Pending;
        }
        self.response = Some(ready!(self.poll_alarm(cx)));
        Poll::Ready(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Only work that is still here is stopped; what was handed over belongs to the task store.
        if self.work.take().is_some() {
            self.call.log(&"cancelled");
            self.call.cancel();
        }
    }
}

/// Polls a handler; a panic becomes an error that names an incident in the log and tells the peer nothing else.
pub(crate) fn poll_fenced(
    work: &mut Work,
    cx: &mut Context<'_>,
) -> Poll<Result<Outcome, ToolError>> {
    catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx)))
        .unwrap_or_else(|panic| Poll::Ready(Err(ToolError::rpc(incident(&*panic)))))
}

/// Errors repeat arguments, and arguments may be long: no more of one is told than a model would read.
fn shortened(text: String) -> String {
    if text.len() <= ERROR_BYTES {
        return text;
    }
    let head = text.floor_char_boundary(ERROR_BYTES / 2);
    let tail = text.ceil_char_boundary(text.len() - ERROR_BYTES / 4);
    let left_out = tail - head;
    let (head, tail) = (&text[..head], &text[tail..]);
    format!("{head} … {left_out} bytes left out … {tail}")
}

/// The longest text of an error, in bytes.
const ERROR_BYTES: usize = 16 << 10;

/// What the peer is told of a panic: where to look for it.
pub(crate) fn incident(panic: &(dyn Any + Send)) -> RpcError {
    let words = panic.downcast_ref::<&str>().copied();
    let words = words
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    let incident = crate::random::hex::<8>();
    tracing::error!(incident, "a handler panicked: {words}");
    RpcError::internal(format!("internal error, incident {incident}"))
}
