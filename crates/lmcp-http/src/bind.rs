//! A port of our own: where it listens, and who may call there.

use std::{net::SocketAddr, pin::Pin, sync::Arc};

use http::HeaderMap;
use lmcp_core::{Authenticate, Authenticator, Error, Service};
use tokio::net::{TcpListener, ToSocketAddrs};

use crate::{headers::Guard, service::Settings, who::Who};

/// Listens for HTTP on an address of this machine, at the path `/mcp`.
///
/// Without more it serves one user: see [`Http::any_local_user`], also for systems that do not tell users apart.
///
/// # Errors
/// The address cannot be bound. An address that other machines can reach is refused later, by `serve`, unless
/// [`Http::allow_remote`] was called.
pub async fn bind(address: impl ToSocketAddrs + std::fmt::Debug) -> Result<Http, Error> {
    let failed = format!("cannot listen on {address:?}");
    let listener = match TcpListener::bind(address).await {
        Ok(listener) => listener,
        Err(err) => return Err(Error::io(failed, err)),
    };
    // As many connections may wait to be accepted as the kernel allows. With the usual 128 a flood from one client fills the
    // queue, and others wait for their own kernel's next attempt, seconds later.
    let _ = rustix::net::listen(&listener, i32::MAX);
    let local = listener
        .local_addr()
        .map_err(|err| Error::io(failed, err))?;
    let guard = Guard {
        port: Some(local.port()),
        address: Some(local.ip()),
        ..Guard::default()
    };
    let settings = Settings {
        guard,
        path: Some("/mcp".into()),
        ..Settings::default()
    };
    Ok(Http {
        listener,
        local,
        settings,
        remote: false,
        any_local_user: false,
        stop: Box::pin(std::future::pending()),
    })
}

