//! Sends one message of the client by POST, and reads the whole response.
//!
//! Every request in the message is answered once, or the [`Outcome`] says why not. Dropping the exchange closes its
//! connection, which cancels a request of 2026-07-28.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Method, Response, StatusCode, Uri, header, response, uri::PathAndQuery,
};
use lmcp_outbound::{Connection, Failed, Incoming, Unread, whole};
use lmcp_wire::{RequestId, RpcError, header as wire, jsonrpc, method::request};
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};

use crate::{
    Event,
    answer::{self, Said},
    error::Error,
    failures,
    limits::{LINGER, STREAM_ATTEMPTS, TURN, WORDS_BYTES},
    message::{Kind, Message},
    pair::Pair,
    server::Server,
    stream::{Next, Opened, Reader, backoff, is_events},
    verdict::{Case, Verdict},
};

/// A report of an exchange to its link.
pub(crate) enum Signal {
    /// A message of the server.
    Line(Bytes),
    /// An answer to a request that was made on another connection.
    Elsewhere(RequestId, Bytes),
    /// An error that replaces a missing answer.
    Failure(Bytes),
    /// A handshake was answered.
    Agreed {
        session: Option<HeaderValue>,
        version: String,
    },
    /// HTTP+SSE: an answer is too long, and the rest of the stream cannot be read.
    TooLong,
    /// A connection that other exchanges may use.
    Rested(Option<Connection>),
    /// The next message may be sent.
    Clear(u64),
    /// The exchange has ended.
    Done(u64, Outcome),
}

/// The end of an exchange.
pub(crate) enum Outcome {
    /// Everything was reported. Other exchanges may use the connection.
    Over(Option<Connection>),
    /// The server speaks HTTP+SSE, and has not looked at this message.
    Paired(Box<Pair>, Bytes),
    /// The server or the session is gone. A message that the server has not looked at is handed back.
    Lost { why: String, unsent: Option<Bytes> },
    /// As `Lost`, because no new connection can be made: a server that stops may still answer on those that are open.
    Away { why: String, unsent: Option<Bytes> },
    /// Another try does not help: the event says why.
    Refused(Event),
}

pub(crate) struct Post {
    pub(crate) key: u64,
    pub(crate) server: Arc<Server>,
    pub(crate) message: Message,
    /// The server did not know the session in which the message was sent before: this is its second session.
    pub(crate) is_second: bool,
    /// The headers of this message.
    pub(crate) headers: HeaderMap,
    /// The address for messages, if it differs: HTTP+SSE, where answers arrive on another stream.
    pub(crate) inlet: Option<PathAndQuery>,
    /// A connection that can be used again.
    pub(crate) connection: Option<Connection>,
    /// The requests without an answer.
    pub(crate) pending: Vec<RequestId>,
    /// The client does not wait for the answer any more.
    pub(crate) cancelled: Arc<AtomicBool>,
    /// How often in a row a subscription broke without a message.
    pub(crate) failures: u32,
    pub(crate) signals: mpsc::Sender<Signal>,
}

/// The progress of an exchange.
enum Step {
    Over(Outcome),
    /// The connection is gone, and a request has no answer.
    Broken,
}

impl Post {
    pub(crate) async fn run(mut self) {
        let outcome = self.exchange().await;
        self.tell(Signal::Done(self.key, outcome)).await;
    }

    async fn exchange(&mut self) -> Outcome {
        loop {
            let step = match self.begin().await {
                Ok((response, connection)) => self.hear(response, connection).await,
                Err(step) => step,
            };
            match step {
                Step::Over(outcome) => return outcome,
                Step::Broken if !self.message.wants_answer() => return Outcome::Over(None),
                Step::Broken => {}
            }
            // A new connection shows whether only the old connection is gone.
            match self.server.connect().await {
                Err(err) => return away(&err, None),
                Ok(connection) if self.message.is_listen() && self.failures < STREAM_ATTEMPTS => {
                    self.failures += 1;
                    sleep(backoff(self.failures)).await;
                    self.connection = Some(connection);
                }
                Ok(connection) => {
                    self.fail(&failures::broken(self.message.method())).await;
                    return Outcome::Over(Some(connection));
                }
            }
        }
    }

