//! HTTP+SSE, the transport of 2024-11-05: a stream that a GET opens, and another endpoint for what the client says.
//!
//! Deprecated since 2025-03-26, and off unless asked for. To the engine it is a connection that speaks in lines: each
//! POST is a line in, each line out is an event. When the stream closes, the session is over. What waits for a reader
//! counts as memory of the caller until it is written.

pub(crate) mod streams;

use bytes::Buf;
use http::{
    Extensions, HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header,
    request::Parts,
};
use lmcp_wire::RpcError;
use tokio::time::timeout;

use crate::{
    answer::{Body, empty, events, not_allowed, refuse},
    headers::{Refusal, check_type},
    post::{read, turn_away},
    shared::Shared,
    who::Asked,
};
use streams::{LegacySse, Open};

/// Where the stream is opened.
pub(crate) const STREAM: &str = "/sse";
/// Where messages go.
pub(crate) const MESSAGES: &str = "/messages";

/// Answers a request to one of the two, of somebody who is asked for with its headers.
pub(crate) async fn answer<B>(
    shared: &Shared,
    ask: impl FnOnce(HeaderMap, Extensions) -> Asked,
    request: Request<B>,
) -> Response<Body>
where
    B: http_body::Body + Unpin,
    B::Data: Buf,
{
    let Some(legacy_sse) = &shared.legacy_sse else {
        return empty(StatusCode::NOT_FOUND);
    };
    match (request.method(), request.uri().path()) {
        (&Method::GET, STREAM) => listen(shared, legacy_sse, ask, request.into_parts().0).await,
        (&Method::POST, MESSAGES) => {
            let taken = take(shared, legacy_sse, ask, request).await;
            taken.unwrap_or_else(|(status, error)| refuse(status, &error))
        }
        (_, path) => {
            let allowed = if path == STREAM { "GET" } else { "POST" };
            let parts = request.into_parts().0;
            match ask(parts.headers, parts.extensions).settled().await {
                Ok(_) => refuse_verb(HeaderValue::from_static(allowed)),
                Err(response) => *response,
            }
        }
    }
}

fn refuse_verb(allowed: HeaderValue) -> Response<Body> {
    let mut response = not_allowed("HTTP+SSE is a GET of /sse, and POSTs to the address it gives");
    response.headers_mut().insert(header::ALLOW, allowed);
    response
}

/// Opens a stream. Its first event says where to send messages.
async fn listen(
    shared: &Shared,
    legacy_sse: &LegacySse,
    ask: impl FnOnce(HeaderMap, Extensions) -> Asked,
    parts: Parts,
) -> Response<Body> {
    match ask(parts.headers, parts.extensions).settled().await {
        Ok(caller) => {
            let lines = legacy_sse.open(caller);
            events(Body::lines(lines, shared.limits.keep_alive))
        }
        Err(response) => *response,
    }
}

/// Takes one message. What comes of it comes on the stream.
async fn take<B>(
    shared: &Shared,
    legacy_sse: &LegacySse,
    ask: impl FnOnce(HeaderMap, Extensions) -> Asked,
    request: Request<B>,
) -> Result<Response<Body>, Refusal>
where
    B: http_body::Body + Unpin,
    B::Data: Buf,
{
    let (parts, mut body) = request.into_parts();
    let typed = check_type(&parts.headers);
    let caller = match ask(parts.headers, parts.extensions).settled().await {
        Ok(caller) => caller,
        Err(response) => return Ok(turn_away(*response, &mut body, shared).await),
    };
    typed?;
    let secret = parts.uri.query().and_then(|query| {
        query
            .split('&')
            .find_map(|part| part.strip_prefix("session="))
    });
    let gone = || {
        let words = "this stream has closed, or never was; open one with GET /sse";
        (StatusCode::NOT_FOUND, RpcError::invalid_request(words))
    };
    let open = secret.and_then(|secret| legacy_sse.find(secret, &caller));
    let Open { inlet, connection } = open.ok_or_else(gone)?;
    let message = read(&mut body, shared, &caller).await?;
    match timeout(shared.limits.body_wait, inlet.send(message)).await {
        Ok(Ok(())) => Ok(empty(StatusCode::ACCEPTED)),
        Ok(Err(_)) => Err(gone()),
        Err(_) => {
            // Its client sends and does not read: nothing of it is kept any longer.
            connection.abort();
            let words = "the stream of this session is not read, and was closed";
            Err((StatusCode::NOT_FOUND, RpcError::invalid_request(words)))
        }
    }
}
