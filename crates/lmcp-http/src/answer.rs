//! The answer to a request: one buffer of JSON, or a stream of events that owns the rest of the work.

use std::{
    collections::VecDeque,
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use http_body::{Frame, SizeHint};
use lmcp_core::{Message, MessageKind, Messages, transport::connections::Busy};
use lmcp_wire::{RpcError, error, header as wire};
use tokio::time::{Instant, Sleep, sleep, timeout};

use crate::{headers::Accept, legacy_sse::Lines, session::Leaving, stream::Reader};

/// A request that cannot be read at all, and the status of its answer.
pub(crate) type Refusal = (StatusCode, RpcError);

/// An answer, or the way to it.
pub(crate) enum Answer {
    Now(Response<Body>),
    /// In a box, as all that is rare: a connection keeps room for whatever its requests may wait for.
    Later(Later),
}

impl Answer {
    pub(crate) fn with_status(self, status: StatusCode) -> Self {
        match self {
            Self::Now(mut response) => {
                *response.status_mut() = status;
                Self::Now(response)
            }
            Self::Later(later) => Self::Later(Box::pin(async move {
                let mut response = later.await;
                *response.status_mut() = status;
                response
            })),
        }
    }
}

/// An answer that is waited for.
pub(crate) type Later = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

/// The answer to a call, after its first turn: plain JSON if the response came; else a stream, as soon as something else
/// comes or it takes long.
pub(crate) fn first_turn(
    mut messages: Messages,
    accept: Accept,
    keep_alive: Duration,
    cx: &mut Context<'_>,
) -> Answer {
    match messages.poll_next(cx) {
        Poll::Ready(Some(message)) if message.is_response() => Answer::Now(response(message)),
        Poll::Ready(Some(message)) if accept.events => {
            Answer::Now(events(Body::events(Some(message), messages, keep_alive)))
        }
        Poll::Ready(None) => Answer::Now(empty(StatusCode::INTERNAL_SERVER_ERROR)),
        // A client that takes no events is told the response and nothing else.
        Poll::Ready(Some(_)) | Poll::Pending if !accept.events => {
            Answer::Later(Box::pin(async move {
                let message = messages.response().await;
                message.map_or_else(|| empty(StatusCode::INTERNAL_SERVER_ERROR), response)
            }))
        }
        Poll::Ready(Some(_)) | Poll::Pending => {
            Answer::Later(Box::pin(later_turns(messages, keep_alive)))
        }
    }
}

async fn later_turns(mut messages: Messages, keep_alive: Duration) -> Response<Body> {
    match timeout(keep_alive, messages.next()).await {
        Ok(Some(message)) if message.is_response() => response(message),
        Ok(None) => empty(StatusCode::INTERNAL_SERVER_ERROR),
        Ok(first) => events(Body::events(first, messages, keep_alive)),
        // Silence for so long that the client should see something.
        Err(_) => events(Body::events(None, messages, keep_alive)),
    }
}

/// A response as plain JSON, with the status that belongs to it.
fn response(message: Message) -> Response<Body> {
    let status = match message.kind() {
        MessageKind::Error(code) => status(code),
        _ => StatusCode::OK,
    };
    json(status, message)
}

/// The statuses that the specification fixes, and 400 for what else the client did wrong.
pub(crate) fn status(code: i64) -> StatusCode {
    match code {
        error::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        error::PARSE_ERROR
        | error::INVALID_REQUEST
        | error::INVALID_PARAMS
        | error::HEADER_MISMATCH
        | error::MISSING_CLIENT_CAPABILITY
        | error::UNSUPPORTED_VERSION => StatusCode::BAD_REQUEST,
        // The answer to a request that was understood: clients give up on 5xx without reading it.
        _ => StatusCode::OK,
    }
}

pub(crate) fn json(status: StatusCode, message: Message) -> Response<Body> {
    let mut response = whole_json(message.into_json());
    *response.status_mut() = status;
    response
}

pub(crate) fn whole_json(json: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::whole(json));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    response
}

/// A whole answer as the only event of a stream, for a client that takes nothing else.
pub(crate) fn as_events(response: Response<Body>) -> Response<Body> {
    let (parts, body) = response.into_parts();
    let mut response = events(body.into_events());
    if let Some(session) = parts.headers.get(SESSION_ID) {
        response.headers_mut().insert(SESSION_ID, session.clone());
    }
    response
}

