//! One connection that carries one line of JSON per message: stdio, unix sockets, and other streams.
//!
//! Reading never waits for a handler, and handlers run side by side. Their messages go through one bounded buffer to one
//! writer, so that a message is never torn. If the peer does not read, first the buffer fills, then the places for requests;
//! then nothing more is read. So the pipe fills up, and the memory of the server does not grow.

use std::{
    sync::Arc,
    task::{Context, Waker},
    time::Duration,
};

use bytes::Bytes;
use lmcp_wire::{RpcError, method::request};
use serde_json::json;
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::watch,
    task::{AbortHandle, JoinSet},
    time::{Instant, timeout, timeout_at},
};

use super::{
    batch, connections,
    in_flight::{InFlight, RequestPlace},
    intake::Frame,
    outgoing::Outgoing,
    said::{self, Notification, Place, Said},
};
use crate::{
    budget::{Account, CALL_BYTES, try_later},
    caller::Caller,
    endpoint::{Endpoint, Messages},
    limits::{Limits, is_long},
    message::{Message, MessageKind},
    request::Request,
    session::Session,
};

/// A source of lines.
pub(crate) trait Lines: Send {
    /// Returns the next line; `None` at the end. Dropping the future loses no line.
    fn next(&mut self) -> impl Future<Output = Option<Frame>> + Send;

    /// Whether the next line is there already.
    fn has_more(&self) -> bool;
}

/// One connection.
pub(crate) struct Connection {
    endpoint: Endpoint,
    caller: Caller,
    /// The memory that the caller occupies.
    account: Account,
    limits: Limits,
    out: Arc<Outgoing>,
    tasks: JoinSet<()>,
    in_flight: Arc<InFlight>,
    /// The session, if the client has made a handshake.
    session: Option<Session>,
    /// The task that sends changes outside of any request in that session.
    listening: Option<AbortHandle>,
    /// The last request found no place. Until a place is free, later requests do not wait.
    saturated: bool,
    /// A request of this line found no memory. The others of its batch do not wait for memory.
    short: bool,
    /// The record that the listener keeps of the connection, if the listener closes idle connections.
    seen: Option<Arc<connections::Connection>>,
    /// Makes the last message when the server closes.
    farewell: Option<Farewell>,
    /// The server closes: requests in flight may go on until then, and others are refused.
    until: Option<Instant>,
}

/// `None` while the server serves. When it closes: until when requests in flight may go on.
pub(crate) type Closing = watch::Receiver<Option<Instant>>;

/// A function that makes the last message of a server that closes.
pub(crate) type Farewell = Arc<dyn Fn() -> Message + Send + Sync>;

impl Connection {
    pub(crate) fn new(
        endpoint: Endpoint,
        caller: Caller,
        account: Account,
        limits: Limits,
        out: Arc<Outgoing>,
    ) -> Self {
        let (tasks, in_flight) = (JoinSet::new(), Arc::default());
        Self {
            endpoint,
            caller,
            account,
            limits,
            out,
            tasks,
            in_flight,
            session: None,
            listening: None,
            saturated: false,
            short: false,
            seen: None,
            farewell: None,
            until: None,
        }
    }

    /// Sets the last message for when the server closes.
    pub(crate) fn saying_last(mut self, farewell: Option<Farewell>) -> Self {
        self.farewell = farewell;
        self
    }

    /// Sets the connection that the listener reads to know whether this one is idle.
    pub(crate) fn seen_as(mut self, seen: Option<Arc<connections::Connection>>) -> Self {
        self.in_flight = Arc::new(InFlight::seen_as(seen.clone()));
        self.seen = seen;
        self
    }

