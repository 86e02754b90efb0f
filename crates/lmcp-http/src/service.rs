//! One HTTP request: which path, which verb, and who may.

use std::{
    convert::Infallible,
    ops::Deref,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Buf;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header, request::Parts};
use lmcp_core::{
    Caller, Endpoint, HeaderValue as Found, Limits, Message, transport::connections::Connection,
};
use lmcp_wire::{RpcError, header as wire};

use crate::{
    bearer::bearer,
    body::Body,
    guard::Guard,
    intake::turn_away,
    legacy,
    pair::{self, Pair},
    post::{self, Accept, Fields},
    session::Sessions,
    watched::Watched,
};

/// The server as a plain `tower` service, to be mounted into a program that has an HTTP server.
///
/// It answers whatever path it is mounted at. `Host` must be a loopback name unless [`HttpService::allow_host`] says
/// otherwise.
///
/// ```no_run
/// # use lmcp_core::Server;
/// # fn demo() -> Result<(), lmcp_core::Error> {
/// let mcp = lmcp_http::service(Server::new("mounted", "1.0.0").start()?).allow_host("tools.example");
/// // axum: Router::new().route_service("/mcp", mcp)
/// # Ok(())
/// # }
/// ```
pub fn service(server: impl Into<Endpoint>) -> HttpService {
    let endpoint = server.into();
    let limits = endpoint.limits().clone();
    HttpService::of(Shared {
        sessions: Sessions::new(&endpoint),
        endpoint,
        limits,
        guard: Guard::default(),
        identify: None,
        path: None,
        pair: None,
    })
}

/// See [`service`].
#[derive(Clone)]
pub struct HttpService {
    shared: Arc<Shared>,
    /// The connection that requests come on, where that is our own.
    connection: Option<Arc<Connection>>,
}

pub(crate) struct Settings {
    pub(crate) guard: Guard,
    pub(crate) identify: Option<Identify>,
    pub(crate) path: String,
    /// HTTP+SSE as well.
    pub(crate) pair: bool,
}

/// Who sends a request, by its headers; or the words that refuse it.
pub(crate) type Identify = Box<dyn Fn(&HeaderMap) -> Result<Option<String>, String> + Send + Sync>;

pub(crate) struct Shared {
    pub(crate) endpoint: Endpoint,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) limits: Limits,
    guard: Guard,
    identify: Option<Identify>,
    /// The only path that is answered; all of them when mounted.
    path: Option<String>,
    pair: Option<Pair>,
}

impl HttpService {
    pub(crate) fn standalone(endpoint: Endpoint, settings: Settings) -> Self {
        let limits = endpoint.limits().clone();
        let Settings {
            guard,
            identify,
            path,
            pair,
        } = settings;
        Self::of(Shared {
            sessions: Sessions::new(&endpoint),
            pair: pair.then(|| Pair::new(endpoint.clone())),
            endpoint,
            limits,
            guard,
            identify,
            path: Some(path),
        })
    }

    fn of(shared: Shared) -> Self {
        Self {
            shared: Arc::new(shared),
            connection: None,
        }
    }