pub(crate) const SESSION_ID: HeaderName = HeaderName::from_static(wire::SESSION_ID);

pub(crate) fn events(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/event-stream"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(
        HeaderName::from_static("x-accel-buffering"),
        HeaderValue::from_static("no"),
    );
    response
}

/// A JSON-RPC error that belongs to no request.
pub(crate) fn refuse(status: StatusCode, error: &RpcError) -> Response<Body> {
    json(status, Message::error(None, error))
}

/// The same to a request whose body is not read to its end: nothing can follow it.
pub(crate) fn close(response: &mut Response<Body>) {
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(header::CONNECTION, close);
}

pub(crate) fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::whole(""));
    *response.status_mut() = status;
    response
}

pub(crate) fn not_allowed(words: &'static str) -> Response<Body> {
    let error = RpcError::invalid_request(words);
    let mut response = refuse(StatusCode::METHOD_NOT_ALLOWED, &error);
    let allowed = HeaderValue::from_static("POST, GET, DELETE, OPTIONS");
    response.headers_mut().insert(header::ALLOW, allowed);
    response
}

/// After this time. Who wants no limit may say so with a time that never comes.
pub(crate) fn after(time: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(time).unwrap_or_else(|| now + NEVER)
}

/// A year: no stream lives that long.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// The body of an answer.
pub struct Body(Inner);

enum Inner {
    Whole(Bytes),
    /// Of a large answer as the only event of a stream: it is not copied, and its memory stays counted.
    Pieces(VecDeque<Bytes>),
    /// In a box: an answer of one buffer, which nearly all are, is moved around without the room for it.
    Events(Box<Events>),
}

/// Server-sent events.
struct Events {
    feed: Feed,
    /// The rest of an event that is sent in pieces.
    rest: VecDeque<Bytes>,
    keep_alive: Duration,
    silence: Pin<Box<Sleep>>,
    ended: bool,
    _busy: Option<Busy>,
}

/// Where events come from.
enum Feed {
    /// The work itself: dropping it, because the client has gone, stops the work.
    Work(Box<Work>),
    /// The stream of a call that runs elsewhere.
    Log(Reader),
    /// The stream of a session, and what goes onto it. A box, because there may be many that are hardly ever looked at.
    Standing(Box<Standing>),
    /// A connection that speaks in lines (HTTP+SSE).
    Lines(Lines),
}

/// A call that goes on.
struct Work {
    /// What made it a stream, and must go first.
    first: Option<Message>,
    replies: Messages,
}

/// The stream of a session, and the news that go onto it. Dropped in this order: the reader first.
pub(crate) struct Standing {
    pub(crate) reader: Reader,
    pub(crate) news: Messages,
    pub(crate) _leaving: Leaving,
}

impl Body {
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self(Inner::Whole(bytes.into()))
    }

    /// Is it a stream, which may stay open?
    pub(crate) fn is_stream(&self) -> bool {
        matches!(self.0, Inner::Events(_))
    }

    /// Keeps the connection busy until the stream is dropped.
    pub(crate) fn keep_busy(&mut self, busy: Busy) {
        if let Inner::Events(events) = &mut self.0 {
            events._busy = Some(busy);
        }
    }

    /// The same answer for a client that takes nothing but events.
    pub(crate) fn into_events(self) -> Self {
        match self.0 {
            Inner::Whole(json) => {
                let mut pieces = VecDeque::new();
                let first = Event::new(b"data: ", json).first(&mut pieces);
                pieces.push_front(first);
                Self(Inner::Pieces(pieces))
            }
            Inner::Pieces(_) | Inner::Events(_) => self,
        }
    }

    pub(crate) fn events(first: Option<Message>, replies: Messages, keep_alive: Duration) -> Self {
        // A stream that begins because of silence breaks the silence at once.
        let wait = if first.is_some() {
            keep_alive
        } else {
            Duration::ZERO
        };
        let work = Feed::Work(Box::new(Work { first, replies }));
        Self::from_feed(work, wait, keep_alive)
    }

    /// A stream that the client can come back to.
    pub(crate) fn log(reader: Reader, keep_alive: Duration) -> Self {
        Self::from_feed(Feed::Log(reader), Duration::ZERO, keep_alive)
    }

    /// The stream of a session, fed by its news.
    pub(crate) fn standing(standing: Standing, keep_alive: Duration) -> Self {
        let feed = Feed::Standing(Box::new(standing));
        Self::from_feed(feed, Duration::ZERO, keep_alive)
    }

    /// The stream of HTTP+SSE.
    pub(crate) fn lines(lines: Lines, keep_alive: Duration) -> Self {
        Self::from_feed(Feed::Lines(lines), keep_alive, keep_alive)
    }

    fn from_feed(feed: Feed, wait: Duration, keep_alive: Duration) -> Self {
        Self(Inner::Events(Box::new(Events {
            feed,
            rest: VecDeque::new(),
            keep_alive,
            silence: Box::pin(sleep(wait)),
            ended: false,
            _busy: None,
        })))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.0 {
            Inner::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Inner::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Inner::Pieces(pieces) => Poll::Ready(pieces.pop_front().map(Frame::data).map(Ok)),
            Inner::Events(events) => events
                .poll(cx)
                .map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Inner::Whole(bytes) => bytes.is_empty(),
            Inner::Pieces(pieces) => pieces.is_empty(),
            Inner::Events(events) => events.ended && events.rest.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Inner::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Inner::Pieces(pieces) => {
                SizeHint::with_exact(pieces.iter().map(|piece| piece.len() as u64).sum())
            }
            Inner::Events(_) => SizeHint::default(),
        }
    }
}

