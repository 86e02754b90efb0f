//! GET and DELETE: what sessions have besides messages. A GET opens their stream, or goes on with one that broke off; a
//! DELETE ends them.

use std::sync::Arc;

use http::{Method, Response, StatusCode, header, request::Parts};
use lmcp_core::{Caller, HeaderValue as Found, Message, MessageKind, Messages, Request, Session};
use lmcp_wire::{RequestId, RpcError, error::METHOD_NOT_FOUND, header as wire};

use crate::{
    answer::{Body, Refusal, Standing, empty, events, json, not_allowed, refuse},
    headers::Accept,
    legacy::member,
    service::Shared,
    session::{Held, Leaving, Member},
    stream::{Answers, EventId, Kept, Reader, Stream},
    who::Known,
};

/// What the headers of a GET or a DELETE ask for.
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

    /// The answer to whoever sent it.
    pub(crate) fn answer(self, shared: &Shared, known: Known) -> Response<Body> {
        let caller = match known {
            Ok(caller) => caller,
            Err(response) => return *response,
        };
        let gets = self.gets;
        match self.accept {
            // The specification's word for a GET that does not lead to a stream.
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

/// A stream for what the server says outside of any request, or the rest of one that broke off.
fn listen(shared: &Shared, caller: Caller) -> Response<Body> {
    let held = match member(shared, &caller) {
        Ok(Some(Member::Of(held))) => held,
        Ok(_) => return no_sessions(),
        Err((status, error)) => return refuse(status, &error),
    };
    let came_back = caller.header(wire::LAST_EVENT_ID).and_then(EventId::parse);
    if let Some(event) = &came_back {
        match shared.sessions.find_stream(&held.id, event.stream) {
            Some((stream, true)) => {
                let session = shared.sessions.session(&held, true);
                return match news(shared, &session, caller) {
                    Ok(news) => {
                        let reader = Reader::resume(&stream, event.number);
                        standing(shared, &held, reader, news)
                    }
                    Err(refusal) => *refusal,
                };
            }
            // The word of server-sent events for "do not come back".
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
            // It has its answer.
            _ if event.last => return empty(StatusCode::NO_CONTENT),
            Answers::Request(id) => return lost(shared, id),
            Answers::Something => return empty(StatusCode::NO_CONTENT),
            Answers::Nothing => {}
        }
    }
    let session = shared.sessions.session(&held, true);
    // First the news, so that the stream before takes none of them any more; then its place.
    let news = match news(shared, &session, caller) {
        Ok(news) => news,
        Err(refusal) => return *refusal,
    };
    match shared.sessions.stand(&held.id, session.has_priming()) {
        Ok(stream) => {
            let reader = Reader::open(&stream);
            standing(shared, &held, reader, news)
        }
        Err(error) => refuse(StatusCode::SERVICE_UNAVAILABLE, &error),
    }
}

/// The stream of a session, for as long as its client reads it.
fn standing(shared: &Shared, held: &Held, reader: Reader, news: Messages) -> Response<Body> {
    let leaving = Leaving {
        sessions: Arc::downgrade(&shared.sessions),
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

/// What changes in a session, as it changes.
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

/// The answer that a client comes back for is gone, with the server that had it or with time. It should not wait.
fn lost(shared: &Shared, id: &RequestId) -> Response<Body> {
    let words = "the answer to this request was lost, but it may have been carried out: look before you repeat it";
    // Its name is that of nothing: some clients come back even after an error, and are then told not to.
    let kept = Kept::Events(shared.limits.replay_bytes);
    let stream = Stream::answer(0, std::iter::empty(), false, kept);
    stream.push_now(Message::error(Some(id), &RpcError::internal(words)));
    stream.end();
    events(Body::log(Reader::open(&stream), shared.limits.keep_alive))
}

/// The client ends its session.
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

/// The header names a revision without sessions.
fn no_sessions() -> Response<Body> {
    not_allowed("this takes POST; 2026-07-28 has no GET stream and no sessions")
}
