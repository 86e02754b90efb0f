//! Decides what a client sends to its server and when, and which events it reports.
//!
//! Every exchange, which is a request with its response, runs in a task of its own that ends with the link. Their results are collected here, and only while
//! [`Link::next`] is waited for.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, uri::PathAndQuery};
use lmcp_outbound::Connection;
use lmcp_wire::{RequestId, RpcError, header as wire, jsonrpc};
use tokio::{
    sync::mpsc,
    task::{JoinError, JoinSet},
    time::{Instant, sleep_until, timeout},
};

use crate::{
    doing::{Doing, Running, Session},
    failures,
    limits::{
        CLOSING, ENOUGH_BYTES, ENOUGH_LINES, IDLE_CONNECTIONS, LAST_WAIT, MOST_BYTES, MOST_LINES,
        SIGNALS,
    },
    message::{Kind, Message},
    pair::Pair,
    post::{Outcome, Post, Signal},
    server::Server,
    standing::{self, Standing},
};

/// An event of a [`Link`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A message of the server.
    Line(Bytes),
    /// An error that replaces a missing answer. Its `data.began` says whether the request may have reached the server.
    Failure(Bytes),
    /// A line that the server has not looked at. The line can be sent unchanged to the next server.
    Unsent(Bytes),
    /// There is room for more lines again.
    Room,
    /// The server or the session is gone: requests without an answer will get none. A new link must be opened, and the
    /// handshake made again.
    Lost(String),
    /// The server or the session is gone, and another try will not help. The text tells people what is wrong and what to do.
    Refused(String),
    /// The server wants a token and got none, or one that it does not accept. Another try will not help.
    Unauthorized(String),
}

/// A conversation with a server. Dropping it closes the connections; [`close`](Self::close) ends the session first.
///
/// Every request is answered with one [`Event::Line`] or [`Event::Failure`], unless it comes back as [`Event::Unsent`], was
/// cancelled by the client or is lost with the server. Requests begin in the order in which they were sent, and may overlap.
/// After a message without an answer, the next message is sent only when the server has accepted it. While too many requests
/// run, notifications and answers overtake waiting requests.
///
/// A subscription of 2026-07-28 whose connection breaks is opened again, and is then acknowledged once more.
pub struct Link {
    server: Arc<Server>,
    session: Session,
    /// The address for messages, if it differs from that of the stream: HTTP+SSE.
    inlet: Option<PathAndQuery>,
    /// Messages that are still to be sent, and their size.
    queue: VecDeque<Message>,
    queue_bytes: usize,
    /// The queue was full at the last line.
    was_full: bool,
    /// The exchange that must be sent or answered before the next message may be sent.
    blocked: Option<u64>,
    running: HashMap<u64, Running>,
    next_key: u64,
    idle: Vec<Connection>,
    /// All tasks, which end with the link.
    tasks: JoinSet<()>,
    signals: mpsc::Receiver<Signal>,
    signal: mpsc::Sender<Signal>,
    ready: VecDeque<Event>,
    /// Set when the link ends: no new exchange is begun, and answers may arrive until this time. `None`: for as long as their
    /// connections are open.
    ending: Option<(Event, Option<Instant>)>,
    /// Lines that no server has looked at, in the order in which they were sent.
    unsent: BTreeMap<u64, Bytes>,
    ended: Option<Event>,
}

impl Link {
    pub(crate) fn new(server: Arc<Server>) -> Self {
        let (signal, signals) = mpsc::channel(SIGNALS);
        Self {
            server,
            session: Session::default(),
            inlet: None,
            queue: VecDeque::new(),
            queue_bytes: 0,
            was_full: false,
            blocked: None,
            running: HashMap::new(),
            next_key: 0,
            idle: Vec::new(),
            tasks: JoinSet::new(),
            signals,
            signal,
            ready: VecDeque::new(),
            ending: None,
            unsent: BTreeMap::new(),
            ended: None,
        }
    }

    /// Adds a connection that exists already.
    pub(crate) fn with(mut self, connection: Connection) -> Self {
        self.idle.push(connection);
        self
    }

    /// Does the same, with a server of 2024-11-05.
    pub(crate) fn paired(server: Arc<Server>, pair: Pair) -> Self {
        let mut link = Self::new(server);
        link.pair(pair);
        link
    }

