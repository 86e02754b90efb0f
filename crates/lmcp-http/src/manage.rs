//! GET and DELETE, which manage sessions. A GET opens the stream of a session, or goes on with a stream that broke off; a
//! DELETE ends the session.

use std::sync::Arc;

use http::{Method, Response, StatusCode, header, request::Parts};
use lmcp_core::{Caller, HeaderValue as Found, Message, MessageKind, Messages, Request, Session};
use lmcp_wire::{RequestId, RpcError, error::METHOD_NOT_FOUND, header as wire};

use crate::{
    answer::{Body, Standing, empty, events, json, not_allowed, refuse},
    headers::{Accept, Refusal},
    legacy::member,
    session::{Held, Leaving, Member},
    shared::Shared,
    stream::{Answers, EventId, Kept, Reader, Stream},
    who::Known,
};

/// The wish of a GET or a DELETE, as its headers say it.
pub(crate) struct Wish {
    gets: bool,
    says_what: bool,
    accept: Result<Accept, Refusal>,
}

impl Wish {
    pub(crate) fn of(parts: &Parts) -> Self {
        Self {
            gets: parts.method == Method::GET,
            says_what: parts.headers.contains_key(header::ACCEPT),
            accept: Accept::of(&parts.headers),
        }
    }

    /// Answers the request, once its sender is known or refused.
    pub(crate) fn answer(self, shared: &Shared, known: Known) -> Response<Body> {
        let caller = match known {
            Ok(caller) => caller,
            Err(response) => return *response,
        };
        let gets = self.gets;
        match self.accept {
            // The specification wants this status for a GET that does not open a stream.
            Ok(accept) if gets && self.says_what && !accept.events => {
                return not_allowed("a GET opens a stream: `Accept` must take `text/event-stream`");
            }
            Err((status, error)) if gets => return refuse(status, &error),
            _ => {}
        }
        if caller.header_value(wire::SESSION_ID) == Found::Absent {
            return not_allowed("this takes POST; GET and DELETE need `Mcp-Session-Id`");
        }
        if gets {
            listen(shared, caller)
        } else {
            end(shared, &caller)
        }
    }
}

/// Opens the stream for messages outside of any request, or goes on with a stream that broke off.
fn listen(shared: &Shared, caller: Caller) -> Response<Body> {
    let held = match member(shared, &caller) {
        Ok(Some(Member::Of(held))) => held,
        Ok(_) => return no_sessions(),
        Err((status, error)) => return refuse(status, &error),
    };
    let payer = caller.payer();
    let came_back = caller.header(wire::LAST_EVENT_ID).and_then(EventId::parse);
    if let Some(event) = &came_back {
        match shared.sessions.find_stream(&held.id, event.stream) {
            Some((stream, true)) => {
                let session = shared.sessions.session(&held, true);
                return match news(shared, &session, caller) {
                    Ok(news) => {
                        let reader = Reader::resume(&stream, event.number);
                        standing(shared, &held, &payer, reader, news)
                    }
                    Err(refusal) => *refusal,
                };
            }
            // In server-sent events, this status means "do not come back".
            Some((stream, false)) if stream.is_over_after(event.number) => {
                return empty(StatusCode::NO_CONTENT);
            }
            Some((stream, false)) => {
                let reader = Reader::resume(&stream, event.number);
                return events(Body::log(reader, shared.limits.keep_alive));
            }
            None => {}
        }
        match &event.answers {
            // The client has its answer.
            _ if event.last => return empty(StatusCode::NO_CONTENT),
            Answers::Request(id) => return lost(shared, id),
            Answers::Something => return empty(StatusCode::NO_CONTENT),
            Answers::Nothing => {}
        }
    }
    let session = shared.sessions.session(&held, true);
    // The listener is started first, so that the earlier stream takes no further changes. Then the new stream takes its place.
    let news = match news(shared, &session, caller) {
        Ok(news) => news,
        Err(refusal) => return *refusal,
    };
    match shared
        .sessions
        .stand(&held.id, session.has_priming(), &payer)
    {
        Ok(stream) => {
            let reader = Reader::open(&stream);
            standing(shared, &held, &payer, reader, news)
        }
        Err(error) => refuse(StatusCode::SERVICE_UNAVAILABLE, &error),
    }
}

/// Makes the stream of a session, for as long as its client reads it.
fn standing(
    shared: &Shared,
    held: &Held,
    payer: &str,
    reader: Reader,
    news: Messages,
) -> Response<Body> {
    let leaving = Leaving {
        sessions: Arc::downgrade(&shared.sessions),
        payer: payer.into(),
        session: held.id,
        stream: reader.stream().number,
    };
    let standing = Standing {
        reader,
        news,
        _leaving: leaving,
    };
    events(Body::standing(standing, shared.limits.keep_alive))
}

/// Starts to listen to the changes in a session.
fn news(
    shared: &Shared,
    session: &Session,
    caller: Caller,
) -> Result<Messages, Box<Response<Body>>> {
    let mut news = shared.endpoint.start(Request::to_listen(session, caller));
    match news.take_ready() {
        Some(refusal) if refusal.kind() == MessageKind::Error(METHOD_NOT_FOUND) => {
            let words = "this server does not tell what changes, so there is no stream to open";
            Err(Box::new(not_allowed(words)))
        }
        Some(refusal) => Err(Box::new(json(StatusCode::SERVICE_UNAVAILABLE, refusal))),
        None => Ok(news),
    }
}

/// Answers a client whose answer is gone, with an earlier instance of the server or with time. The client should not wait for
/// it.
fn lost(shared: &Shared, id: &RequestId) -> Response<Body> {
    let words = "the answer to this request was lost, but it may have been carried out: look before you repeat it";
    // The event is named like one of no stream: some clients come back even after an error, and are then told not to.
    let kept = Kept::Events(shared.limits.replay_bytes);
    let stream = Stream::answer(0, std::iter::empty(), false, kept);
    stream.push_now(Message::error(Some(id), &RpcError::internal(words)));
    stream.end();
    events(Body::log(Reader::open(&stream), shared.limits.keep_alive))
}

/// Ends the session of a client.
fn end(shared: &Shared, caller: &Caller) -> Response<Body> {
    match member(shared, caller) {
        Ok(Some(Member::Of(held))) => {
            shared.sessions.end(held.id);
            empty(StatusCode::NO_CONTENT)
        }
        Ok(_) => no_sessions(),
        Err((status, error)) => refuse(status, &error),
    }
}

/// Refuses the request: its header names a revision without sessions.
fn no_sessions() -> Response<Body> {
    not_allowed("this takes POST; 2026-07-28 has no GET stream and no sessions")
}
