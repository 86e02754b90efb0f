//! One connection that speaks a line of JSON per message: stdio, unix sockets and anything alike.
//!
//! Reading never waits for a handler, and handlers run side by side. What they say goes through one bounded buffer to
//! one writer, so that a message is never torn. When the peer does not read, the buffer fills, then the places for
//! requests, and then nothing more is read: memory stays flat because the pipe is full, not we.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use lmcp_wire::{
    Incoming, RequestId, RpcError,
    method::{notification, request},
    params::Params,
    progress::CancelledParams,
};
use serde_json::{json, value::RawValue};
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::{Notify, watch},
    task::{AbortHandle, JoinSet},
    time::timeout,
};

use super::{framing::Frame, outgoing::Outgoing};
use crate::{
    era,
    limits::Limits,
    request::Caller,
    service::{Replies, Reply, Service},
};

/// Where lines come from.
pub(crate) trait Lines: Send {
    /// The next line; `None` at the end. Losing the future loses nothing.
    fn next(&mut self) -> impl Future<Output = Option<Frame>> + Send;

    /// Is the next line there already?
    fn has_more(&self) -> bool;
}

/// One connection.
pub(crate) struct Connection<S> {
    service: S,
    caller: Caller,
    limits: Limits,
    out: Arc<Outgoing>,
    tasks: JoinSet<()>,
    in_flight: Arc<InFlight>,
    /// The last request found no place; until one is free the next need not wait.
    saturated: bool,
}

impl<S: Service> Connection<S> {
    pub(crate) fn new(service: S, caller: Caller, limits: Limits, out: Arc<Outgoing>) -> Self {
        let (tasks, in_flight) = (JoinSet::new(), Arc::default());
        Self {
            service,
            caller,
            limits,
            out,
            tasks,
            in_flight,
            saturated: false,
        }
    }

    /// Serves until the lines end, the writer is gone or the server closes; then gives what is in flight a moment.
    pub(crate) async fn run(mut self, mut lines: impl Lines, mut closing: watch::Receiver<bool>) {
        loop {
            tokio::select! {
                biased;
                () = closed(&mut closing) => return self.drain().await,
                () = self.out.gone() => return,
                frame = lines.next() => match frame {
                    Some(Frame::Line(line)) => self.on_line(&line).await,
                    Some(Frame::TooLong) => self.on_long_line().await,
                    None => {
                        // Nobody listens any more.
                        self.in_flight.cancel_listening();
                        return self.drain().await;
                    }
                },
            }
            while self.tasks.try_join_next().is_some() {}
            if lines.has_more() {
                self.out.cork();
            } else {
                self.out.uncork();
            }
        }
    }

    async fn on_line(&mut self, line: &Bytes) {
        match Incoming::parse(line) {
            Ok(Incoming::Request { id, method, params }) => {
                self.on_request(line, id, &method, params).await
            }
            Ok(Incoming::Notification { method, params }) => {
                self.on_notification(&method, params).await;
            }
            Ok(_) => tracing::debug!("a response nobody waits for"),
            Err(rejected) => {
                self.out
                    .send(Reply::error(rejected.id.as_ref(), &rejected.error))
                    .await
            }
        }
    }

    async fn on_long_line(&self) {
        let most = self.limits.line_bytes;
        let error = RpcError::invalid_request(format!("a message has at most {most} bytes"))
            .with_data(json!({ "limit": "line_bytes", "value": most }));
        self.out.send(Reply::error(None, &error)).await;
    }

    async fn on_request(&mut self, line: &Bytes, id: RequestId, method: &str, params: Params<'_>) {
        if self.in_flight.contains(&id) {
            let error =
                RpcError::invalid_request(format!("the id `{id}` belongs to a request in flight"));
            return self.out.send(Reply::error(Some(&id), &error)).await;
        }
        let request = match era::admit(line, id.clone(), method, params, self.caller.clone()) {
            Ok(request) => request,
            Err(error) => return self.out.send(Reply::error(Some(&id), &error)).await,
        };
        let mut replies = self.service.call(request);
        if let Some(reply) = replies.take_ready() {
            return self.out.send(reply).await;
        }
        if !self.find_place().await {
            let most = self.limits.requests_in_flight;
            let words =
                format!("{most} requests are in flight on this connection; try again later");
            let error = RpcError::internal(words)
                .with_data(json!({ "limit": "requests_in_flight", "value": most }));
            return self.out.send(Reply::error(Some(&id), &error)).await;
        }
        if let Some(reply) = answered_at_once(&mut replies) {
            return self.out.send(reply).await;
        }
        let place = self.in_flight.enter(id.clone(), method == request::LISTEN);
        let task = self
            .tasks
            .spawn(forward(replies, Arc::clone(&self.out), place));
        self.in_flight.abort_with(&id, task);
    }

