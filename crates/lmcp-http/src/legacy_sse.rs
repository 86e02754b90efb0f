//! HTTP+SSE, the transport of 2024-11-05: a stream that a GET opens, and another endpoint for what the client says.
//!
//! Deprecated since 2025-03-26, and off unless asked for. To the engine it is a connection that speaks in lines: each
//! POST is a line in, each line out is an event. When the stream closes, the session is over.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use lmcp_core::{
    Endpoint, Tasks, Transport,
    session::{Agreement, SessionKey},
};
use lmcp_wire::RpcError;
use tokio::{
    io::{AsyncRead, AsyncWriteExt as _, DuplexStream, ReadBuf, duplex},
    sync::{Mutex as AsyncMutex, oneshot},
    task::AbortHandle,
    time::timeout,
};

use crate::{
    answer::{Body, Refusal, empty, events, not_allowed, refuse},
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
    /// Where the client's messages are written; one at a time.
    inlet: Arc<AsyncMutex<DuplexStream>>,
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
        // One pipe for each direction: each ends when its own end is dropped.
        let (inlet, reader) = duplex(shared.limits.outgoing_bytes);
        let (writer, outlet) = duplex(shared.limits.outgoing_bytes);
        let connection = lmcp_core::streams(reader, writer, caller);
        let server = self.server.clone();
        let connection = self.connections.spawn(async move {
            // It ends when the stream does, and cannot fail.
            let _ = connection.serve(server).await;
        });
        let first = format!("event: endpoint\ndata: {MESSAGES}?session={secret}\n\n");
        let inlet = Arc::new(AsyncMutex::new(inlet));
        lock(&self.open).insert(secret.clone(), Open { inlet, connection });
        let lines = Lines {
            first: Some(first.into()),
            outlet,
            buffer: BytesMut::new(),
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
        let line = read(&mut body, shared, &caller).await?;
        let writing = async {
            let mut inlet = inlet.lock_owned().await;
            let (done, written) = oneshot::channel();
            // On its own: a client that hangs up in the middle must not leave half a line. One at a time, by the lock.
            self.connections.spawn(async move {
                let written = write_line(&mut inlet, &line).await;
                let _ = done.send(written);
            });
            written.await
        };
        match timeout(shared.limits.body_wait, writing).await {
            Ok(Ok(Ok(()))) => Ok(empty(StatusCode::ACCEPTED)),
            Ok(_) => Err(gone()),
            Err(_) => {
                // Its client sends and does not read: nothing of it is kept any longer.
                connection.abort();
                let words = "the stream of this session is not read, and was closed";
                Err((StatusCode::NOT_FOUND, RpcError::invalid_request(words)))
            }
        }
    }
}

/// Writes one message as one line. Between its tokens a line break is a space like any other.
async fn write_line(inlet: &mut DuplexStream, message: &[u8]) -> std::io::Result<()> {
    for (at, piece) in message
        .split(|byte| matches!(byte, b'\n' | b'\r'))
        .enumerate()
    {
        if at > 0 {
            inlet.write_all(b" ").await?;
        }
        inlet.write_all(piece).await?;
    }
    inlet.write_all(b"\n").await
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
    outlet: DuplexStream,
    buffer: BytesMut,
    _entry: Entry,
}

impl Lines {
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(first));
        }
        let mut searched = 0;
        loop {
            let end = self.buffer[searched..]
                .iter()
                .position(|byte| *byte == b'\n');
            if let Some(end) = end {
                let line = self.buffer.split_to(searched + end + 1);
                let text = [b"event: message\ndata: ", &*line, b"\n"].concat();
                return Poll::Ready(Some(text.into()));
            }
            searched = self.buffer.len();
            let mut piece = [0; 4096];
            let mut piece = ReadBuf::new(&mut piece);
            if ready!(Pin::new(&mut self.outlet).poll_read(cx, &mut piece)).is_err()
                || piece.filled().is_empty()
            {
                return Poll::Ready(None);
            }
            self.buffer.extend_from_slice(piece.filled());
        }
    }
}
