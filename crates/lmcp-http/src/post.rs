//! One POST, from its body to its answer.

use std::{future::poll_fn, task::Poll};

use bytes::{Buf, Bytes};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use lmcp_core::{
    Caller, HeaderValue as Found, Headers, Message, MessageKind, Messages, NoRoom, is_handshake,
};
use lmcp_wire::{Incoming, RpcError, error, header as wire, method};
use tokio::time::timeout;

use crate::{
    body::Body,
    intake::{read, turn_away},
    legacy::{self, Received},
    service::{Shared, empty, refuse},
    session::Member,
};

/// A POST that is not even a request, and its status.
pub(crate) type Refusal = (StatusCode, RpcError);

/// What the headers of a POST say of its body and its answer. A stranger is not told what is wrong with them.
pub(crate) struct Form {
    /// In a box: this is moved around with every request, and hardly ever a refusal.
    accept: Result<Accept, Box<Refusal>>,
    typed: Result<(), Box<Refusal>>,
}

impl Form {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        Self {
            accept: Accept::of(headers).map_err(Box::new),
            typed: check_type(headers).map_err(Box::new),
        }
    }
}

/// Answers a caller that was let in.
pub(crate) async fn answer<B>(
    shared: &Shared,
    form: Form,
    caller: Caller,
    body: B,
) -> Response<Body>
where
    B: http_body::Body,
    B::Data: Buf,
{
    let answered = try_answer(shared, form, caller, body).await;
    answered.unwrap_or_else(|(status, error)| {
        let mut response = refuse(status, &error);
        match status {
            StatusCode::PAYLOAD_TOO_LARGE | StatusCode::REQUEST_TIMEOUT => close(&mut response),
            StatusCode::SERVICE_UNAVAILABLE => {
                let soon = HeaderValue::from_static("1");
                response.headers_mut().insert(header::RETRY_AFTER, soon);
            }
            _ => {}
        }
        response
    })
}

/// The rest of the body is not read, so nothing can follow it.
pub(crate) fn close(response: &mut Response<Body>) {
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(header::CONNECTION, close);
}

async fn try_answer<B>(
    shared: &Shared,
    form: Form,
    caller: Caller,
    body: B,
) -> Result<Response<Body>, Refusal>
where
    B: http_body::Body,
    B::Data: Buf,
{
    let accept = form.accept.map_err(|refusal| *refusal)?;
    form.typed.map_err(|refusal| *refusal)?;
    if shared.endpoint.budget().is_tight()
        && let Err(no_room) = expect_share(shared, &caller).await
    {
        let refusal = refuse(StatusCode::SERVICE_UNAVAILABLE, &no_room.into());
        return Ok(Box::pin(turn_away(refusal, body, shared)).await);
    }
    let bytes = read(body, shared, &caller).await?;
    let answered = take(shared, bytes, caller, accept).await?;
    Ok(if accept.json || answered.status() != StatusCode::OK {
        answered
    } else {
        as_events(answered)
    })
}

/// A caller that has more than its share of the memory, in answers that it does not read, gets no more of them.
async fn expect_share(shared: &Shared, caller: &Caller) -> Result<(), NoRoom> {
    let account = shared.endpoint.budget().account(&caller.owner());
    account.expect_share(shared.limits.admission_wait).await
}

/// One message, or several.
async fn take(
    shared: &Shared,
    bytes: Bytes,
    caller: Caller,
    accept: Accept,
) -> Result<Response<Body>, Refusal> {
    let (id, method, params) = match Incoming::parse(&bytes) {
        Ok(Incoming::Request { id, method, params }) => (id, method, params),
        Ok(other) => return told(shared, &other, &caller),
        Err(rejected) => {
            if bytes.trim_ascii_start().starts_with(b"[") {
                // In a box, as all that is rare: what is not running takes no room in every connection.
                return Box::pin(legacy::batch(shared, &bytes, caller, accept)).await;
            }
            return Ok(json(
                StatusCode::BAD_REQUEST,
                Message::error(rejected.id.as_ref(), &rejected.error),
            ));
        }
    };
    if !params.meta.is_some_and(|meta| meta.is_modern()) {
        let message = Received {
            bytes: &bytes,
            id: id.clone(),
            method: &method,
            params,
        };
        if is_handshake(&method, &params) {
            return Ok(Box::pin(legacy::open(shared, message, caller)).await);
        }
        match legacy::member(shared, &caller) {
            Ok(None) => {}
            Ok(Some(member)) => {
                // In a box, or every call of the other era would carry the room for it, too.
                let call = legacy::call(shared, &member, message, caller, accept);
                return Ok(Box::pin(call).await);
            }
            Err((status, error)) => return Ok(json(status, Message::error(Some(&id), &error))),
        }
    }
    if method == method::request::LISTEN && !accept.events {
        let error = RpcError::invalid_request(format!(
            "`{method}` is answered with `text/event-stream` only"
        ));
        return Ok(json(
            StatusCode::NOT_ACCEPTABLE,
            Message::error(Some(&id), &error),
        ));
    }
    Ok(
        match lmcp_core::admit(&bytes, id.clone(), &method, params, caller, None) {
            Ok(request) => respond(shared, shared.endpoint.start(request), accept).await,
            Err(error) => json(status(error.code), Message::error(Some(&id), &error)),
        },
    )
}