    async fn on_notification(&self, method: &str, params: Option<&RawValue>) {
        if method != notification::CANCELLED {
            return tracing::debug!(method, "a notification nobody knows");
        }
        let params = serde_json::from_str::<CancelledParams>(params.map_or("{}", RawValue::get));
        if let Ok(params) = params {
            self.in_flight.cancel(&params.request_id);
            // The task is dropped when it is next looked at: that is now, before anything else is read.
            tokio::task::yield_now().await;
        }
    }

    /// Waits a little for a place among the requests in flight; as long as it takes where it is the peer that does not
    /// read: then the answers are there, and nothing more is taken in until they are gone.
    async fn find_place(&mut self) -> bool {
        let most = self.limits.requests_in_flight;
        // Answers that wait for a peer that does not read have left their places: it must read before there are more.
        if self.out.is_full() {
            self.out.uncork();
            self.out.room().await;
        }
        while self.in_flight.len() >= most {
            self.out.uncork();
            let room = self.in_flight.until(|requests| requests < most);
            if self.saturated || timeout(self.limits.admission_wait, room).await.is_err() {
                self.saturated = !self.out.is_full();
                if self.saturated {
                    return false;
                }
                self.out.room().await;
            }
        }
        self.saturated = false;
        true
    }

    /// Answers that are nearly there still go out; then everything is dropped.
    async fn drain(mut self) {
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        let _ = timeout(self.limits.drain_wait, ended).await;
    }
}

impl<S> Drop for Connection<S> {
    fn drop(&mut self) {
        self.out.finish();
    }
}

/// Waits until the server closes.
async fn closed(closing: &mut watch::Receiver<bool>) {
    if closing.wait_for(|closing| *closing).await.is_err() {
        std::future::pending().await
    }
}

/// The response, if there is one already.
///
/// Where one thread runs everything, a first turn costs nobody anything, and for most calls it is the only one. Where
/// there are several, a handler that blocks its thread would hold up the connection: there every call is a task.
fn answered_at_once(replies: &mut Replies) -> Option<Reply> {
    if Handle::current().runtime_flavor() != RuntimeFlavor::CurrentThread {
        return None;
    }
    match replies.peek(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Some(reply)) if reply.is_response() => replies.take_ready(),
        _ => None,
    }
}

/// Drives one request, and puts what it says into the buffer.
async fn forward(mut replies: Replies, out: Arc<Outgoing>, place: Place) {
    let mut place = Some(place);
    while let Some(reply) = replies.next().await {
        if reply.is_response() {
            // Before the peer can know of the answer, so that the id is free for it.
            place = None;
        }
        out.send(reply).await;
    }
    drop(place);
}

/// The requests that are being answered.
#[derive(Default)]
struct InFlight {
    requests: Mutex<HashMap<RequestId, Entry>>,
    /// How many ever were.
    entered: AtomicU64,
    /// A place is free.
    freed: Notify,
}

struct Entry {
    /// Tells it from a later request of the same id.
    number: u64,
    abort: Option<AbortHandle>,
    listening: bool,
}

/// A request's place; leaving it, in whatever way, frees it.
struct Place {
    id: RequestId,
    number: u64,
    among: Arc<InFlight>,
}

impl InFlight {
    fn enter(self: &Arc<Self>, id: RequestId, listening: bool) -> Place {
        let number = self.entered.fetch_add(1, Ordering::Relaxed);
        let entry = Entry {
            number,
            abort: None,
            listening,
        };
        self.lock().insert(id.clone(), entry);
        Place {
            id,
            number,
            among: Arc::clone(self),
        }
    }

    /// How to stop it. It may have ended already.
    fn abort_with(&self, id: &RequestId, abort: AbortHandle) {
        if let Some(entry) = self.lock().get_mut(id) {
            entry.abort = Some(abort);
        }
    }

    /// Stops a request. Its place and its id are free at once.
    fn cancel(&self, id: &RequestId) {
        if let Some(abort) = self.lock().remove(id).and_then(|entry| entry.abort) {
            abort.abort();
            self.freed.notify_one();
        }
    }

    fn cancel_listening(&self) {
        let requests = self.lock();
        requests
            .values()
            .filter(|entry| entry.listening)
            .filter_map(|entry| entry.abort.as_ref())
            .for_each(AbortHandle::abort);
    }

    /// Waits until so many are left.
    async fn until(&self, enough: impl Fn(usize) -> bool) {
        loop {
            let freed = self.freed.notified();
            if enough(self.len()) {
                return;
            }
            freed.await;
        }
    }

    fn contains(&self, id: &RequestId) -> bool {
        self.lock().contains_key(id)
    }

    fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RequestId, Entry>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut requests = self.among.lock();
        if requests
            .get(&self.id)
            .is_some_and(|entry| entry.number == self.number)
        {
            requests.remove(&self.id);
        }
        drop(requests);
        self.among.freed.notify_one();
    }
}