    /// Serves until the lines end, the writer is gone or the server closes. Then gives the requests in flight a moment.
    pub(crate) async fn run(mut self, mut lines: impl Lines, mut closing: Closing) {
        loop {
            // If a caller holds too much, nothing more is sent to it, not even refusals, until it has read the waiting answers.
            let holds_too_much = self.account.is_over() && self.out.is_waiting();
            if holds_too_much {
                self.out.uncork();
            }
            tokio::select! {
                biased;
                until = closed(&mut closing), if self.until.is_none() => {
                    // Without time for calls, nothing more is read: a request that is not answered is sent to the next server.
                    if until <= Instant::now() {
                        return self.close().await;
                    }
                    self.until = Some(until);
                }
                () = self.ended() => return self.close().await,
                () = self.out.gone() => return,
                () = self.out.taken(), if holds_too_much => {}
                frame = lines.next(), if !holds_too_much => match frame {
                    Some(Frame::Line(line)) => self.on_line(&line).await,
                    Some(Frame::TooLong) => self.on_long_line().await,
                    Some(Frame::NoRoom(no_room)) => {
                        self.out.send(Message::error(None, &no_room.into())).await;
                    }
                    None => {
                        // Nobody listens to changes any more.
                        self.in_flight.cancel_listening();
                        return self.drain().await;
                    }
                },
            }
            while self.tasks.try_join_next().is_some() {}
            self.show_subscriptions();
            if lines.has_more() {
                self.out.cork();
            } else {
                self.out.uncork();
            }
        }
    }

    /// Tells the listener whether the client has subscribed to anything.
    fn show_subscriptions(&self) {
        if let Some(seen) = &self.seen {
            let live = self.session.as_ref().and_then(Session::find);
            seen.set_subscribed(live.is_some_and(|live| live.has_wishes()));
        }
    }

    async fn on_line(&mut self, line: &Bytes) {
        if let Some(seen) = &self.seen {
            seen.said_something();
        }
        self.short = false;
        let batches = self.session.as_ref().is_some_and(Session::has_batches);
        if batches && line.trim_ascii_start().starts_with(b"[") {
            return self.on_batch(line).await;
        }
        let said = self.read(line, Place::Alone).await;
        self.on_said(said, &Answers::Lines).await;
    }

    /// Reads a message. A long message is read on another thread than the one that all callers share.
    async fn read(&self, message: &Bytes, place: Place) -> Said {
        let session = self.session.as_ref();
        if !is_long(message) {
            return Said::read(message, &self.caller.now(), session, place);
        }
        let (message, caller) = (message.clone(), self.caller.now());
        let session = session.cloned();
        let reading = self
            .endpoint
            .read_long(move || Said::read(&message, &caller, session.as_ref(), place));
        let said = Box::pin(reading).await;
        said.unwrap_or_else(|error| Said::Refused(Message::error(None, &error)))
    }

    async fn on_said(&mut self, said: Said, answers: &Answers) {
        match said {
            Said::Request(request) => self.on_request(request, answers).await,
            Said::Handshake(session, request) => self.on_handshake(session, request).await,
            Said::Notification(notification) => self.on_notification(notification).await,
            Said::Refused(message) => answers.send(message, &self.out).await,
            Said::Nothing => {}
        }
    }

    async fn on_long_line(&self) {
        let most = self.limits.line_bytes;
        let error = RpcError::invalid_request(format!("a message has at most {most} bytes"))
            .with_data(json!({ "limit": "line_bytes", "value": most }));
        self.out.send(Message::error(None, &error)).await;
    }

    /// Answers the handshake of an older revision. A second handshake starts a new session.
    async fn on_handshake(&mut self, session: Session, request: Request) {
        let Some(reply) = self.endpoint.start(request).response().await else {
            return;
        };
        if reply.kind() == MessageKind::Result {
            self.session = Some(session);
        }
        self.out.send(reply).await;
    }

    /// Reads the messages of a batch (2025-03-26). Their answers go out as one line, when all are there.
    async fn on_batch(&mut self, line: &Bytes) {
        let most = self.limits.requests_in_flight;
        let messages = if is_long(line) {
            let line = line.clone();
            let cutting = self.endpoint.read_long(move || said::cut(&line, most));
            Box::pin(cutting).await.and_then(|messages| messages)
        } else {
            said::cut(line, most)
        };
        let messages = match messages {
            Ok(messages) => messages,
            Err(error) => return self.out.send(Message::error(None, &error)).await,
        };
        let (answer, mut collected) = batch::collect(messages.len(), self.account.clone());
        let batch = Answers::Batch(answer);
        for message in messages {
            let said = self.read(&message, Place::InBatch).await;
            self.on_said(said, &batch).await;
            // Each message is a piece of work: other connections get their turns in between.
            tokio::task::yield_now().await;
        }
        drop(batch);
        if collected.is_whole() {
            // As with single answers, nothing more is read from a client that does not read.
            return self.out.send_batch(collected).await;
        }
        let out = Arc::clone(&self.out);
        self.tasks.spawn(async move {
            collected.complete().await;
            out.send_batch(collected).await;
        });
    }