    /// Sends the message, and waits for the head of the response.
    async fn begin(&mut self) -> Result<(Response<Incoming>, Connection), Step> {
        loop {
            let reused = self.connection.take();
            let is_reused = reused.is_some();
            let connection = match reused {
                Some(connection) => Ok(connection),
                None => self.server.connect().await,
            };
            let unsent = |err: &Error| Err(Step::Over(away(err, Some(self.message.line.clone()))));
            let mut connection = match connection {
                Ok(connection) => connection,
                Err(err) => return unsent(&err),
            };
            let line = self.message.line.clone();
            let mut request = self.server.request(Method::POST, &self.headers, line);
            if let Some(inlet) = &self.inlet {
                *request.uri_mut() = Uri::from(inlet.clone());
            }
            match connection.send(request, self.written()).await {
                Ok(response) => return Ok((response, connection)),
                Err(Failed::Unsent(_)) if is_reused => {}
                Err(Failed::Unsent(err)) => {
                    let words = format!("`{}` hung up: {err}", self.server.name());
                    return unsent(&Error::Unreachable(words));
                }
                Err(Failed::Refused(err)) => {
                    return Err(Step::Over(Outcome::Refused(Event::Refused(
                        err.to_string(),
                    ))));
                }
                Err(endless @ Failed::Endless) => {
                    let (name, method) = (self.server.name(), self.message.method());
                    let error = failures::unanswered(name, method, &endless.to_string());
                    self.fail(&error).await;
                    return Err(Step::Over(Outcome::Over(None)));
                }
                Err(_) => return Err(Step::Broken),
            }
        }
    }

    /// Reports that the message was written. From here on, requests may overlap. A message without an answer counts as
    /// accepted only after the server's response. Nothing may follow a handshake before its answer.
    async fn written(&self) {
        if self.message.is_handshake() {
            return std::future::pending().await;
        }
        if !self.message.wants_answer() || self.inlet.is_some() {
            sleep(TURN).await;
        }
        self.tell(Signal::Clear(self.key)).await;
    }

    async fn hear(&mut self, response: Response<Incoming>, connection: Connection) -> Step {
        if !self.message.is_handshake() {
            self.tell(Signal::Clear(self.key)).await;
        }
        let (parts, body) = response.into_parts();
        if self.inlet.is_some() && parts.status.is_success() {
            return self.leave(body, connection).await;
        }
        let is_stream = parts.status == StatusCode::OK && is_events(&parts.headers);
        let session = parts.headers.get(wire::SESSION_ID);
        if is_stream && self.message.wants_answer() {
            return self.follow(session, body, connection).await;
        }
        let limit = self.server.message_bytes;
        let mut share = self.server.begun.share(limit);
        let read = if self.message.wants_answer() {
            share.whole(body).await
        } else {
            let read = timeout(LINGER, whole(body, limit.min(WORDS_BYTES))).await;
            read.unwrap_or(Err(Unread::Broken))
        };
        let (body, connection) = match read {
            Ok(body) => (body, Some(connection)),
            Err(_) if !self.message.wants_answer() => (Bytes::new(), None),
            Err(Unread::TooLong) => {
                self.fail_too_long(share.is_crowded()).await;
                return Step::Over(Outcome::Over(None));
            }
            Err(_) => return Step::Broken,
        };
        if self.is_settled(&parts, &body).await {
            return Step::Over(rested(connection).await);
        }
        let verdict = self.judge(&parts, &body);
        if self.may_be_paired(parts.status, &verdict)
            && let Ok(Some(pair)) = Pair::open(&self.server).await
        {
            let line = self.message.line.clone();
            return Step::Over(Outcome::Paired(Box::new(pair), line));
        }
        if let Verdict::Failed(_) = &verdict
            && is_passing(parts.status)
            && self.message.is_listen()
            && self.failures < STREAM_ATTEMPTS
        {
            return Step::Broken;
        }
        if let Some(end) = self.act(verdict).await {
            return Step::Over(end);
        }
        if self.message.wants_answer() {
            self.pass(session, body).await;
            let how = "its answer is to something else";
            self.fail(&failures::unanswered(
                self.server.name(),
                self.message.method(),
                how,
            ))
            .await;
        }
        Step::Over(rested(connection).await)
    }

    /// Handles the most common response: one answer to the only request, and nothing else.
    async fn is_settled(&mut self, parts: &response::Parts, body: &Bytes) -> bool {
        if parts.status != StatusCode::OK || parts.headers.contains_key(header::CONTENT_ENCODING) {
            return false;
        }
        let line = answer::one_line(body);
        match (answer::read(&line), &*self.pending) {
            (Some(Said::Answer(Some(id))), [pending]) if id == *pending => {}
            _ => return false,
        }
        self.pending.clear();
        let line = self.learn(parts.headers.get(wire::SESSION_ID), line).await;
        self.tell(Signal::Line(line)).await;
        true
    }

