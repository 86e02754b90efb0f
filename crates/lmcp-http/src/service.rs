//! One HTTP request before its body: which path, which verb, and who may.

use std::{
    collections::HashMap,
    convert::Infallible,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use bytes::Buf;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header, request::Parts};
use hyper::body::Incoming;
use lmcp_core::{Endpoint, Limits, Service, transport::connections::Connection};
use lmcp_wire::RpcError;

use crate::{
    answer::{Body, Later, empty, not_allowed, refuse},
    carried::Carry,
    headers::{Guard, detached, form},
    legacy_sse::{self, LegacySse},
    manage::Wish,
    post::{Post, turn_away},
    session::Sessions,
    upgrade::{Handing, Upgrade},
    watched::Watched,
    who::{Asked, Who},
};

/// A server as a `tower` service: see [`service`](crate::service). Clones share one service.
#[derive(Clone)]
pub struct HttpService {
    pub(crate) shared: Arc<Shared>,
    /// The connection that requests come on, where that is our own.
    pub(crate) connection: Option<Arc<Connection>>,
}

/// Who may call, and where.
#[derive(Default)]
pub(crate) struct Settings {
    pub(crate) guard: Guard,
    pub(crate) who: Who,
    /// What handlers find among the extensions of a request.
    pub(crate) carries: Vec<Carry>,
    /// The only path that is answered; all of them when mounted.
    pub(crate) path: Option<String>,
    /// Services below that path.
    pub(crate) below: Option<Find>,
    /// HTTP+SSE as well.
    pub(crate) legacy_sse: bool,
    /// Where connections go on in another protocol.
    pub(crate) upgrade: Option<Upgrade>,
}

/// A service by its name, or the words that say that there is none.
pub(crate) type Find = Box<dyn Fn(&str) -> Result<Arc<dyn Service>, String> + Send + Sync>;

/// What holds for all paths.
pub(crate) struct Gate {
    guard: Guard,
    pub(crate) who: Who,
    pub(crate) carries: Arc<[Carry]>,
    path: Option<String>,
    below: Option<Find>,
    pub(crate) upgrade: Option<Upgrade>,
}

pub(crate) struct Shared {
    pub(crate) endpoint: Endpoint,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) limits: Limits,
    pub(crate) gate: Arc<Gate>,
    pub(crate) legacy_sse: Option<LegacySse>,
    /// The services below the path that were asked for so far.
    branches: Mutex<HashMap<String, Arc<Self>>>,
}

impl HttpService {
    pub(crate) fn new(endpoint: Endpoint, settings: Settings) -> Self {
        let Settings {
            guard,
            who,
            carries,
            path,
            below,
            legacy_sse,
            upgrade,
        } = settings;
        let shared = Shared {
            sessions: Sessions::new(&endpoint),
            legacy_sse: legacy_sse.then(|| LegacySse::new(endpoint.clone())),
            limits: endpoint.limits().clone(),
            endpoint,
            gate: Arc::new(Gate {
                guard,
                who,
                carries: carries.into(),
                path,
                below,
                upgrade,
            }),
            branches: Mutex::default(),
        };
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

    /// Ends what would never end by itself.
    pub(crate) fn stop(&self) {
        self.shared.sessions.close_streams();
        for branch in self.shared.branches().values() {
            branch.sessions.close_streams();
        }
        if let Some(legacy_sse) = &self.shared.legacy_sse {
            legacy_sse.close();
        }
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

    /// Takes in a request on a connection of our own: at the path of another protocol by that, at all others as ever.
    pub(crate) fn take_in(
        &self,
        request: Request<Incoming>,
        handing: &Handing,
    ) -> Received<Incoming> {
        let upgrade = self.shared.gate.upgrade.as_ref();
        match upgrade.filter(|upgrade| upgrade.is_at(request.uri().path())) {
            Some(upgrade) => upgrade.take_in(self, request, handing),
            None => self.receive(request),
        }
    }

    /// Looks at a request as far as that needs no waiting: what is not refused or answered there and then is a POST.
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
                Step::Later(Box::pin(legacy_sse::answer(self.clone(), request)))
            }
            None => match self.shared.branch(request.uri().path()) {
                Err(words) => self.find_nothing(request.into_parts().0, words),
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
            _ => self.manage(request.into_parts().0),
        }
    }

