//! One connection that speaks a line of JSON per message: stdio, unix sockets and anything alike.
//!
//! Reading never waits for a handler, and handlers run side by side. What they say goes through one bounded queue to
//! one writer, so that a message is never torn. When the peer does not read, the queue fills, then the places for
//! requests, and then nothing more is read: memory stays flat because the pipe is full, not we.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use lmcp_wire::{
    Incoming, RequestId, RpcError,
    method::{notification, request},
    progress::CancelledParams,
};
use serde_json::{json, value::RawValue};
use tokio::{
    sync::{Notify, mpsc, watch},
    task::{AbortHandle, JoinSet},
    time::timeout,
};

use super::framing::Frame;
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
}

/// How many messages wait for the writer. Few: each may be as large as a file.
pub(crate) const QUEUE: usize = 64;

/// One connection.
pub(crate) struct Connection<S> {
    service: S,
    caller: Caller,
    limits: Limits,
    /// To the writer. A message ends with its line end.
    out: mpsc::Sender<Vec<u8>>,
    tasks: JoinSet<()>,
    in_flight: Arc<InFlight>,
    /// The last request found no place; until one is free the next need not wait.
    saturated: bool,
}

impl<S: Service> Connection<S> {
    pub(crate) fn new(
        service: S,
        caller: Caller,
        limits: Limits,
        out: mpsc::Sender<Vec<u8>>,
    ) -> Self {
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
                () = closed(&mut closing) => break,
                () = self.out.closed() => return,
                frame = lines.next() => match frame {
                    Some(Frame::Line(line)) => self.on_line(&line).await,
                    Some(Frame::TooLong) => self.on_long_line().await,
                    None => break,
                },
            }
            while self.tasks.try_join_next().is_some() {}
        }
        self.drain().await;
    }

    async fn on_line(&mut self, line: &Bytes) {
        match Incoming::parse(line) {
            Ok(Incoming::Request { id, method, params }) => {
                self.on_request(line, id, &method, params).await
            }
            Ok(Incoming::Notification { method, params }) => self.on_notification(&method, params),
            Ok(_) => tracing::debug!("a response nobody waits for"),
            Err(rejected) => {
                self.send(Reply::error(rejected.id.as_ref(), &rejected.error))
                    .await
            }
        }
    }

    async fn on_long_line(&self) {
        let most = self.limits.line_bytes;
        let error = RpcError::invalid_request(format!("a message has at most {most} bytes"))
            .with_data(json!({ "limit": "line_bytes", "value": most }));
        self.send(Reply::error(None, &error)).await;
    }

    async fn on_request(
        &mut self,
        line: &Bytes,
        id: RequestId,
        method: &str,
        params: Option<&RawValue>,
    ) {
        if self.in_flight.contains(&id) {
            let error =
                RpcError::invalid_request(format!("the id `{id}` belongs to a request in flight"));
            return self.send(Reply::error(Some(&id), &error)).await;
        }
        let request = match era::admit(line, id.clone(), method, params, self.caller.clone()) {
            Ok(request) => request,
            Err(error) => return self.send(Reply::error(Some(&id), &error)).await,
        };
        let mut replies = self.service.call(request);
        // What is answered already needs no place among those in flight.
        if let Some(reply) = replies.take_ready() {
            return self.send(reply).await;
        }
        if !self.find_place().await {
            let most = self.limits.requests_in_flight;
            let error = RpcError::internal(format!(
                "{most} requests are in flight on this connection; try again later"
            ))
            .with_data(json!({ "limit": "requests_in_flight", "value": most }));
            return self.send(Reply::error(Some(&id), &error)).await;
        }
        let place = self.in_flight.enter(id.clone(), method == request::LISTEN);
        let task = self.tasks.spawn(forward(replies, self.out.clone(), place));
        self.in_flight.abort_with(&id, task);
    }

    fn on_notification(&self, method: &str, params: Option<&RawValue>) {
        if method != notification::CANCELLED {
            return tracing::debug!(method, "a notification nobody knows");
        }
        let params = serde_json::from_str::<CancelledParams>(params.map_or("{}", RawValue::get));
        if let Ok(params) = params {
            self.in_flight.cancel(&params.request_id);
        }
    }

    /// Waits a little for a place among the requests in flight.
    async fn find_place(&mut self) -> bool {
        let most = self.limits.requests_in_flight;
        let room = async {
            loop {
                let freed = self.in_flight.freed.notified();
                if self.in_flight.len() < most {
                    return;
                }
                freed.await;
            }
        };
        if self.in_flight.len() < most {
            self.saturated = false;
        } else if self.saturated || timeout(self.limits.admission_wait, room).await.is_err() {
            self.saturated = true;
        }
        !self.saturated
    }

    async fn send(&self, reply: Reply) {
        // A writer that is gone ends the loop by itself.
        let _ = self.out.send(line(reply)).await;
    }

    /// Answers that are nearly there still go out; then everything is dropped.
    async fn drain(self) {
        self.in_flight.cancel_listening();
        let idle = async {
            loop {
                let freed = self.in_flight.freed.notified();
                if self.in_flight.len() == 0 {
                    return;
                }
                freed.await;
            }
        };
        let _ = timeout(self.limits.drain_wait, idle).await;
    }
}

/// Waits until the server closes.
async fn closed(closing: &mut watch::Receiver<bool>) {
    if closing.wait_for(|closing| *closing).await.is_err() {
        std::future::pending().await
    }
}

/// Drives one request, and puts what it says into the queue.
async fn forward(mut replies: Replies, out: mpsc::Sender<Vec<u8>>, place: Place) {
    while let Some(reply) = replies.next().await {
        if out.send(line(reply)).await.is_err() {
            break;
        }
    }
    drop(place);
}

fn line(reply: Reply) -> Vec<u8> {
    let mut json = reply.into_json();
    json.push(b'\n');
    json
}

/// Collects what is queued, up to about 64 KiB, so that a flood of small messages costs few writes.
pub(crate) fn gather(first: Vec<u8>, queue: &mut mpsc::Receiver<Vec<u8>>) -> Vec<u8> {
    let mut batch = first;
    while batch.len() < 64 << 10
        && let Ok(message) = queue.try_recv()
    {
        batch.extend_from_slice(&message);
    }
    batch
}

/// The requests that are being answered.
#[derive(Default)]
struct InFlight {
    requests: Mutex<HashMap<RequestId, Entry>>,
    /// A place is free.
    freed: Notify,
}

#[derive(Default)]
struct Entry {
    abort: Option<AbortHandle>,
    listening: bool,
}

/// A request's place; leaving it, in whatever way, frees it.
struct Place {
    id: RequestId,
    among: Arc<InFlight>,
}

impl InFlight {
    fn enter(self: &Arc<Self>, id: RequestId, listening: bool) -> Place {
        self.lock().insert(
            id.clone(),
            Entry {
                abort: None,
                listening,
            },
        );
        Place {
            id,
            among: Arc::clone(self),
        }
    }

    /// How to stop it. It may have ended already.
    fn abort_with(&self, id: &RequestId, abort: AbortHandle) {
        if let Some(entry) = self.lock().get_mut(id) {
            entry.abort = Some(abort);
        }
    }

    fn cancel(&self, id: &RequestId) {
        if let Some(abort) = self.lock().get(id).and_then(|entry| entry.abort.as_ref()) {
            abort.abort();
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
        self.among.lock().remove(&self.id);
        self.among.freed.notify_one();
    }
}