    /// HTTP+SSE: the server has the message, and answers on the other stream. The reader of the answer ends this task.
    async fn leave(&mut self, body: Incoming, connection: Connection) -> Step {
        let read = timeout(LINGER, whole(body, WORDS_BYTES)).await;
        let rested = match read {
            Ok(Ok(_)) => connection.rest().await,
            _ => None,
        };
        if !self.message.wants_answer() {
            return Step::Over(Outcome::Over(rested));
        }
        self.tell(Signal::Rested(rested)).await;
        std::future::pending().await
    }

    /// Returns whether a response may come from a server of 2024-11-05 that speaks HTTP+SSE. (Specification, transports,
    /// backwards compatibility.)
    fn may_be_paired(&self, status: StatusCode, verdict: &Verdict) -> bool {
        let is_answer = matches!(verdict, Verdict::Fine);
        let is_no = match status {
            StatusCode::METHOD_NOT_ALLOWED => true,
            StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND => {
                !is_answer || self.message.is_handshake()
            }
            _ => false,
        };
        is_no && self.inlet.is_none() && self.message.wants_answer() && !self.server.is_proven()
    }

    fn judge(&self, parts: &response::Parts, body: &Bytes) -> Verdict {
        let is_plain = !parts.headers.contains_key(header::CONTENT_ENCODING);
        let case = Case {
            server: self.server.name(),
            method: self.message.method(),
            pending: &self.pending,
            wants_answer: self.message.wants_answer(),
            is_handshake: self.message.is_handshake(),
            is_second: self.is_second,
            has_session: self.headers.contains_key(wire::SESSION_ID) || self.inlet.is_some(),
            is_proven: self.server.is_proven(),
            status: parts.status,
            headers: &parts.headers,
            body: if is_plain { body } else { &Bytes::new() },
        };
        case.judge()
    }

    /// Acts on a verdict. `None`: the body holds the answer.
    async fn act(&mut self, verdict: Verdict) -> Option<Outcome> {
        Some(match verdict {
            Verdict::Fine => return None,
            Verdict::Refused(why) => Outcome::Refused(Event::Refused(why)),
            Verdict::Unauthorized(why) => Outcome::Refused(Event::Unauthorized(why)),
            Verdict::Gone(why) => Outcome::Lost { why, unsent: None },
            Verdict::SessionOver(why) => {
                let line = self.message.line.clone();
                self.server.second.expect(&line);
                let unsent = Some(line);
                Outcome::Lost { why, unsent }
            }
            Verdict::Failed(error) => {
                self.fail(&error).await;
                Outcome::Over(None)
            }
        })
    }

    async fn fail_too_long(&mut self, is_crowded: bool) {
        let error = match is_crowded {
            true => failures::crowded(self.message.method()),
            false => failures::too_long(self.server.message_bytes),
        };
        self.fail(&error).await;
    }

    /// Passes on the events of a stream until every request is answered, over as many connections as needed.
    async fn follow(
        &mut self,
        session: Option<&HeaderValue>,
        mut body: Incoming,
        mut connection: Connection,
    ) -> Step {
        let limit = self.server.message_bytes;
        let mut reader = Reader::sharing(limit, self.server.begun.share(limit));
        while !self.is_answered() {
            match reader.next(&mut body).await {
                Next::Message(message) => self.pass(session, message).await,
                Next::TooLong => {
                    self.fail_too_long(reader.is_crowded()).await;
                    return Step::Over(Outcome::Over(None));
                }
                Next::Ended if self.cancelled.load(Ordering::Relaxed) => {
                    return Step::Over(Outcome::Over(None));
                }
                Next::Ended => match self.resume(&mut reader).await {
                    Ok(opened) => (body, connection) = opened,
                    Err(step) => return step,
                },
            }
        }
        let rest = async {
            while let Next::Message(message) = reader.next(&mut body).await {
                self.pass(session, message).await;
            }
        };
        let ended = timeout(LINGER, rest).await;
        if self.message.is_listen() {
            // Servers end subscriptions when they stop, and there may be no other sign of that.
            return Step::Over(match self.server.connect().await {
                Ok(connection) => Outcome::Over(Some(connection)),
                Err(err) => away(&err, None),
            });
        }
        Step::Over(rested(ended.is_ok().then_some(connection)).await)
    }

