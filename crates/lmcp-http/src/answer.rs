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
use lmcp_wire::{RpcError, error};
use tokio::time::{Instant, Sleep, sleep, timeout};

use crate::{
    event::Event,
    headers::{Accept, Refusal, SESSION_ID},
    legacy_sse::streams::Lines,
    session::Leaving,
    stream::Reader,
};

/// An answer, or the future of one.
pub(crate) enum Answer {
    Now(Response<Body>),
    /// In a box, as all rare answers are: a connection keeps room for everything that its requests may wait for.
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

/// The future of an answer.
pub(crate) type Later = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

/// Answers a call after its first turn: with plain JSON if the response is there, else with a stream as soon as another message
/// comes or the call takes long.
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
        // A client that takes no events gets the response only.
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
        // The call has been silent for so long that the client should get a sign.
        Err(_) => events(Body::events(None, messages, keep_alive)),
    }
}

/// Makes a response of plain JSON, with the status for its error code.
fn response(message: Message) -> Response<Body> {
    let status = match message.kind() {
        MessageKind::Error(code) => status(code),
        _ => StatusCode::OK,
    };
    json(status, message)
}

/// Returns the status that the specification fixes, and 400 for other mistakes of the client.
pub(crate) fn status(code: i64) -> StatusCode {
    match code {
        error::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        error::PARSE_ERROR
        | error::INVALID_REQUEST
        | error::INVALID_PARAMS
        | error::HEADER_MISMATCH
        | error::MISSING_CLIENT_CAPABILITY
        | error::UNSUPPORTED_VERSION => StatusCode::BAD_REQUEST,
        // The request was understood. Clients give up on 5xx without reading the answer.
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

/// Makes a response of plain JSON out of pieces, which are not copied: what is counted for each stays counted until it is written.
pub(crate) fn json_pieces(pieces: VecDeque<Bytes>) -> Response<Body> {
    let mut response = whole_json("");
    *response.body_mut() = Body(Inner::Pieces(pieces));
    response
}

/// Turns a whole answer into the only event of a stream, for a client that takes events only.
pub(crate) fn as_events(response: Response<Body>) -> Response<Body> {
    let (parts, body) = response.into_parts();
    let mut response = events(body.into_events());
    if let Some(session) = parts.headers.get(SESSION_ID) {
        response.headers_mut().insert(SESSION_ID, session.clone());
    }
    response
}

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

/// Makes the answer to a request whose id is not known: a JSON-RPC error without an id.
pub(crate) fn refuse(status: StatusCode, error: &RpcError) -> Response<Body> {
    json(status, Message::error(None, error))
}

/// Closes the connection after an answer: a body that is not read to its end leaves no room for another request.
pub(crate) fn close(response: &mut Response<Body>) {
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(header::CONNECTION, close);
}

/// The answer to a POST that is not even a request.
pub(crate) fn refused((status, error): &Refusal) -> Response<Body> {
    let mut response = refuse(*status, error);
    match *status {
        StatusCode::PAYLOAD_TOO_LARGE | StatusCode::REQUEST_TIMEOUT => close(&mut response),
        StatusCode::SERVICE_UNAVAILABLE => {
            let soon = HeaderValue::from_static("1");
            response.headers_mut().insert(header::RETRY_AFTER, soon);
        }
        _ => {}
    }
    response
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

/// Returns the time after this duration. A duration that is too long for the clock means no limit.
pub(crate) fn after(time: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(time).unwrap_or_else(|| now + NEVER)
}

/// A year. No stream lives so long.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// The body of an answer.
pub struct Body(Inner);

enum Inner {
    Whole(Bytes),
    /// Large answers in one array, or a large answer as the only event of a stream. They are not copied, and their memory stays
    /// counted.
    Pieces(VecDeque<Bytes>),
    /// In a box, because nearly all answers are one buffer, which is moved around without room for this.
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

/// The source of the events.
enum Feed {
    /// The work itself. If the client is gone, this is dropped, and the work stops.
    Work(Box<Work>),
    /// The stream of a call that runs elsewhere.
    Log(Reader),
    /// The stream of a session, and the changes that go onto it. In a box, because there may be many that are hardly ever
    /// polled.
    Standing(Box<Standing>),
    /// A connection that carries lines (HTTP+SSE).
    Lines(Lines),
}

/// A call that goes on.
struct Work {
    /// The message that made the answer a stream. It is sent first.
    first: Option<Message>,
    replies: Messages,
}

/// The stream of a session, and the changes that go onto it. The fields are dropped in this order: the reader first.
pub(crate) struct Standing {
    pub(crate) reader: Reader,
    pub(crate) news: Messages,
    pub(crate) _leaving: Leaving,
}

impl Body {
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self(Inner::Whole(bytes.into()))
    }

    /// Whether the body is a stream, which may stay open.
    pub(crate) fn is_stream(&self) -> bool {
        matches!(self.0, Inner::Events(_))
    }

    /// Keeps the connection busy until the stream is dropped.
    pub(crate) fn keep_busy(&mut self, busy: Busy) {
        if let Inner::Events(events) = &mut self.0 {
            events._busy = Some(busy);
        }
    }

    /// Makes the same answer for a client that takes events only, once.
    pub(crate) fn into_events(self) -> Self {
        match self.0 {
            Inner::Whole(json) => {
                let mut pieces = VecDeque::new();
                let first = Event::new(Event::AROUND[0], json).first(&mut pieces);
                pieces.push_front(first);
                Self(Inner::Pieces(pieces))
            }
            Inner::Pieces(mut pieces) => {
                let [before, after] = Event::AROUND;
                pieces.push_front(Bytes::from_static(before));
                pieces.push_back(Bytes::from_static(after));
                Self(Inner::Pieces(pieces))
            }
            Inner::Events(_) => self,
        }
    }

    pub(crate) fn events(first: Option<Message>, replies: Messages, keep_alive: Duration) -> Self {
        // If the stream began because of silence, a sign is sent at once.
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

    /// The stream of a session, which sends its changes.
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
    /// Returns the next event, and whether it is the last.
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

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.0 {
            Inner::Whole(_) => "Body::Whole",
            Inner::Pieces(_) => "Body::Pieces",
            Inner::Events(_) => "Body::Events",
        })
    }
}
