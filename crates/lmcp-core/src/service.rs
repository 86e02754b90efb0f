//! The seam: a request goes in, a stream of replies comes out, and dropping the stream stops the work.
//!
//! Transports stand on one side, a [`Handle`](crate::Handle), a hub or a test on the other. Nothing else passes.

use std::{
    fmt,
    future::poll_fn,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use lmcp_wire::{self as wire, RequestId, RpcError, jsonrpc};

use crate::{budget::Budget, caller::Caller, request::Request};

/// Something that answers requests.
pub trait Service: Send + Sync + 'static {
    /// Starts to answer. Returns at once: the work is done as the replies are polled.
    fn call(&self, request: Request) -> Replies;
}

/// The answer to one request: any number of notifications, then one response.
///
/// Whoever holds it drives the work, and dropping it stops the work at its next `.await`.
pub struct Replies(Inner);

enum Inner {
    Ready(Option<Reply>),
    Source(Box<dyn Source>),
    /// A source, and what was taken out of it to be looked at.
    Peeked(Option<Reply>, Box<dyn Source>),
}

/// Where replies come from.
pub trait Source: Send {
    /// The next reply; `None` after the response.
    fn poll_reply(&mut self, cx: &mut Context<'_>) -> Poll<Option<Reply>>;

    /// Does the work change nothing, so that it may be stopped after its first turn as if it had never begun?
    fn is_harmless(&self) -> bool {
        false
    }

    /// Looked at while nobody can take a reply: work whose time is over ends all the same, and then this is ready.
    fn poll_deadline(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

impl Replies {
    /// A response that is there already.
    pub fn ready(reply: Reply) -> Self {
        Self(Inner::Ready(Some(reply)))
    }

    /// A refusal.
    pub fn error(id: &RequestId, error: &RpcError) -> Self {
        Self::ready(Reply::error(Some(id), error))
    }

    /// Replies made as they are asked for.
    pub fn from_source(source: impl Source + 'static) -> Self {
        Self(Inner::Source(Box::new(source)))
    }

    /// Replies that something must be awaited for: an authorisation, say.
    pub fn later(future: impl Future<Output = Self> + Send + 'static) -> Self {
        Self::from_source(Later {
            state: Waited::Waiting(Box::pin(future)),
            harmless: false,
        })
    }

    /// The same, where nothing is changed that could not be changed again.
    pub(crate) fn later_harmless(future: impl Future<Output = Self> + Send + 'static) -> Self {
        Self::from_source(Later {
            state: Waited::Waiting(Box::pin(future)),
            harmless: true,
        })
    }

    /// The next reply; `None` after the response.
    pub async fn next(&mut self) -> Option<Reply> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// As [`Replies::next`], for hand-written futures.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Reply>> {
        match &mut self.0 {
            Inner::Ready(reply) => Poll::Ready(reply.take()),
            Inner::Source(source) => source.poll_reply(cx),
            Inner::Peeked(reply, source) => match reply.take() {
                Some(reply) => Poll::Ready(Some(reply)),
                None => source.poll_reply(cx),
            },
        }
    }

    /// Does the work change nothing, so that it may be stopped after its first turn as if it had never begun?
    pub fn is_harmless(&self) -> bool {
        match &self.0 {
            Inner::Ready(_) => true,
            Inner::Source(source) | Inner::Peeked(_, source) => source.is_harmless(),
        }
    }

    /// Waits for something else, for room to put a reply say, while the time of the work goes on.
    pub async fn hold<T>(&mut self, other: impl Future<Output = T>) -> T {
        let mut other = std::pin::pin!(other);
        poll_fn(|cx| {
            let done = other.as_mut().poll(cx);
            if done.is_pending() {
                let _ = self.poll_deadline(cx);
            }
            done
        })
        .await
    }

    /// Waits until the time of the work is over; for ever where it has ended.
    pub async fn expired(&mut self) {
        poll_fn(|cx| self.poll_deadline(cx)).await;
    }

    pub(crate) fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.0 {
            Inner::Source(source) | Inner::Peeked(_, source) => source.poll_deadline(cx),
            Inner::Ready(_) => Poll::Pending,
        }
    }

    /// Looks at the next reply without taking it.
    pub(crate) fn peek(&mut self, cx: &mut Context<'_>) -> Poll<Option<&Reply>> {
        let next = ready!(self.poll_next(cx));
        self.0 = match (std::mem::replace(&mut self.0, Inner::Ready(None)), next) {
            (Inner::Source(source) | Inner::Peeked(_, source), Some(reply))
                if !reply.is_response() =>
            {
                Inner::Peeked(Some(reply), source)
            }
            (_, reply) => Inner::Ready(reply),
        };
        Poll::Ready(match &self.0 {
            Inner::Ready(reply) | Inner::Peeked(reply, _) => reply.as_ref(),
            Inner::Source(_) => None,
        })
    }

    /// Puts back what was taken out and is to come again.
    #[must_use]
    pub fn put_back(self, reply: Reply) -> Self {
        Self(match self.0 {
            Inner::Source(source) | Inner::Peeked(_, source) => Inner::Peeked(Some(reply), source),
            Inner::Ready(_) => Inner::Ready(Some(reply)),
        })
    }

    /// The response, if it needs no waiting for.
    pub fn take_ready(&mut self) -> Option<Reply> {
        match &mut self.0 {
            Inner::Ready(reply) => reply.take(),
            Inner::Source(_) | Inner::Peeked(..) => None,
        }
    }

    /// The response, without what comes before it.
    pub async fn response(mut self) -> Option<Reply> {
        loop {
            match self.next().await {
                Some(reply) if reply.is_response() => return Some(reply),
                Some(_) => {}
                None => return None,
            }
        }
    }
}

impl fmt::Debug for Replies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Replies")
    }
}