    async fn on_request(&mut self, request: Request, answers: &Answers) {
        let id = request.id.clone();
        let refuse = |error: &RpcError| Message::error(Some(&id), error);
        // A client that pings wants to know whether the connection is good, and it is.
        if self.until.is_some() && request.method() != request::PING {
            return answers.send(refuse(&ending()), &self.out).await;
        }
        if self.in_flight.contains(&id) {
            let error =
                RpcError::invalid_request(format!("the id `{id}` belongs to a request in flight"));
            return answers.send(refuse(&error), &self.out).await;
        }
        let listens = request.method() == request::LISTEN;
        // Some clients never send `initialized`. A client that sends a request is taken as ready.
        if request.session().is_some() && self.listening.is_none() {
            self.listen();
        }
        // Unread answers of more than the caller's share: no further answer is added to them.
        if let Err(no_room) = self.account.expect_share(self.memory_wait()).await {
            self.short = true;
            return answers.send(refuse(&no_room.into()), &self.out).await;
        }
        let mut replies = self.endpoint.start(request);
        if let Some(reply) = replies.take_ready() {
            return answers.send(reply, &self.out).await;
        }
        if !self.find_place().await {
            let most = self.limits.requests_in_flight;
            let words =
                format!("{most} requests are in flight on this connection; try again later");
            let error = try_later(words, "requests_in_flight", most);
            return answers.send(refuse(&error), &self.out).await;
        }
        // A call that may change something reserves its memory before its first turn, so that a refused call has done nothing.
        let is_first_turn_free = replies.is_harmless();
        if is_first_turn_free && let Some(reply) = answered_at_once(&mut replies) {
            return answers.send(reply, &self.out).await;
        }
        let wait = self.memory_wait();
        let counted = match self.account.reserve(CALL_BYTES, wait).await {
            Ok(counted) => counted,
            Err(no_room) => {
                self.short = true;
                return answers.send(refuse(&no_room.into()), &self.out).await;
            }
        };
        if !is_first_turn_free && let Some(reply) = answered_at_once(&mut replies) {
            return answers.send(reply, &self.out).await;
        }
        let place = self.in_flight.enter(id.clone(), listens, counted);
        let (out, answers) = (Arc::clone(&self.out), answers.clone());
        let task = self.tasks.spawn(forward(replies, out, answers, place));
        self.in_flight.abort_with(&id, task);
    }

    async fn on_notification(&mut self, notification: Notification) {
        match notification {
            Notification::Cancelled(id) => {
                // The client need not answer the questions of the cancelled request any longer.
                let live = self
                    .session
                    .as_ref()
                    .and_then(|session| session.live().ok());
                let told = live.map(|live| live.take_back(&id)).unwrap_or_default();
                self.in_flight.cancel(&id);
                for told in told {
                    self.out.send(Message::taken_back(told)).await;
                }
                // The task is dropped when the runtime polls it next. This happens now, before anything else is read.
                tokio::task::yield_now().await;
            }
            Notification::Initialized => self.listen(),
            Notification::RootsChanged => {
                if let Some(live) = self.session.as_ref().and_then(Session::find) {
                    live.forget_folders();
                }
            }
        }
    }

    /// Starts to announce changes to the client.
    fn listen(&mut self) {
        let Some(session) = self.session.as_ref().filter(|_| self.listening.is_none()) else {
            return;
        };
        let mut news = self
            .endpoint
            .start(Request::to_listen(session, self.caller.clone()));
        let out = Arc::clone(&self.out);
        let task = self.tasks.spawn(async move {
            // An error is dropped: the client did not ask for this stream.
            while let Some(reply) = news.next().await {
                if !reply.is_response() {
                    out.send(reply).await;
                }
            }
        });
        self.listening = Some(task);
    }

    /// How long a request waits for memory.
    fn memory_wait(&self) -> Duration {
        if self.short {
            Duration::ZERO
        } else {
            self.limits.admission_wait
        }
    }

    /// The number of requests in flight that run. A request that waits for the client's answer to a question does not count.
    fn running(&self) -> usize {
        let session = self.session.as_ref();
        let live = session.and_then(|session| session.live().ok());
        let waiting = live.map_or(0, |live| live.waiting());
        self.in_flight.len().saturating_sub(waiting)
    }

