//! One HTTP request before its body: checks of its path, its verb and its caller.

use std::{
    convert::Infallible,
    future::poll_fn,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Buf;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header, request::Parts};
use hyper::body::Incoming;
use lmcp_core::{Endpoint, transport::connections::Connection};
use lmcp_wire::RpcError;

use crate::{
    answer::{Answer, Body, Later, close, empty, not_allowed, refuse},
    headers::{detached, form},
    legacy_sse,
    manage::Wish,
    post::{Post, turn_away},
    shared::{Settings, Shared},
    upgrade::Handing,
    watched::Watched,
    who::Asked,
};

/// A server as a `tower` service: see [`service`](crate::service). Clones share one service.
#[derive(Clone)]
pub struct HttpService {
    pub(crate) shared: Arc<Shared>,
    /// The connection that requests come on, on the server's own port.
    pub(crate) connection: Option<Arc<Connection>>,
}

impl HttpService {
    pub(crate) fn new(endpoint: Endpoint, settings: Settings) -> Self {
        Self {
            shared: Arc::new(Shared::new(endpoint, settings)),
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

    /// Ends the streams that would never end by themselves.
    pub(crate) fn stop(&self) {
        self.shared.stop();
    }

    /// Answers one request, for programs that use neither axum nor `tower`.
    pub async fn answer<B>(self, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body + Send + 'static,
        B::Data: Buf + Send,
        B::Error: Send,
    {
        self.receive(request.map(Box::pin)).respond().await
    }

    /// Takes a request on the server's own port: at the path of the other protocol for the hand-over, at all other paths as
    /// usual.
    pub(crate) fn take_in(
        &self,
        request: Request<Incoming>,
        handing: &Handing,
    ) -> Received<Incoming> {
        let upgrade = self.shared.gate.upgrade.as_ref();
        let Some(upgrade) = upgrade.filter(|upgrade| upgrade.is_at(request.uri().path())) else {
            return self.receive(request);
        };
        if let Some(refusal) = self.shared.gate.refusal(&request) {
            return self.answered(refusal);
        }
        match upgrade.take_in(request, handing) {
            Answer::Now(response) => self.answered(response),
            Answer::Later(later) => self.clone().later(later),
        }
    }

    /// Looks at a request as far as this needs no waiting: a request that is neither refused nor answered here is a POST.
    pub(crate) fn receive<B>(&self, request: Request<B>) -> Received<B>
    where
        B: http_body::Body + Send + Unpin + 'static,
        B::Data: Buf + Send,
        B::Error: Send,
    {
        let origin = request.headers().get(header::ORIGIN).cloned();
        let mut service = self.clone();
        let step = match self.shared.check(&request) {
            Some(refusal) => Step::answered(refusal),
            None if self.shared.is_pair(&request) => {
                let asks = self.clone();
                Step::Later(Box::pin(async move {
                    let ask = |headers, extensions| asks.caller(headers, extensions);
                    legacy_sse::answer(&asks.shared, ask, request).await
                }))
            }
            None => match self.shared.branch(request.uri().path()) {
                Err(words) => {
                    let refusal = refuse(StatusCode::NOT_FOUND, &RpcError::invalid_request(words));
                    self.refuse_caller(request.into_parts().0, refusal)
                }
                Ok(branch) => {
                    service.shared = branch.unwrap_or(service.shared);
                    service.begin(request)
                }
            },
        };
        Received {
            service,
            origin: origin.map(Box::new),
            step,
        }
    }

    fn begin<B>(&self, request: Request<B>) -> Step<B>
    where
        B: http_body::Body + Send + Unpin + 'static,
        B::Data: Buf + Send,
        B::Error: Send,
    {
        match *request.method() {
            Method::POST => self.post(request),
            Method::GET | Method::DELETE => self.manage(request.into_parts().0),
            _ => {
                let refusal = not_allowed("this endpoint takes POST, GET and DELETE");
                self.refuse_caller(request.into_parts().0, refusal)
            }
        }
    }

    /// Refuses a request of an admitted caller. Other callers learn only that they are not admitted.
    fn refuse_caller<B>(&self, parts: Parts, refusal: Response<Body>) -> Step<B> {
        let asked = self.caller(detached(parts.headers), parts.extensions);
        Step::Later(Box::pin(async move {
            match asked.settled().await {
                Ok(_) => refusal,
                Err(response) => *response,
            }
        }))
    }

    /// Makes a request that already has its answer.
    pub(crate) fn answered<B>(&self, response: Response<Body>) -> Received<B> {
        Received {
            service: self.clone(),
            origin: None,
            step: Step::answered(response),
        }
    }

    /// Makes a request whose answer is awaited.
    pub(crate) fn later<B>(
        self,
        answer: impl Future<Output = Response<Body>> + Send + 'static,
    ) -> Received<B> {
        Received {
            service: self,
            origin: None,
            step: Step::Later(Box::pin(answer)),
        }
    }

    fn post<B>(&self, request: Request<B>) -> Step<B>
    where
        B: http_body::Body + Send + Unpin + 'static,
        B::Data: Buf + Send,
        B::Error: Send,
    {
        let (parts, body) = request.into_parts();
        let form = form(&parts.headers);
        // The client sends the body only when it is asked to.
        let waits = parts.headers.contains_key(header::EXPECT);
        let mut body = Watched {
            body,
            connection: self.connection.clone(),
        };
        // The caller is checked first: an unknown caller learns nothing else, and nothing of its request is kept.
        match self.caller(parts.headers, parts.extensions) {
            Asked::Now(Ok(caller)) => Step::Post(Post { form, caller, body }),
            asked => {
                let shared = Arc::clone(&self.shared);
                Step::Later(Box::pin(async move {
                    match asked.settled().await {
                        Ok(caller) => Post { form, caller, body }.answer(&shared).await,
                        Err(mut response) if waits => {
                            close(&mut response);
                            *response
                        }
                        Err(response) => turn_away(*response, &mut body, &shared).await,
                    }
                }))
            }
        }
    }

    fn manage<B>(&self, parts: Parts) -> Step<B> {
        let wish = Wish::of(&parts);
        match self.caller(detached(parts.headers), parts.extensions) {
            Asked::Now(known) => Step::answered(wish.answer(&self.shared, known)),
            Asked::Later(asking) => {
                let shared = Arc::clone(&self.shared);
                Step::Later(Box::pin(async move { wish.answer(&shared, asking.await) }))
            }
        }
    }
}

impl Shared {
    /// Returns the answer to a request that is refused, or answered without looking any further.
    fn check<B>(&self, request: &Request<B>) -> Option<Response<Body>> {
        if let Some(refusal) = self.gate.refusal(request) {
            return Some(refusal);
        }
        let asks_first = request.method() == Method::OPTIONS;
        if self.is_pair(request) {
            return asks_first.then(preflight);
        }
        if self.gate.rest(request.uri().path()).is_none() {
            return Some(empty(StatusCode::NOT_FOUND));
        }
        asks_first.then(preflight)
    }

    /// Is it for one of the two endpoints of HTTP+SSE, and are they there?
    fn is_pair<B>(&self, request: &Request<B>) -> bool {
        self.legacy_sse.is_some()
            && matches!(
                request.uri().path(),
                legacy_sse::STREAM | legacy_sse::MESSAGES
            )
    }
}

/// A request that was looked at, and what is still to be done about it.
pub(crate) struct Received<B> {
    service: HttpService,
    /// The page that the request comes from. In a box, as all rare values are: this is moved around with every request.
    origin: Option<Box<HeaderValue>>,
    step: Step<B>,
}

enum Step<B> {
    /// `None` once the answer was taken.
    Answered(Option<Box<Response<Body>>>),
    Post(Post<Watched<B>>),
    Later(Later),
}

impl<B> Step<B> {
    fn answered(response: Response<Body>) -> Self {
        Self::Answered(Some(Box::new(response)))
    }
}

impl<B> Received<B>
where
    B: http_body::Body + Unpin,
    B::Data: Buf,
{
    /// Answers the request. After this, a connection of the server's own port is no longer busy, unless a stream goes on.
    pub(crate) async fn answer(mut self) -> Result<Response<Body>, Infallible> {
        let Some(connection) = self.service.connection.clone() else {
            return Ok(self.respond().await);
        };
        if connection.is_out_of_turn() {
            Box::pin(connection.next_turn()).await;
        }
        let mut response = {
            let mut responding = pin!(self.respond());
            poll_fn(|cx| connection.in_turn(|| responding.as_mut().poll(cx))).await
        };
        release(&connection, &mut response);
        Ok(response)
    }

    /// Answers the request, without a change to the connection.
    pub(crate) async fn respond(&mut self) -> Response<Body> {
        let mut response = match &mut self.step {
            Step::Post(post) => post.answer(&self.service.shared).await,
            Step::Later(later) => later.await,
            Step::Answered(response) => match response.take() {
                Some(response) => *response,
                None => empty(StatusCode::INTERNAL_SERVER_ERROR),
            },
        };
        if response.status().is_client_error() {
            tracing::debug!(status = response.status().as_u16(), "a request was refused");
        }
        if let Some(origin) = self.origin.take()
            && response.status() != StatusCode::FORBIDDEN
        {
            show_to(*origin, response.headers_mut());
        }
        response
    }
}

/// Allows a page to read an answer.
fn show_to(origin: HeaderValue, headers: &mut HeaderMap) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::VARY, HeaderValue::from_static("origin"));
    // A browser shows a page only the headers that are named here.
    let readable = HeaderValue::from_static("mcp-session-id, mcp-protocol-version");
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, readable);
}

/// Ends the busy time of a connection when the answer is on its way. If the answer is a stream, the time ends with the stream.
fn release(connection: &Arc<Connection>, response: &mut Response<Body>) {
    if response.body().is_stream() {
        let busy = Arc::clone(connection).stays_busy();
        response.body_mut().keep_busy(busy);
    } else {
        let is_refusal = matches!(
            response.status(),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::SERVICE_UNAVAILABLE
        );
        connection.end(!is_refusal);
    }
}

/// Answers the question that a browser sends before the real request of an allowed page.
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
        let mut received = self.receive(request.map(Box::pin));
        Box::pin(async move { Ok(received.respond().await) })
    }
}

impl std::fmt::Debug for HttpService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpService")
            .field("guard", &self.shared.gate.guard)
            .field("path", &self.shared.gate.path)
            .finish_non_exhaustive()
    }
}