struct Later {
    state: Waited,
    harmless: bool,
}

enum Waited {
    Waiting(std::pin::Pin<Box<dyn Future<Output = Replies> + Send>>),
    Running(Replies),
}

impl Source for Later {
    fn poll_reply(&mut self, cx: &mut Context<'_>) -> Poll<Option<Reply>> {
        loop {
            match &mut self.state {
                Waited::Waiting(future) => match future.as_mut().poll(cx) {
                    Poll::Ready(replies) => self.state = Waited::Running(replies),
                    Poll::Pending => return Poll::Pending,
                },
                Waited::Running(replies) => return replies.poll_next(cx),
            }
        }
    }

    fn is_harmless(&self) -> bool {
        self.harmless
    }

    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.state {
            Waited::Running(replies) => replies.poll_deadline(cx),
            Waited::Waiting(_) => Poll::Pending,
        }
    }
}

/// Up to this size an answer is not counted as memory of its caller.
const SMALL: usize = 4096;

/// What is left of the words of an error that is not small, in bytes.
const WORDS: usize = 500;

/// An error with the beginning of its words, and without its data.
fn shortened(error: &RpcError) -> RpcError {
    let words = &error.message;
    let end = words.floor_char_boundary(WORDS);
    let cut = if end < words.len() { "…" } else { "" };
    let mut short = error.clone();
    short.message = format!("{}{cut}", &words[..end]).into();
    short.data = None;
    short
}

/// One encoded message to the peer, and what kind it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    json: Bytes,
    kind: ReplyKind,
}

/// What a [`Reply`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplyKind {
    /// Something on the way.
    Notification,
    /// A question to the client, in revisions that have a handshake: its answer comes as a message of its own.
    Request,
    /// No message: the client need not hold its connection, and may ask again after this time.
    Pause(Duration),
    /// The end, well.
    Result,
    /// The end, with this error code.
    Error(i64),
}

impl Reply {
    /// A result response, already encoded.
    pub fn encoded_result(json: Vec<u8>) -> Self {
        Self {
            json: json.into(),
            kind: ReplyKind::Result,
        }
    }

    /// An error response.
    ///
    /// What it repeats of the peer's own words is cut short: an error is small, so that nobody need count it.
    pub fn error(id: Option<&RequestId>, error: &RpcError) -> Self {
        let mut json = jsonrpc::error(id, error);
        if json.len() > SMALL {
            json = jsonrpc::error(id, &shortened(error));
        }
        Self {
            json: json.into(),
            kind: ReplyKind::Error(error.code),
        }
    }

    /// A notification.
    pub fn notification(method: &str, params: &impl serde::Serialize) -> Self {
        Self::encoded_notification(jsonrpc::notification(method, params))
    }

    pub(crate) fn encoded_notification(json: Vec<u8>) -> Self {
        Self {
            json: json.into(),
            kind: ReplyKind::Notification,
        }
    }

    /// A question, whose parameters are JSON already.
    pub(crate) fn request(id: &RequestId, method: &str, params: &[u8]) -> Self {
        Self {
            json: jsonrpc::request_with(id, method, params).into(),
            kind: ReplyKind::Request,
        }
    }

    /// Responses as one message (2025-03-26).
    pub fn batch(replies: &[Self]) -> Self {
        let mut json = Vec::with_capacity(replies.iter().map(|reply| reply.json.len() + 1).sum());
        for reply in replies {
            json.push(if json.is_empty() { b'[' } else { b',' });
            json.extend_from_slice(&reply.json);
        }
        json.push(b']');
        Self::encoded_result(json)
    }

    /// The same message, counted as memory of the caller that it is for until it is written. Small ones are not: the
    /// limits on their number are enough.
    pub(crate) fn counted(mut self, budget: &Budget, caller: &Caller) -> Self {
        if self.json.len() > SMALL {
            let counted = budget.account(&caller.owner()).take(self.json.len());
            self.json = counted.hold(std::mem::take(&mut self.json));
        }
        self
    }

    pub(crate) fn pause(time: Duration) -> Self {
        Self {
            json: Bytes::new(),
            kind: ReplyKind::Pause(time),
        }
    }

    /// What it is.
    pub fn kind(&self) -> ReplyKind {
        self.kind
    }

    /// Does it end the replies?
    pub fn is_response(&self) -> bool {
        matches!(self.kind, ReplyKind::Result | ReplyKind::Error(_))
    }

    /// The message, one line of JSON without its end.
    pub fn json(&self) -> &[u8] {
        &self.json
    }

    /// The message itself. Its last copy gives back the memory that was counted for it.
    pub fn into_json(self) -> Bytes {
        self.json
    }

    /// The message, read again: for tests and for whoever must look inside.
    pub fn parse(&self) -> wire::Incoming<'_> {
        wire::Incoming::parse(&self.json).expect("a reply is a valid message")
    }
}