    /// Sends one message of the client, or a batch of 2025-03-26, once [`next`](Self::next) is waited for.
    pub fn send(&mut self, line: impl Into<Bytes>) {
        let line = line.into();
        let line = line.slice_ref(line.trim_ascii());
        if line.is_empty() {
            return;
        }
        if self.ended.is_some() {
            return self.ready.push_back(Event::Unsent(line));
        }
        let message = Message::read(line);
        if self.queue.len() >= MOST_LINES || self.queue_bytes >= MOST_BYTES {
            let error = failures::no_room(message.method(), self.queue.len());
            let answers = message
                .ids()
                .iter()
                .map(|id| jsonrpc::error(Some(id), &error));
            let answers = answers.map(|line| Event::Failure(line.into()));
            return self.ready.extend(answers);
        }
        self.queue_bytes += message.line.len();
        self.queue.push_back(message);
        self.was_full |= !self.has_room();
    }

    /// Returns whether more lines should be sent. If not, [`Event::Room`] tells when.
    pub fn has_room(&self) -> bool {
        self.queue.len() < ENOUGH_LINES && self.queue_bytes < ENOUGH_BYTES
    }

    /// Returns the next event. [`Event::Lost`], [`Event::Refused`] and [`Event::Unauthorized`] are the last, and are
    /// repeated.
    ///
    /// # Cancellation
    /// The future may be dropped, and `next` called again: nothing is lost.
    pub async fn next(&mut self) -> Event {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return event;
            }
            if let Some(ended) = &self.ended {
                return ended.clone();
            }
            self.turn().await;
        }
    }

    /// Closes the link: messages without an answer are still sent, requests are given up, and the session ends. Takes at
    /// most 2 s.
    pub async fn close(mut self) {
        let deadline = Instant::now() + CLOSING;
        let last = async {
            while self.ended.is_none() && self.has_last_words() {
                self.turn().await;
                self.ready.clear();
            }
        };
        let _ = timeout(CLOSING, last).await;
        self.tasks.abort_all();
        let headers = self.session.headers();
        if self.ended.is_some() || !headers.contains_key(wire::SESSION_ID) {
            return;
        }
        let request = self.server.request(Method::DELETE, &headers, Bytes::new());
        let delete = async {
            let reused = self.reusable();
            let connection = match reused {
                Some(connection) => Ok(connection),
                None => self.server.connect().await,
            };
            if let Ok(mut connection) = connection {
                // Servers may refuse the request. That has no effect.
                let _ = connection.send(request, std::future::pending()).await;
            }
        };
        let _ = timeout(deadline - Instant::now(), delete).await;
    }

    /// Sends everything that may be sent, and waits for an event.
    async fn turn(&mut self) {
        self.begin();
        self.end_if_done();
        if !self.ready.is_empty() || self.ended.is_some() {
            return;
        }
        let until = self.ending.as_ref().and_then(|(_, until)| *until);
        tokio::select! {
            biased;
            Some(signal) = self.signals.recv() => self.take(signal),
            Some(ended) = self.tasks.join_next() => self.reap(ended),
            () = sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() => self.end(),
        }
    }

    /// Returns whether there is a message to send that nobody waits for.
    fn has_last_words(&self) -> bool {
        let queued = self.queue.iter().any(|message| !message.wants_answer());
        let running = self
            .running
            .values()
            .any(|running| running.kind.is_telling());
        queued || running
    }

    /// Sends everything that may be sent.
    fn begin(&mut self) {
        while self.ending.is_none() && self.blocked.is_none() {
            let Some(message) = self.next_message() else {
                break;
            };
            self.start(message);
        }
        if self.was_full && self.has_room() {
            self.was_full = false;
            self.ready.push_back(Event::Room);
        }
    }

    fn next_message(&mut self) -> Option<Message> {
        let requests = self
            .running
            .values()
            .filter(|running| running.kind.is_asking());
        let is_free = requests.count() < self.server.requests;
        let mut queue = self.queue.iter();
        let place = queue.position(|message| is_free || !message.wants_answer())?;
        let message = self.queue.remove(place)?;
        self.queue_bytes -= message.line.len();
        Some(message)
    }

    fn start(&mut self, message: Message) {
        if let (Some(_), Some(id)) = (&self.inlet, message.discovery()) {
            // HTTP+SSE belongs to a revision with a handshake, and some servers of that time crash at this request.
            let error = RpcError::method_not_found(message.method());
            let line = jsonrpc::error(Some(id), &error);
            return self.ready.push_back(Event::Failure(line.into()));
        }
        let kind = match &message.kind {
            Kind::Cancelled(id) => match self.cancel(id) {
                Some(kind) => kind,
                None => return,
            },
            Kind::Handshake(_) => {
                self.end_session();
                Doing::Request
            }
            _ if message.is_listen() && self.inlet.is_none() => Doing::Listen,
            Kind::Modern(..) if self.inlet.is_none() => Doing::Modern,
            Kind::Modern(..) => Doing::Request,
            Kind::Request(..) | Kind::Batch(_) | Kind::Unreadable => Doing::Request,
            Kind::Initialized => Doing::Initialized,
            Kind::Other => Doing::Other,
        };
        let mut headers = HeaderMap::new();
        if message.is_modern() {
            message.mirror(&self.server.mirrors(), &mut headers);
        } else if !message.is_handshake() {
            headers = self.session.headers();
        }
        let key = self.new_key();
        let (ids, cancelled) = (message.ids().to_vec(), Arc::<AtomicBool>::default());
        let post = Post {
            key,
            server: Arc::clone(&self.server),
            pending: ids.clone(),
            is_second: self.server.second.take(&message.line),
            message,
            headers,
            inlet: self.inlet.clone(),
            connection: self.reusable(),
            cancelled: Arc::clone(&cancelled),
            failures: 0,
            signals: self.signal.clone(),
        };
        let abort = self.tasks.spawn(post.run());
        let running = Running {
            ids,
            kind,
            cancelled,
            abort,
        };
        self.running.insert(key, running);
        self.blocked = Some(key);
    }

    /// Cancels a request. `None`: nothing need be sent for that.
    fn cancel(&mut self, id: &RequestId) -> Option<Doing> {
        let queued = self
            .queue
            .iter()
            .position(|message| message.ids() == [id.clone()]);
        if let Some(message) = queued.and_then(|place| self.queue.remove(place)) {
            self.queue_bytes -= message.line.len();
            return None;
        }
        let mut running = self.running.iter();
        let found = running.find(|(_, running)| running.ids.contains(id));
        let Some((key, running)) = found.map(|(key, running)| (*key, running)) else {
            // Without a session, the server would not know which request is meant.
            return self
                .session
                .version
                .is_some()
                .then_some(Doing::Cancel(None));
        };
        match running.kind {
            // Specification 2026-07-28, Streamable HTTP: closing the stream cancels the request, and there is no other way.
            Doing::Modern | Doing::Listen => {
                self.stop(key);
                None
            }
            // A batch is answered as a whole.
            _ if running.ids.len() > 1 => Some(Doing::Cancel(None)),
            _ => {
                running.cancelled.store(true, Ordering::Relaxed);
                Some(Doing::Cancel(Some(key)))
            }
        }
    }

    fn stop(&mut self, key: u64) {
        if let Some(running) = self.running.remove(&key) {
            running.abort.abort();
        }
        self.clear(key);
    }

    fn clear(&mut self, key: u64) {
        if self.blocked == Some(key) {
            self.blocked = None;
        }
    }

    fn take(&mut self, signal: Signal) {
        match signal {
            Signal::Line(line) => {
                self.server.prove();
                self.ready.push_back(Event::Line(line));
            }
            Signal::Failure(line) => self.ready.push_back(Event::Failure(line)),
            Signal::Elsewhere(id, line) => self.answered_elsewhere(&id, line),
            Signal::Agreed { session, version } => {
                self.session.id = session;
                self.session.version = HeaderValue::from_str(&version).ok();
            }
            Signal::Clear(key) => {
                // After this exchange, the stream for the server's own messages is opened first.
                let running = self.running.get(&key).map(|running| running.kind);
                if running != Some(Doing::Initialized) {
                    self.clear(key);
                }
            }
            Signal::TooLong => self.fail_all(&failures::too_long(self.server.message_bytes)),
            Signal::Rested(connection) => self.keep(connection),
            Signal::Done(key, outcome) => self.done(key, outcome),
        }
    }

    /// Handles an answer on another stream: some servers answer on the standing stream, and not on that of the request.
    fn answered_elsewhere(&mut self, id: &RequestId, line: Bytes) {
        let mut running = self.running.iter();
        let asked = running.find(|(_, running)| running.ids == [id.clone()]);
        if let Some(key) = asked.map(|(key, _)| *key) {
            self.server.prove();
            self.stop(key);
            self.ready.push_back(Event::Line(line));
        }
    }

    /// Fails all requests that wait.
    fn fail_all(&mut self, error: &RpcError) {
        for running in self.running.values_mut() {
            let ids = std::mem::take(&mut running.ids).into_iter();
            let lines = ids.map(|id| jsonrpc::error(Some(&id), error));
            self.ready
                .extend(lines.map(|line| Event::Failure(line.into())));
        }
    }

    /// Handles the end of a task. A panicked task has reported nothing, so the link is lost.
    fn reap(&mut self, ended: Result<(), JoinError>) {
        if ended.is_err_and(|err| err.is_panic()) {
            self.lose(Event::Lost("the link failed (this is a bug)".to_owned()));
            self.end();
        }
    }

    fn done(&mut self, key: u64, outcome: Outcome) {
        self.clear(key);
        let Some(running) = self.running.remove(&key) else {
            return;
        };
        match outcome {
            Outcome::Over(connection) => {
                self.keep(connection);
                self.follow_up(running.kind);
            }
            Outcome::Paired(pair, line) => {
                if self.inlet.is_none() {
                    self.pair(*pair);
                }
                self.queue_bytes += line.len();
                self.queue.push_front(Message::read(line));
            }
            Outcome::Away { why, unsent } => {
                self.hand_back(key, &running, unsent);
                self.lose_until(Event::Lost(why), None);
            }
            Outcome::Lost { why, unsent } => {
                self.hand_back(key, &running, unsent);
                self.lose(Event::Lost(why));
                if running.kind == Doing::Pair {
                    // No other stream brings messages.
                    self.end();
                }
            }
            Outcome::Refused(event) => self.lose(event),
        }
    }

    /// Continues after an exchange that succeeded.
    fn follow_up(&mut self, kind: Doing) {
        match kind {
            Doing::Initialized if self.session.version.is_some() => self.stand(),
            // Specification, cancellation: an answer that comes after a cancellation is ignored.
            Doing::Cancel(Some(key)) => self.stop(key),
            Doing::Initialized
            | Doing::Cancel(None)
            | Doing::Request
            | Doing::Modern
            | Doing::Listen
            | Doing::Standing
            | Doing::Pair
            | Doing::Other => {}
        }
    }

    /// Opens the stream for messages that the server sends by itself.
    fn stand(&mut self) {
        if let Some(before) = self.session.standing.take() {
            self.stop(before);
        }
        let key = self.new_key();
        let standing = Standing {
            key,
            server: Arc::clone(&self.server),
            headers: self.session.headers(),
            signals: self.signal.clone(),
        };
        self.run_beside(key, Doing::Standing, standing.run());
        self.session.standing = Some(key);
        self.blocked = Some(key);
    }

    /// Speaks HTTP+SSE from now on.
    fn pair(&mut self, pair: Pair) {
        let key = self.new_key();
        self.inlet = Some(pair.inlet.clone());
        let reading = standing::read_pair(pair, key, Arc::clone(&self.server), self.signal.clone());
        self.run_beside(key, Doing::Pair, reading);
    }

    /// Runs a stream that no request opened.
    fn run_beside(
        &mut self,
        key: u64,
        kind: Doing,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let abort = self.tasks.spawn(task);
        let running = Running {
            ids: Vec::new(),
            kind,
            cancelled: Arc::default(),
            abort,
        };
        self.running.insert(key, running);
    }

    /// Forgets the session, because the client makes a new handshake.
    fn end_session(&mut self) {
        if let Some(standing) = std::mem::take(&mut self.session).standing {
            self.stop(standing);
        }
    }

    fn hand_back(&mut self, key: u64, running: &Running, unsent: Option<Bytes>) {
        let unsent = unsent.filter(|_| !running.cancelled.load(Ordering::Relaxed));
        self.unsent.extend(unsent.map(|line| (key, line)));
    }

    /// Ends the link soon: nothing new is sent from now on.
    fn lose(&mut self, event: Event) {
        self.lose_until(event, Some(Instant::now() + LAST_WAIT));
    }

    /// Ends the link when nothing more will be answered, at this time at the latest.
    fn lose_until(&mut self, event: Event, until: Option<Instant>) {
        match &mut self.ending {
            None => self.ending = Some((event, until)),
            // A final refusal is reported rather than a loss.
            Some((known, _)) if matches!(event, Event::Refused(_) | Event::Unauthorized(_)) => {
                *known = event;
            }
            Some(_) => {}
        }
    }

    fn end_if_done(&mut self) {
        let waits = self
            .running
            .values()
            .any(|running| running.kind.is_waited_for());
        if self.ending.is_some() && !waits {
            self.end();
        }
    }

    fn end(&mut self) {
        let Some((event, _)) = self.ending.take() else {
            return;
        };
        self.tasks.abort_all();
        self.running.clear();
        self.idle.clear();
        let unsent = std::mem::take(&mut self.unsent).into_values();
        let queued = std::mem::take(&mut self.queue);
        self.queue_bytes = 0;
        let unsent = unsent.chain(queued.into_iter().map(|message| message.line));
        self.ready.extend(unsent.map(Event::Unsent));
        self.ended = Some(event);
    }

    fn keep(&mut self, connection: Option<Connection>) {
        self.idle
            .extend(connection.filter(|_| self.idle.len() < IDLE_CONNECTIONS));
    }

    /// Returns a connection that can be used again.
    fn reusable(&mut self) -> Option<Connection> {
        self.idle.retain(Connection::is_usable);
        self.idle.pop()
    }

    fn new_key(&mut self) -> u64 {
        self.next_key += 1;
        self.next_key
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("server", &self.server.name())
            .field("running", &self.running.len())
            .field("queue", &self.queue.len())
            .finish_non_exhaustive()
    }
}
