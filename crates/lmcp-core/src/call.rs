//! A running request: its deadline, its fence against panics, and its single response.
//!
//! The reply stream owns the handler's future, without a task or a channel: polling the stream runs the handler, and dropping
//! the stream drops the handler.

use std::{
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
    asking::Asking,
    budget::Reservation,
    error::{Failure, ToolError},
    layer::incident,
    logged::{Failed, Line},
    message::SMALL,
    outbox::{Next, Outbox},
    outcome::{Outcome, Payload},
    reply::Reply,
    request::Request,
    seal::Subject,
    server::Engine,
    service::Source,
};

/// The future of a running handler.
pub(crate) type Work = Pin<Box<dyn Future<Output = Result<Payload, ToolError>> + Send>>;

/// The state that a running handler's `Cx` and its reply stream share.
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
    /// The start of the call, if somebody reads the log.
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
        if let Some(began) = self.began {
            Line::of(&self.request, began).write(outcome);
        }
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

    /// Turns the handler's result into the outcome, or into the error that the peer program gets.
    pub(crate) fn settle(&self, result: Result<Payload, ToolError>) -> Result<Outcome, RpcError> {
        let payload = match result {
            Ok(Payload::CallTool(mut result)) => {
                if result.structured_content.is_some() {
                    self.engine.presentation(&self.request).shape(&mut result);
                }
                Payload::CallTool(result)
            }
            Ok(payload) => payload,
            Err(error) => self.settle_failure(error)?,
        };
        let mut outcome = Outcome::new(payload).from_server(Arc::clone(&self.engine.server_info));
        outcome.meta = self.take_meta();
        Ok(outcome)
    }

    fn settle_failure(&self, failure: ToolError) -> Result<Payload, RpcError> {
        let text = shortened(failure.to_string());
        match failure.into_failure() {
            Failure::NeedsInput => self.input_required(),
            Failure::MissingCapability(needed) => Err(RpcError::missing_capability(&needed)),
            Failure::Rpc(error) => Err(error),
            Failure::NotFound => Err(RpcError::invalid_params("there is no such resource")),
            Failure::Message { .. }
                if self.request.method() == wire::method::request::TOOLS_CALL =>
            {
                Ok(Payload::CallTool(wire::CallToolResult::error(text)))
            }
            Failure::Message { .. } => Err(RpcError::internal(text)),
        }
    }

    /// Makes the answer that asks for the missing input. Its sealed state names the caller and the request.
    fn input_required(&self) -> Result<Payload, RpcError> {
        let Engine { sealer, limits, .. } = &*self.engine;
        let seal = |carried: &_| sealer.seal(carried, &Subject::of(&self.request), limits);
        let required = self.asking.required(limits, seal)?;
        Ok(Payload::InputRequired(required))
    }

    /// The members that the handler put into the `_meta` of its result.
    fn take_meta(&self) -> Option<wire::Meta> {
        self.meta
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// Turns the handler's result into the response, and writes the end of the call to the log.
    fn respond(&self, result: Result<Payload, ToolError>) -> Result<Outcome, RpcError> {
        let settled = self.settle(result);
        match &settled {
            Ok(outcome) => self.log(outcome),
            Err(error) => self.log(&Failed(error)),
        }
        settled
    }
}

/// The reply stream of a request that a handler answers.
pub(crate) struct RunningCall {
    call: Arc<Call>,
    /// `None` once the work has ended or was handed over.
    work: Option<Work>,
    deadline: Duration,
    /// Whether the work changes nothing.
    harmless: bool,
    /// Armed when the first poll did not finish the work.
    alarm: Option<Pin<Box<Sleep>>>,
    /// Armed when progress came too soon after the last report.
    tick: Option<Pin<Box<Sleep>>>,
    /// The response, held back until everything before it is sent.
    response: Option<Result<Outcome, RpcError>>,
    /// The memory of a large response that is held back.
    counted: Option<Reservation>,
}

impl RunningCall {
    pub(crate) fn new(call: Arc<Call>, work: Work, deadline: Duration, harmless: bool) -> Self {
        Self {
            call,
            work: Some(work),
            deadline,
            harmless,
            alarm: None,
            tick: None,
            response: None,
            counted: None,
        }
    }