    /// The same service, for the requests of one connection.
    pub(crate) fn on(&self, connection: &Arc<Connection>) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            connection: Some(Arc::clone(connection)),
        }
    }

    /// Answers one request of a connection of our own, which is busy meanwhile.
    pub(crate) async fn answer_here<B>(self, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body + Unpin,
        B::Data: Buf,
    {
        let Some(connection) = self.connection.clone() else {
            return self.answer(request).await;
        };
        connection.begin();
        let watched = Arc::clone(&connection);
        let request = request.map(|body| Watched {
            body,
            connection: watched,
        });
        let mut response = self.answer(request).await;
        let refused = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN];
        let let_in = !refused.contains(&response.status());
        if response.body().is_stream() {
            let busy = connection.stays_busy();
            response.body_mut().keep_busy(busy);
        } else {
            connection.end(let_in);
        }
        response
    }

    /// Ends what would never end by itself.
    pub(crate) fn stop(&self) {
        self.shared.sessions.close_streams();
        if let Some(pair) = &self.shared.pair {
            pair.close();
        }
    }

    /// Also goes by this name: `host` or `host:port`, as clients write it.
    #[must_use]
    pub fn allow_host(self, host: &str) -> Self {
        self.change(|guard| guard.hosts.push(host.into()))
    }

    /// Also takes requests from this page: `scheme://host[:port]`.
    #[must_use]
    pub fn allow_origin(self, origin: &str) -> Self {
        self.change(|guard| guard.origins.push(origin.into()))
    }

    /// As [`Http::identify`](crate::Http::identify).
    #[must_use]
    pub fn identify(
        mut self,
        identify: impl Fn(&HeaderMap) -> Result<Option<String>, String> + Send + Sync + 'static,
    ) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.identify = Some(Box::new(identify));
        } else {
            tracing::warn!("a service that is already shared cannot be changed");
        }
        self
    }

    fn change(mut self, change: impl FnOnce(&mut Guard)) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            change(&mut shared.guard);
        } else {
            tracing::warn!("a service that is already shared cannot be changed");
        }
        self
    }

    /// Answers one request.
    pub async fn answer<B>(self, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body,
        B::Data: Buf,
    {
        let origin = request.headers().get(header::ORIGIN).cloned();
        let here = Here {
            shared: &self.shared,
            connection: self.connection.as_deref(),
        };
        let mut response = match self.shared.check(&request) {
            Some(refusal) => refusal,
            None if self.shared.is_pair(&request) => Box::pin(here.pair(request)).await,
            None if request.method() == Method::POST => here.post(request).await,
            None => here.manage(request.into_parts().0),
        };
        if response.status().is_client_error() {
            tracing::debug!(status = response.status().as_u16(), "a request was refused");
        }
        if let Some(origin) = origin.filter(|_| response.status() != StatusCode::FORBIDDEN) {
            let headers = response.headers_mut();
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            headers.insert(header::VARY, HeaderValue::from_static("origin"));
            // A page must be told what it may read.
            let readable = HeaderValue::from_static("mcp-session-id, mcp-protocol-version");
            headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, readable);
        }
        response
    }
}

impl Shared {
    /// What is refused, or answered without looking any further.
    fn check<B>(&self, request: &Request<B>) -> Option<Response<Body>> {
        if let Err(words) = self.guard.check(request.uri(), request.headers()) {
            return Some(refuse(
                StatusCode::FORBIDDEN,
                &RpcError::invalid_request(words),
            ));
        }
        let asks_first = request.method() == Method::OPTIONS;
        if self.is_pair(request) {
            return asks_first.then(preflight);
        }
        let path = request.uri().path();
        if self
            .path
            .as_ref()
            .is_some_and(|ours| path.strip_suffix('/').unwrap_or(path) != ours)
        {
            return Some(empty(StatusCode::NOT_FOUND));
        }
        match *request.method() {
            Method::POST | Method::GET | Method::DELETE => None,
            _ if asks_first => Some(preflight()),
            _ => Some(not_allowed("this endpoint takes POST, GET and DELETE")),
        }
    }

    /// Is it for one of the two endpoints of HTTP+SSE, and are they there?
    fn is_pair<B>(&self, request: &Request<B>) -> bool {
        self.pair.is_some() && matches!(request.uri().path(), pair::STREAM | pair::MESSAGES)
    }
}

/// The server, and the connection that a request of it comes on.
#[derive(Clone, Copy)]
pub(crate) struct Here<'a> {
    shared: &'a Shared,
    connection: Option<&'a Connection>,
}

impl Deref for Here<'_> {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        self.shared
    }
}

