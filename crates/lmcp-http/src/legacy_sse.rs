//! HTTP+SSE, the transport of 2024-11-05: a stream that a GET opens, and another endpoint for what the client says.
//!
//! Deprecated since 2025-03-26, and off unless asked for. To the engine it is a connection that speaks in lines: each
//! POST is a line in, each line out is an event. When the stream closes, the session is over. What waits for a reader
//! counts as memory of the caller until it is written.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use lmcp_core::{
    Endpoint, Tasks,
    session::{Agreement, SessionKey},
    transport::{Inlet, Outlet},
};
use lmcp_wire::RpcError;
use tokio::{task::AbortHandle, time::timeout};

use crate::{
    answer::{Body, Event, Refusal, empty, events, not_allowed, refuse},
    headers::check_type,
    post::{read, turn_away},
    service::HttpService,
};

/// Where the stream is opened.
pub(crate) const STREAM: &str = "/sse";
/// Where messages go.
pub(crate) const MESSAGES: &str = "/messages";

/// Answers a request to one of the two.
pub(crate) async fn answer<B>(service: HttpService, request: Request<B>) -> Response<Body>
where
    B: http_body::Body + Unpin,
    B::Data: Buf,
{
    let Some(legacy_sse) = &service.shared.legacy_sse else {
        return empty(StatusCode::NOT_FOUND);
    };
    match (request.method(), request.uri().path()) {
        (&Method::GET, STREAM) => legacy_sse.listen(&service, request.into_parts().0).await,
        (&Method::POST, MESSAGES) => legacy_sse.take(&service, request).await,
        (_, path) => {
            let words = "HTTP+SSE is a GET of /sse, and POSTs to the address it gives";
            let mut response = not_allowed(words);
            let allowed = if path == STREAM { "GET" } else { "POST" };
            let allowed = HeaderValue::from_static(allowed);
            response.headers_mut().insert(header::ALLOW, allowed);
            response
        }
    }
}

/// An open stream.
#[derive(Clone)]
struct Open {
    /// Where the client's messages go.
    inlet: Inlet,
    /// Ends it.
    connection: AbortHandle,
}

/// The open streams, by the secret in the address that each client was given.
type Streams = HashMap<String, Open>;

/// HTTP+SSE of one server.
pub(crate) struct LegacySse {
    server: Endpoint,
    /// Signs those secrets.
    key: SessionKey,
    open: Arc<Mutex<Streams>>,
    connections: Tasks,
}

impl LegacySse {
    pub(crate) fn new(server: Endpoint) -> Self {
        Self {
            key: server.session_key().for_purpose("the address of messages"),
            server,
            open: Arc::default(),
            connections: Tasks::default(),
        }
    }

    /// Opens a stream. Its first event says where to send messages.
    async fn listen(&self, service: &HttpService, parts: http::request::Parts) -> Response<Body> {
        let shared = &service.shared;
        let caller = match service
            .caller(parts.headers, parts.extensions)
            .settled()
            .await
        {
            Ok(caller) => caller,
            Err(response) => return *response,
        };
        let key = &self.key;
        let (_, secret) = key.issue(&Agreement::none(), &caller);
        let (inlet, outlet, work) = lmcp_core::exchange(self.server.clone(), caller);
        let connection = self.connections.spawn(work);
        let first = format!("event: endpoint\ndata: {MESSAGES}?session={secret}\n\n");
        lock(&self.open).insert(secret.clone(), Open { inlet, connection });
        let lines = Lines {
            first: Some(first.into()),
            outlet,
            taken: Bytes::new(),
            _entry: Entry {
                secret,
                open: Arc::clone(&self.open),
            },
        };
        events(Body::lines(lines, shared.limits.keep_alive))
    }

    /// Ends all streams: no more messages come, and answers that are nearly there still go out.
    pub(crate) fn close(&self) {
        lock(&self.open).clear();
    }

    /// Takes one message. What comes of it comes on the stream.
    async fn take<B>(&self, service: &HttpService, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body + Unpin,
        B::Data: Buf,
    {
        let taken = self.try_take(service, request).await;
        taken.unwrap_or_else(|(status, error)| refuse(status, &error))
    }

    async fn try_take<B>(
        &self,
        service: &HttpService,
        request: Request<B>,
    ) -> Result<Response<Body>, Refusal>
    where
        B: http_body::Body + Unpin,
        B::Data: Buf,
    {
        let shared = &service.shared;
        let (parts, mut body) = request.into_parts();
        let typed = check_type(&parts.headers);
        let caller = match service
            .caller(parts.headers, parts.extensions)
            .settled()
            .await
        {
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
        // It was signed for who opened the stream; to anybody else it is nothing.
        let key = &self.key;
        let secret = secret.filter(|secret| key.open(secret, &caller).is_some());
        let open = secret.and_then(|secret| lock(&self.open).get(secret).cloned());
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
}

fn lock(open: &Mutex<Streams>) -> MutexGuard<'_, Streams> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A stream's entry in the table, for as long as the stream is open.
struct Entry {
    secret: String,
    open: Arc<Mutex<Streams>>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        lock(&self.open).remove(&self.secret);
    }
}

/// The lines of a connection, as events.
pub(crate) struct Lines {
    first: Option<Bytes>,
    outlet: Outlet,
    /// Lines that are no events yet.
    taken: Bytes,
    _entry: Entry,
}

impl Lines {
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Event::Whole(first)));
        }
        if self.taken.is_empty() {
            match ready!(self.outlet.poll_next(cx)) {
                Some(lines) => self.taken = lines,
                None => return Poll::Ready(None),
            }
        }
        let end = self.taken.iter().position(|byte| *byte == b'\n');
        let end = end.unwrap_or(self.taken.len() - 1);
        // With its end: of the last line nothing stays here that would hold its memory.
        let mut line = self.taken.split_to(end + 1);
        line.truncate(end);
        Poll::Ready(Some(Event::new(b"event: message\ndata: ", line)))
    }
}
