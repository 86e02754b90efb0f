//! The body of an answer: one buffer, or a stream of events that owns the rest of the work.

use std::{
    collections::VecDeque,
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use lmcp_core::{Message, Messages};
use tokio::time::{Instant, Sleep, sleep};

use lmcp_core::transport::connections::Busy;

use crate::{pair::Lines, session::Leaving, stream::Reader};

/// A year: no stream lives that long.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// The body of an answer.
pub struct Body(Inner);

enum Inner {
    Whole(Bytes),
    Events(Events),
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

/// A call that goes on. In a box: an answer of one buffer, which nearly all are, is moved around without the room for it.
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
            Inner::Whole(json) => Self::whole([b"data: ", &*json, b"\n\n"].concat()),
            Inner::Events(_) => self,
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
        Self(Inner::Events(Events {
            feed,
            rest: VecDeque::new(),
            keep_alive,
            silence: Box::pin(sleep(wait)),
            ended: false,
            _busy: None,
        }))
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
            Inner::Events(events) => events
                .poll(cx)
                .map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Inner::Whole(bytes) => bytes.is_empty(),
            Inner::Events(events) => events.ended && events.rest.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Inner::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
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
        // Who wants none may say so with a time that never comes.
        let next = Instant::now().checked_add(self.keep_alive);
        let next = next.unwrap_or_else(|| Instant::now() + NEVER);
        self.silence.as_mut().reset(next);
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
                .map(|event| event.map(|event| (Event::Whole(event), false))),
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
            Inner::Events(_) => "Body::Events",
        })
    }
}