/// See [`bind`].
pub struct Http {
    pub(crate) listener: TcpListener,
    pub(crate) local: SocketAddr,
    pub(crate) settings: Settings,
    pub(crate) remote: bool,
    pub(crate) any_local_user: bool,
    pub(crate) stop: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Http {
    /// Where it listens; useful with port 0.
    pub fn address(&self) -> SocketAddr {
        self.local
    }

    /// Where clients send their requests.
    pub fn url(&self) -> String {
        let path = self.settings.path.as_deref();
        let path = path.filter(|path| !path.is_empty()).unwrap_or("/");
        format!("http://{}{path}", self.local)
    }

    /// Another path than `/mcp`.
    #[must_use]
    pub fn path(mut self, path: &str) -> Self {
        let path = path.trim_matches('/');
        self.settings.path = Some(if path.is_empty() {
            String::new()
        } else {
            format!("/{path}")
        });
        self
    }

    /// Also serves, below the path, the services that this function finds by their names: `/mcp/NAME`. Whoever may call the
    /// one may call the others, and all share the bounds. Each has sessions of its own: one that was opened at a path is
    /// unknown at every other. The function is asked at every request; an error is answered with 404 and these words.
    ///
    /// ```no_run
    /// # use lmcp_core::{Server, Service};
    /// # use std::sync::Arc;
    /// # async fn demo() -> Result<(), lmcp_core::Error> {
    /// let notes = Arc::new(Server::new("notes", "1.0.0").start()?);
    /// let http = lmcp_http::bind("127.0.0.1:8080").await?.below(move |name| match name {
    ///     "notes" => Ok(notes.clone() as Arc<dyn Service>),
    ///     _ => Err(format!("there is no `{name}`")),
    /// });
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn below(
        mut self,
        find: impl Fn(&str) -> Result<Arc<dyn Service>, String> + Send + Sync + 'static,
    ) -> Self {
        self.settings.below = Some(Box::new(find));
        self
    }

    /// Also serves HTTP+SSE, the transport of 2024-11-05, at `/sse` and `/messages`. Deprecated for long; for clients
    /// that know nothing else.
    #[must_use]
    pub fn legacy_sse(mut self) -> Self {
        self.settings.legacy_sse = true;
        self
    }

    /// Also goes by this name: `host` or `host:port`, as clients write it.
    #[must_use]
    pub fn allow_host(mut self, host: &str) -> Self {
        self.settings.guard.hosts.push(host.into());
        self
    }

    /// Also takes requests from this page: `scheme://host[:port]`.
    #[must_use]
    pub fn allow_origin(mut self, origin: &str) -> Self {
        self.settings.guard.origins.push(origin.into());
        self
    }

    /// Serves only requests with a token, as `Authorization: Bearer TOKEN`; others get 401. Whoever has the token is called `name`:
    /// tasks, sessions and subscriptions belong to that name, and [`Cx::principal`](lmcp_core::Cx::principal) tells it. Call it
    /// again for further tokens. An empty token lets nobody in.
    ///
    /// ```no_run
    /// # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
    /// let http = lmcp_http::bind("127.0.0.1:8080").await?.token("ann", std::env::var("ANNS_TOKEN")?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Of `token`, [`identify`](Self::identify) and [`authenticate`](Self::authenticate) the last one that is called decides.
    #[must_use]
    pub fn token(mut self, name: impl Into<String>, token: impl Into<String>) -> Self {
        self.settings.who = self.settings.who.with_token(name.into(), token.into());
        self
    }

    /// Says who sends a request, by its headers: tasks, sessions and what is carried between two rounds of questions then
    /// belong to that name, and [`Cx::caller`](lmcp_core::Cx::caller) has it. `None` is nobody in particular; an error
    /// refuses the request, with 401 and these words, before anything of it is looked at but its path. A token is found
    /// with [`bearer`](crate::bearer).
    ///
    /// ```no_run
    /// # async fn demo() -> Result<(), lmcp_core::Error> {
    /// let http = lmcp_http::bind("127.0.0.1:8080").await?.identify(|headers| {
    ///     let name = headers.get("x-user").and_then(|name| name.to_str().ok());
    ///     name.map(|name| Some(name.to_owned())).ok_or_else(|| "the proxy says who you are".into())
    /// });
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn identify(
        mut self,
        identify: impl Fn(&HeaderMap) -> Result<Option<String>, String> + Send + Sync + 'static,
    ) -> Self {
        self.settings.who = Who::Identify(Box::new(identify));
        self
    }

    /// Says who sends a request, where a name by its headers ([`Http::identify`]) is not enough: with a role, scopes and
    /// claims, with a challenge of its own, and waiting for others if it must. A request is not looked at before that, but
    /// for its path, and nothing of its body is read.
    ///
    /// ```no_run
    /// # use lmcp_core::{Caller, Challenge, Principal};
    /// # async fn demo() -> Result<(), lmcp_core::Error> {
    /// let http = lmcp_http::bind("127.0.0.1:8080").await?;
    /// let http = http.authenticate(|caller: &Caller| match caller.bearer() {
    ///     Some("s3cret") => Ok(Principal::new("ann").role("admin")),
    ///     _ => Err(Challenge::new("show a token")
    ///         .parameter("resource_metadata", "https://example.com/.well-known/oauth-protected-resource")),
    /// });
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn authenticate(mut self, authenticate: impl Authenticate) -> Self {
        self.settings.who = Who::Authenticate(Authenticator::new(authenticate));
        self
    }

    /// Lets other machines in, where the address is one they can reach. Only behind something that knows who they are.
    #[must_use]
    pub fn allow_remote(mut self) -> Self {
        self.remote = true;
        self
    }

    /// Serves every user of this machine. Without it, a server on a loopback address that does not
    /// [identify](Self::identify) or [authenticate](Self::authenticate) its callers serves the user it runs as and root alone, as the kernel says who made a
    /// connection; others get 403.
    ///
    /// Linux says that. macOS and Windows do not: there such a server is refused when it starts to serve, until the program
    /// says who is served, by one of these three.
    #[must_use]
    pub fn any_local_user(mut self) -> Self {
        self.any_local_user = true;
        self
    }

    /// Stops when this future ends: no new connections, and those there are get a moment.
    #[must_use]
    pub fn until(mut self, stop: impl Future<Output = ()> + Send + 'static) -> Self {
        self.stop = Box::pin(stop);
        self
    }
}

impl std::fmt::Debug for Http {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Http")
            .field("address", &self.local)
            .field("guard", &self.settings.guard)
            .field("path", &self.settings.path)
            .finish_non_exhaustive()
    }
}