impl Here<'_> {
    async fn post<B>(self, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body,
        B::Data: Buf,
    {
        let (parts, body) = request.into_parts();
        let form = post::Form::of(&parts.headers);
        // Who it is comes first: to a stranger nothing else is told, and nothing of theirs is kept.
        match self.caller(parts.headers) {
            Ok(caller) => post::answer(self.shared, form, caller, body).await,
            Err(response) => Box::pin(turn_away(*response, body, self.shared)).await,
        }
    }

    async fn pair<B>(self, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body,
        B::Data: Buf,
    {
        let Some(pair) = &self.pair else {
            return empty(StatusCode::NOT_FOUND);
        };
        match (request.method(), request.uri().path()) {
            (&Method::GET, pair::STREAM) => pair.listen(self, request.into_parts().0),
            (&Method::POST, pair::MESSAGES) => pair.take(self, request).await,
            (_, path) => {
                let words = "HTTP+SSE is a GET of /sse, and POSTs to the address it gives";
                let mut response = not_allowed(words);
                let allowed = if path == pair::STREAM { "GET" } else { "POST" };
                let allowed = HeaderValue::from_static(allowed);
                response.headers_mut().insert(header::ALLOW, allowed);
                response
            }
        }
    }

    /// Who sent these headers, or the answer to somebody who may not.
    pub(crate) fn caller(self, headers: HeaderMap) -> Result<Caller, Box<Response<Body>>> {
        let Some(identify) = &self.identify else {
            return Ok(Caller::http(Fields(headers)));
        };
        match identify(&headers) {
            Ok(None) => Ok(Caller::http(Fields(headers))),
            Ok(Some(principal)) => {
                let claim = |connection: &Connection| connection.claim(&principal).err();
                if let Some(error) = self.connection.and_then(claim) {
                    let mut response = refuse(StatusCode::SERVICE_UNAVAILABLE, &error);
                    post::close(&mut response);
                    return Err(Box::new(response));
                }
                Ok(Caller::http(Fields(headers)).known_as(&principal))
            }
            Err(words) => {
                let error = RpcError::invalid_request(words);
                let mut response = refuse(StatusCode::UNAUTHORIZED, &error);
                let challenge = match bearer(&headers) {
                    Some(_) => r#"Bearer realm="lmcp", error="invalid_token""#,
                    None => r#"Bearer realm="lmcp""#,
                };
                let challenge = HeaderValue::from_static(challenge);
                let headers = response.headers_mut();
                headers.insert(header::WWW_AUTHENTICATE, challenge);
                Err(Box::new(response))
            }
        }
    }

    /// GET and DELETE: what sessions have besides messages.
    fn manage(self, parts: Parts) -> Response<Body> {
        let gets = parts.method == Method::GET;
        let accept = Accept::of(&parts.headers);
        let says_what = parts.headers.contains_key(header::ACCEPT);
        let caller = match self.caller(parts.headers) {
            Ok(caller) => caller,
            Err(response) => return *response,
        };
        match accept {
            // The specification's word for a GET that does not lead to a stream.
            Ok(accept) if gets && says_what && !accept.events => {
                return not_allowed("a GET opens a stream: `Accept` must take `text/event-stream`");
            }
            Err((status, error)) if gets => return refuse(status, &error),
            _ => {}
        }
        if caller.header_value(wire::SESSION_ID) == Found::Absent {
            return not_allowed("this takes POST; GET and DELETE need `Mcp-Session-Id`");
        }
        if gets {
            legacy::listen(&self, caller)
        } else {
            legacy::end(&self, &caller)
        }
    }
}

pub(crate) fn not_allowed(words: &'static str) -> Response<Body> {
    let error = RpcError::invalid_request(words);
    let mut response = refuse(StatusCode::METHOD_NOT_ALLOWED, &error);
    let allowed = HeaderValue::from_static("POST, GET, DELETE, OPTIONS");
    response.headers_mut().insert(header::ALLOW, allowed);
    response
}

/// What a browser asks before it sends the real request from an allowed page.
fn preflight() -> Response<Body> {
    let mut response = empty(StatusCode::NO_CONTENT);
    let headers = response.headers_mut();
    headers.insert(
        header::ACCESS_CONTROL_ALLOW_METHODS,
        HeaderValue::from_static("POST, GET, DELETE"),
    );
    headers.insert(
        header::ACCESS_CONTROL_ALLOW_HEADERS,
        HeaderValue::from_static("*, authorization"),
    );
    headers.insert(
        header::ACCESS_CONTROL_MAX_AGE,
        HeaderValue::from_static("600"),
    );
    response
}

/// A JSON-RPC error that belongs to no request.
pub(crate) fn refuse(status: StatusCode, error: &RpcError) -> Response<Body> {
    post::json(status, Message::error(None, error))
}

pub(crate) fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::whole(""));
    *response.status_mut() = status;
    response
}

type Answering = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

impl<B> tower_service::Service<Request<B>> for HttpService
where
    B: http_body::Body + Send + 'static,
    B::Data: Buf + Send,
    B::Error: Send,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Answering {
        let answer = self.clone().answer(request);
        Box::pin(async { Ok(answer.await) })
    }
}

impl std::fmt::Debug for HttpService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpService")
            .field("guard", &self.shared.guard)
            .field("path", &self.shared.path)
            .finish_non_exhaustive()
    }
}