    fn poll_work(&mut self, cx: &mut Context<'_>) -> Poll<Result<Outcome, RpcError>> {
        let Some(work) = &mut self.work else {
            return Poll::Pending;
        };
        match poll_fenced(work, &self.call, cx) {
            Poll::Ready(result) => {
                self.work = None;
                return Poll::Ready(self.call.respond(result));
            }
            Poll::Pending if self.call.wants_task.swap(false, Ordering::AcqRel) => {
                if let Some(response) = self.hand_over() {
                    return Poll::Ready(response);
                }
            }
            Poll::Pending => {}
        }
        self.poll_alarm(cx)
    }

    /// Waits for the deadline, and then returns the error of a request that took too long.
    fn poll_alarm(&mut self, cx: &mut Context<'_>) -> Poll<Result<Outcome, RpcError>> {
        let alarm = self
            .alarm
            .get_or_insert_with(|| Box::pin(sleep(self.deadline)));
        let asking = &self.call.asking;
        if asking.take_answered() {
            alarm.set(sleep(self.deadline));
        }
        ready!(alarm.as_mut().poll(cx));
        if asking.is_thinking() {
            alarm.set(sleep(self.deadline));
            ready!(alarm.as_mut().poll(cx));
        }
        // The values of the handler may panic when they are dropped. The call has no answer then, as it has none anyway.
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
        Poll::Ready(Err(error))
    }

    /// From now on the task store drives the work, and the client holds a handle. `None`: the last place for a task has just gone to
    /// another call, and this one goes on as a call.
    fn hand_over(&mut self) -> Option<Result<Outcome, RpcError>> {
        match self.call.engine.tasks.adopt(&self.call, self.work.take()?) {
            Ok(task) => {
                let created = Payload::TaskCreated(Box::new(task));
                Some(self.call.respond(Ok(created)))
            }
            Err(work) => {
                self.work = Some(work);
                None
            }
        }
    }

    /// Counts a large answer that is held back: its client may not be reading.
    fn count(&mut self) {
        let Some(Ok(outcome)) = self.response.as_ref().filter(|_| self.counted.is_none()) else {
            return;
        };
        let bytes = outcome.bytes();
        if bytes > SMALL {
            let account = self.call.engine.account(&self.call.request);
            self.counted = Some(account.take(bytes));
        }
    }
}

impl Source for RunningCall {
    fn poll_reply(&mut self, cx: &mut Context<'_>) -> Poll<Option<Reply>> {
        if self.response.is_none() {
            match self.poll_work(cx) {
                Poll::Ready(response) => self.response = Some(response),
                Poll::Pending if self.work.is_none() => return Poll::Ready(None),
                // From here on another thread may push a reply at any time: so the waker is registered before the outbox is
                // read.
                Poll::Pending => self.call.outbox.register(cx.waker()),
            }
        }
        match self
            .call
            .outbox
            .next(&self.call.engine.limits, self.response.is_some())
        {
            Next::Reply(reply) => {
                self.count();
                return Poll::Ready(Some(reply));
            }
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
        Poll::Ready(Some(Reply::Done(response)))
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

impl Drop for RunningCall {
    fn drop(&mut self) {
        // Only work that is still here is stopped. Work that was handed over belongs to the task store.
        if self.work.take().is_some() {
            self.call.log(&"cancelled");
            self.call.cancel();
        }
    }
}

/// Polls a handler. A panic becomes an error that names an incident in the log, and tells the peer nothing else. A handler that
/// blocks is reported in the log: other calls wait for its thread.
pub(crate) fn poll_fenced(
    work: &mut Work,
    call: &Call,
    cx: &mut Context<'_>,
) -> Poll<Result<Payload, ToolError>> {
    let began = tracing::enabled!(tracing::Level::WARN).then(std::time::Instant::now);
    let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx)));
    if let Some(held) = began
        .map(|began| began.elapsed())
        .filter(|held| *held >= LONG)
    {
        Line::of(&call.request, Instant::now()).warn_of_blocking(held);
    }
    polled.unwrap_or_else(|panic| Poll::Ready(Err(ToolError::rpc(incident(&*panic)))))
}

/// A handler that runs for this long without an `.await` blocks its thread.
const LONG: Duration = Duration::from_secs(1);

/// Shortens the text of an error to a length that a model reads. Errors repeat arguments, and arguments may be long.
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