    /// Opens the rest of a stream, if the events have ids.
    async fn resume(&mut self, reader: &mut Reader) -> Result<(Incoming, Connection), Step> {
        if self.message.is_modern() || !reader.can_resume() {
            return Err(Step::Broken);
        }
        while !reader.is_hopeless() {
            match reader.open_again(&self.server, &self.headers).await {
                Ok(Opened::Stream(body, connection)) => return Ok((body, connection)),
                Ok(Opened::Status(StatusCode::NOT_FOUND)) => {
                    let why = format!(
                        "`{}` does not know the session any more",
                        self.server.name()
                    );
                    return Err(Step::Over(Outcome::Lost { why, unsent: None }));
                }
                Ok(Opened::Status(status)) if !status.is_server_error() => break,
                Ok(Opened::Status(_) | Opened::Broken) => {}
                Err(err) => return Err(Step::Over(away(&err, None))),
            }
        }
        Err(Step::Broken)
    }

    /// Passes on one or several messages of the server. An answer that nobody waits for is dropped: each request has only
    /// one.
    async fn pass(&mut self, session: Option<&HeaderValue>, message: Bytes) {
        self.failures = 0;
        let line = answer::one_line(&message);
        let messages = answer::messages(&line);
        let count = messages.len();
        let mut left = Vec::with_capacity(count);
        for message in messages {
            match answer::read(&message) {
                Some(Said::Own) => left.push(message),
                Some(Said::Answer(Some(id))) if self.take(&id) => {
                    left.push(self.learn(session, message).await);
                }
                Some(Said::Answer(None)) => self.assign(message, &mut left),
                Some(Said::Answer(Some(_))) | None => {}
            }
        }
        if line.starts_with(b"[") && left.len() == count {
            return self.tell(Signal::Line(line)).await;
        }
        for message in left {
            self.tell(Signal::Line(message)).await;
        }
    }

    /// Returns whether this request still waits, and removes it.
    fn take(&mut self, id: &RequestId) -> bool {
        let place = self.pending.iter().position(|pending| pending == id);
        if let Some(place) = place {
            self.pending.swap_remove(place);
        }
        place.is_some() || matches!(self.message.kind, Kind::Unreadable)
    }

    /// Uses an error without an id as the answer to all requests that wait.
    fn assign(&mut self, message: Bytes, left: &mut Vec<Bytes>) {
        if matches!(self.message.kind, Kind::Unreadable) {
            return left.push(message);
        }
        if let Some(error) = answer::error(&message) {
            let ids = std::mem::take(&mut self.pending);
            left.extend(
                ids.iter()
                    .map(|id| Bytes::from(jsonrpc::error(Some(id), &error))),
            );
        }
    }

    /// Reads the parts of an answer that the link must know.
    async fn learn(&self, session: Option<&HeaderValue>, message: Bytes) -> Bytes {
        if self.message.is_handshake()
            && let Some(version) = answer::agreed_version(&message)
        {
            let session = session.cloned();
            self.tell(Signal::Agreed { session, version }).await;
        }
        if self.message.is_modern() && self.message.method() == request::TOOLS_LIST {
            return self.server.mirrors().learn(message);
        }
        message
    }

    fn is_answered(&self) -> bool {
        self.pending.is_empty() && !matches!(self.message.kind, Kind::Unreadable)
    }

    /// Answers the remaining requests with an error.
    async fn fail(&mut self, error: &RpcError) {
        let pending = std::mem::take(&mut self.pending);
        if self.cancelled.load(Ordering::Relaxed) {
            return;
        }
        for id in pending {
            let line = jsonrpc::error(Some(&id), error).into();
            self.tell(Signal::Failure(line)).await;
        }
    }

    async fn tell(&self, signal: Signal) {
        // The send fails only if the link was dropped, and then this task is, too.
        let _ = self.signals.send(signal).await;
    }
}

/// Returns whether the trouble of the server may pass.
fn is_passing(status: StatusCode) -> bool {
    status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS
}

pub(crate) fn away(err: &Error, unsent: Option<Bytes>) -> Outcome {
    let why = err.to_string();
    Outcome::Away { why, unsent }
}

/// Waits until the answer has ended, so that the connection can be used again.
async fn rested(connection: Option<Connection>) -> Outcome {
    match connection {
        Some(connection) => Outcome::Over(connection.rest().await),
        None => Outcome::Over(None),
    }
}