    /// There is no such path. Only those who may call are told about it.
    fn find_nothing<B>(&self, parts: Parts, words: String) -> Step<B> {
        let asked = self.caller(detached(parts.headers), parts.extensions);
        Step::Later(Box::pin(async move {
            match asked.settled().await {
                Ok(_) => refuse(StatusCode::NOT_FOUND, &RpcError::invalid_request(words)),
                Err(response) => *response,
            }
        }))
    }

    /// A request that has its answer.
    pub(crate) fn answered<B>(&self, response: Response<Body>) -> Received<B> {
        Received {
            service: self.clone(),
            origin: None,
            step: Step::answered(response),
        }
    }

    /// A request whose answer is waited for.
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
        let mut body = Watched {
            body,
            connection: self.connection.clone(),
        };
        // Who it is comes first: to a stranger nothing else is told, and nothing of theirs is kept.
        match self.caller(parts.headers, parts.extensions) {
            Asked::Now(Ok(caller)) => Step::Post(Post { form, caller, body }),
            asked => {
                let shared = Arc::clone(&self.shared);
                Step::Later(Box::pin(async move {
                    match asked.settled().await {
                        Ok(caller) => Post { form, caller, body }.answer(&shared).await,
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
    /// What is refused, or answered without looking any further.
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
        match *request.method() {
            Method::POST | Method::GET | Method::DELETE => None,
            _ if asks_first => Some(preflight()),
            _ => Some(not_allowed("this endpoint takes POST, GET and DELETE")),
        }
    }

    /// The service below our own path that a path leads to; `None`: it is our own. An error says that there is none.
    fn branch(&self, path: &str) -> Result<Option<Arc<Self>>, String> {
        let name = self.gate.rest(path).unwrap_or_default();
        let Some(find) = self.gate.below.as_ref().filter(|_| !name.is_empty()) else {
            return Ok(None);
        };
        let mut branches = self.branches();
        let service = match find(name) {
            Ok(service) => service,
            Err(words) => {
                branches.remove(name);
                return Err(words);
            }
        };
        let branch = branches.entry(name.to_owned()).or_insert_with(|| {
            let endpoint = self.endpoint.beside(service);
            Arc::new(Self {
                sessions: self.sessions.beside(&endpoint, name),
                limits: self.limits.clone(),
                endpoint,
                gate: Arc::clone(&self.gate),
                legacy_sse: None,
                branches: Mutex::default(),
            })
        });
        Ok(Some(Arc::clone(branch)))
    }

    fn branches(&self) -> MutexGuard<'_, HashMap<String, Arc<Self>>> {
        self.branches.lock().unwrap_or_else(PoisonError::into_inner)
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

impl Gate {
    /// The answer to a request under a name that is not ours, or from a page that we do not know.
    pub(crate) fn refusal<B>(&self, request: &Request<B>) -> Option<Response<Body>> {
        let checked = self.guard.check(request.uri(), request.headers());
        let error = RpcError::invalid_request(checked.err()?);
        Some(refuse(StatusCode::FORBIDDEN, &error))
    }

    /// What follows our own path in this one: nothing, or the name of a service below it. `None`: it is another path.
    fn rest<'a>(&self, path: &'a str) -> Option<&'a str> {
        let Some(ours) = &self.path else {
            return Some("");
        };
        let rest = path
            .strip_suffix('/')
            .unwrap_or(path)
            .strip_prefix(&**ours)?;
        match rest.strip_prefix('/') {
            None => rest.is_empty().then_some(""),
            Some(name) => (self.below.is_some() && !name.is_empty()).then_some(name),
        }
    }
}

/// A request that was looked at, and what is still to be done about it.
pub(crate) struct Received<B> {
    service: HttpService,
    /// The page that it comes from. In a box, as all that is rare: this is moved around with every request.
    origin: Option<Box<HeaderValue>>,
    step: Step<B>,
}

enum Step<B> {
    /// `None` once it is taken.
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
    /// The answer. A connection of our own is no longer busy then, unless a stream goes on.
    pub(crate) async fn answer(mut self) -> Result<Response<Body>, Infallible> {
        let mut response = self.respond().await;
        if let Some(connection) = &self.service.connection {
            release(connection, &mut response);
        }
        Ok(response)
    }

    /// The answer, whatever becomes of the connection.
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

/// Lets a page read an answer.
fn show_to(origin: HeaderValue, headers: &mut HeaderMap) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::VARY, HeaderValue::from_static("origin"));
    // A page must be told what it may read.
    let readable = HeaderValue::from_static("mcp-session-id, mcp-protocol-version");
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, readable);
}

/// A connection is busy until the answer to its request is on its way, or for as long as that is a stream.
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