impl Events {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(piece) = self.rest.pop_front() {
            return Poll::Ready(Some(piece));
        }
        if self.ended {
            return Poll::Ready(None);
        }
        match self.feed.poll(cx) {
            Poll::Ready(Some((event, last))) => {
                self.ended = last;
                self.break_silence();
                Poll::Ready(Some(event.first(&mut self.rest)))
            }
            Poll::Ready(None) => {
                self.ended = true;
                Poll::Ready(None)
            }
            Poll::Pending => {
                if self.silence.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                self.break_silence();
                Poll::Ready(Some(Bytes::from_static(b": still here\n\n")))
            }
        }
    }

    fn break_silence(&mut self) {
        self.silence.as_mut().reset(after(self.keep_alive));
    }
}

impl Feed {
    /// The next event, and whether it is the last.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<(Event, bool)>> {
        match self {
            Self::Work(work) => {
                let Work { first, replies } = &mut **work;
                let reply = match first.take() {
                    Some(reply) => Some(reply),
                    None => ready!(replies.poll_next(cx)),
                };
                let last = reply.as_ref().is_some_and(Message::is_response);
                Poll::Ready(reply.map(|reply| (Event::new(b"data: ", reply.into_json()), last)))
            }
            Self::Log(reader) => reader
                .poll(cx)
                .map(|event| event.map(|event| (event, false))),
            Self::Lines(lines) => lines
                .poll(cx)
                .map(|event| event.map(|event| (event, false))),
            Self::Standing(both) => {
                let Standing { reader, news, .. } = &mut **both;
                loop {
                    if let Poll::Ready(event) = reader.poll(cx) {
                        return Poll::Ready(event.map(|event| (event, false)));
                    }
                    match ready!(news.poll_next(cx)) {
                        Some(reply) if reply.is_response() => return Poll::Ready(None),
                        Some(reply) => reader.stream().push_now(reply),
                        None => return Poll::Ready(None),
                    }
                }
            }
        }
    }
}

/// One event of a stream.
pub(crate) enum Event {
    /// In one piece.
    Whole(Bytes),
    /// A large message between what is before it and the end of the event. It is not copied, and its memory stays counted
    /// until it is written.
    Pieces(Bytes, Bytes),
}

/// Up to this size it is cheaper to copy a message than to write it in pieces.
const SMALL: usize = 4096;

const END: &[u8] = b"\n\n";

impl Event {
    /// A message, with what stands before it.
    pub(crate) fn new(before: &[u8], json: Bytes) -> Self {
        if json.len() > SMALL {
            Self::Pieces(Bytes::copy_from_slice(before), json)
        } else {
            Self::Whole([before, &*json, END].concat().into())
        }
    }

    /// The first piece; the others are put where they wait.
    fn first(self, rest: &mut VecDeque<Bytes>) -> Bytes {
        match self {
            Self::Whole(event) => event,
            Self::Pieces(before, json) => {
                rest.extend([json, Bytes::from_static(END)]);
                before
            }
        }
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.0 {
            Inner::Whole(_) => "Body::Whole",
            Inner::Pieces(_) => "Body::Pieces",
            Inner::Events(_) => "Body::Events",
        })
    }
}