    /// Waits for a place among the requests in flight: a little while, or, if the peer does not read, as long as it takes. In
    /// that case the answers are waiting, and nothing more is read until they are gone.
    async fn find_place(&mut self) -> bool {
        let most = self.limits.requests_in_flight;
        // Answers that wait for the peer have left their places: the peer must read before there are more answers.
        if self.out.is_full() {
            self.out.uncork();
            self.out.room().await;
        }
        while self.running() >= most {
            self.out.uncork();
            let room = self.in_flight.until(|requests| requests < most);
            let waited = self.saturated || timeout(self.limits.admission_wait, room).await.is_err();
            if waited && self.running() >= most {
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

    /// Waits until a server that closes has nothing more to wait for here.
    async fn ended(&self) {
        match self.until {
            Some(until) => drop(timeout_at(until, self.in_flight.all_answered()).await),
            None => std::future::pending().await,
        }
    }

    /// Closes the connection for a server that closes: answers that are nearly ready still go out, then the last message.
    async fn close(mut self) {
        self.drain().await;
        // Requests that still run must not send anything after the last message.
        self.tasks.abort_all();
        if let Some(farewell) = self.farewell.take() {
            let _ = timeout(self.limits.drain_wait, self.out.send(farewell())).await;
        }
    }

    /// Waits a moment for answers that are nearly ready. The other requests are dropped with the connection.
    async fn drain(&mut self) {
        if let Some(task) = &self.listening {
            task.abort();
        }
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        let _ = timeout(self.limits.drain_wait, ended).await;
        // A user who pipes requests into a server and closes the pipe at once should learn why an answer is missing.
        let dropped = self.in_flight.len();
        if dropped > 0 {
            tracing::warn!("the connection ended; {dropped} requests in flight were stopped");
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.out.finish();
    }
}

/// Waits until the server closes, and returns until when requests in flight may go on.
pub(crate) async fn closed(closing: &mut Closing) -> Instant {
    let closes = closing.wait_for(Option::is_some).await;
    match closes.ok().and_then(|until| *until) {
        Some(until) => until,
        None => std::future::pending().await,
    }
}

/// Makes the error of a request that came after the server had begun to close. The request has not begun.
fn ending() -> RpcError {
    let words = "the server is ending and takes no new requests: this one was not begun";
    RpcError::internal(words).with_data(json!({ "retriable": false }))
}

/// Returns the response, if the first turn of the work brings it.
///
/// In a runtime with one thread, this first turn delays nobody, and most calls need no other. In a runtime with several
/// threads, a handler that blocks its thread would hold up the connection, so there every call is a task.
fn answered_at_once(replies: &mut Messages) -> Option<Message> {
    if Handle::current().runtime_flavor() != RuntimeFlavor::CurrentThread {
        return None;
    }
    replies.at_once(&mut Context::from_waker(Waker::noop()))
}

/// The place where responses go.
#[derive(Clone)]
enum Answers {
    /// Each response is a line.
    Lines,
    /// Each response waits for the others of its batch.
    Batch(batch::Sender),
}

impl Answers {
    async fn send(&self, reply: Message, out: &Outgoing) {
        match self {
            Self::Lines => out.send(reply).await,
            Self::Batch(answers) => answers.send(reply),
        }
    }
}

/// The bytes that an answer takes besides its text while it waits to be written: the task that holds it.
const WAITING_BYTES: usize = 1024;

/// Drives one request, and puts its messages into the buffer.
async fn forward(mut replies: Messages, out: Arc<Outgoing>, answers: Answers, place: RequestPlace) {
    let mut place = Some(place);
    while let Some(reply) = replies.next().await {
        if reply.is_response() {
            // The place is left before the peer can see the answer, so that the id is free again. While the answer waits to be
            // written, its memory and that of this task stay counted.
            let waits = place
                .take()
                .and_then(|place| place.leave(reply.json().len() + WAITING_BYTES));
            answers.send(reply, &out).await;
            drop(waits);
        } else {
            replies.hold(out.send(reply)).await;
            // A handler that sends without end must not take the turns of others.
            tokio::task::consume_budget().await;
        }
    }
    drop(place);
}
