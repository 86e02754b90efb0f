//! The body of an answer: one buffer, or a stream of events that owns the rest of the work.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use lmcp_core::{Replies, Reply};
use tokio::time::{Instant, Sleep, sleep};

/// The body of an answer.
pub struct Body(Inner);

enum Inner {
    Whole(Bytes),
    Events(Events),
}

/// Server-sent events. Dropping them, because the client has gone, stops the work.
struct Events {
    /// What made it a stream, and must go first.
    first: Option<Reply>,
    replies: Replies,
    keep_alive: Duration,
    silence: Pin<Box<Sleep>>,
    ended: bool,
}

impl Body {
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self(Inner::Whole(bytes.into()))
    }

    pub(crate) fn events(first: Option<Reply>, replies: Replies, keep_alive: Duration) -> Self {
        // A stream that begins because of silence breaks the silence at once.
        let wait = if first.is_some() {
            keep_alive
        } else {
            Duration::ZERO
        };
        let silence = Box::pin(sleep(wait));
        Self(Inner::Events(Events {
            first,
            replies,
            keep_alive,
            silence,
            ended: false,
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
            Inner::Events(events) => events.ended,
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
        if self.ended {
            return Poll::Ready(None);
        }
        let reply = match self.first.take() {
            Some(reply) => Poll::Ready(Some(reply)),
            None => self.replies.poll_next(cx),
        };
        match reply {
            Poll::Ready(Some(reply)) => {
                self.ended = reply.is_response();
                self.silence
                    .as_mut()
                    .reset(Instant::now() + self.keep_alive);
                Poll::Ready(Some(event(reply)))
            }
            Poll::Ready(None) => {
                self.ended = true;
                Poll::Ready(None)
            }
            Poll::Pending => {
                if self.silence.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                self.silence
                    .as_mut()
                    .reset(Instant::now() + self.keep_alive);
                Poll::Ready(Some(Bytes::from_static(b": still here\n\n")))
            }
        }
    }
}

/// One event, in one piece.
fn event(reply: Reply) -> Bytes {
    let json = reply.into_json();
    let mut event = Vec::with_capacity(json.len() + 8);
    event.extend_from_slice(b"data: ");
    event.extend_from_slice(&json);
    event.extend_from_slice(b"\n\n");
    event.into()
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.0 {
            Inner::Whole(_) => "Body::Whole",
            Inner::Events(_) => "Body::Events",
        })
    }
}