/// What wants no answer. Only a session can make anything of it.
fn told(
    shared: &Shared,
    message: &Incoming<'_>,
    caller: &Caller,
) -> Result<Response<Body>, Refusal> {
    let member = legacy::member(shared, caller)?;
    let answers = matches!(message, Incoming::Response { .. });
    match member {
        Some(member @ Member::Of(_)) => legacy::tell(shared, &member, message),
        _ if answers => {
            let error = RpcError::invalid_request("no request of this server waits for a response");
            return Err((StatusCode::BAD_REQUEST, error));
        }
        _ => {}
    }
    Ok(empty(StatusCode::ACCEPTED))
}

/// Plain JSON if the response comes first; else a stream, as soon as something else does or it takes long.
pub(crate) async fn respond(
    shared: &Shared,
    mut replies: Messages,
    accept: Accept,
) -> Response<Body> {
    let first = if let Some(reply) = replies.take_ready() {
        Some(reply)
    } else if accept.events {
        match first(&mut replies, shared).await {
            First::Reply(reply) => reply,
            First::Silence => return events(Body::events(None, replies, shared.limits.keep_alive)),
        }
    } else {
        return match replies.response().await {
            Some(reply) => json(reply_status(&reply), reply),
            None => empty(StatusCode::INTERNAL_SERVER_ERROR),
        };
    };
    match first {
        Some(reply) if reply.is_response() => json(reply_status(&reply), reply),
        Some(reply) => events(Body::events(Some(reply), replies, shared.limits.keep_alive)),
        None => empty(StatusCode::INTERNAL_SERVER_ERROR),
    }
}

enum First {
    Reply(Option<Message>),
    Silence,
}

/// The first reply, or silence for so long that the client should see something. No timer is made for quick answers.
async fn first(replies: &mut Messages, shared: &Shared) -> First {
    if let Poll::Ready(reply) = poll_fn(|cx| Poll::Ready(replies.poll_next(cx))).await {
        return First::Reply(reply);
    }
    match timeout(shared.limits.keep_alive, replies.next()).await {
        Ok(reply) => First::Reply(reply),
        Err(_) => First::Silence,
    }
}

fn reply_status(reply: &Message) -> StatusCode {
    match reply.kind() {
        MessageKind::Error(code) => status(code),
        _ => StatusCode::OK,
    }
}

/// The statuses that the specification fixes, and 400 for what else the client did wrong.
fn status(code: i64) -> StatusCode {
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

pub(crate) fn json(status: StatusCode, reply: Message) -> Response<Body> {
    let mut response = whole_json(reply.into_json());
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
fn as_events(response: Response<Body>) -> Response<Body> {
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

/// What nearly every client writes.
const USUAL_ACCEPT: &str = "application/json, text/event-stream";

/// What kinds of answer the client takes.
#[derive(Clone, Copy)]
pub(crate) struct Accept {
    json: bool,
    pub(crate) events: bool,
}

impl Accept {
    /// Lenient: real clients list one type, none, or `*/*`. Only one that excludes both kinds is refused.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, Refusal> {
        if headers
            .get(header::ACCEPT)
            .is_some_and(|value| value == USUAL_ACCEPT)
        {
            return Ok(Self {
                json: true,
                events: true,
            });
        }
        let mut kinds = headers.get_all(header::ACCEPT).iter().peekable();
        if kinds.peek().is_none() {
            return Ok(Self {
                json: true,
                events: false,
            });
        }
        let (mut json, mut events) = (false, false);
        let kinds = kinds
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','));
        for kind in kinds.map(|kind| kind.split(';').next().unwrap_or_default().trim()) {
            json |= ["application/json", "application/*", "*/*"]
                .iter()
                .any(|known| known.eq_ignore_ascii_case(kind));
            events |= ["text/event-stream", "text/*", "*/*"]
                .iter()
                .any(|known| known.eq_ignore_ascii_case(kind));
        }
        if json || events {
            return Ok(Self { json, events });
        }
        let words = "answers are `application/json` or `text/event-stream`; `Accept` takes neither";
        Err((StatusCode::NOT_ACCEPTABLE, RpcError::invalid_request(words)))
    }
}

/// JSON is all we read. A page may send a form to any server without asking; it cannot send this type so.
pub(crate) fn check_type(headers: &HeaderMap) -> Result<(), Refusal> {
    let kind = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if kind.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let words = match kind {
        "" => "`Content-Type` is missing; it must be `application/json`".to_owned(),
        kind => format!("`Content-Type` must be `application/json`, not `{kind}`"),
    };
    Err((
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        RpcError::invalid_request(words),
    ))
}

/// The header fields of a request, as the engine looks at them.
pub(crate) struct Fields(pub(crate) HeaderMap);

impl Headers for Fields {
    fn get(&self, name: &str) -> Found<'_> {
        let mut values = match name {
            // Those of every request, without making a name of text first.
            wire::PROTOCOL_VERSION => self.0.get_all(PROTOCOL_VERSION).iter(),
            wire::METHOD => self.0.get_all(METHOD).iter(),
            wire::NAME => self.0.get_all(NAME).iter(),
            wire::SESSION_ID => self.0.get_all(SESSION_ID).iter(),
            _ => self.0.get_all(name).iter(),
        };
        match (values.next().map(HeaderValue::to_str), values.next()) {
            (None, _) => Found::Absent,
            (Some(Ok(text)), None) => Found::Text(text),
            _ => Found::Malformed,
        }
    }
}

const PROTOCOL_VERSION: HeaderName = HeaderName::from_static(wire::PROTOCOL_VERSION);
const SESSION_ID: HeaderName = HeaderName::from_static(wire::SESSION_ID);
const METHOD: HeaderName = HeaderName::from_static(wire::METHOD);
const NAME: HeaderName = HeaderName::from_static(wire::NAME);
