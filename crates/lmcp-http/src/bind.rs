//! HTTP on its own port: the address where it listens, and the checks of who may call there.

use std::{net::SocketAddr, pin::Pin, sync::Arc};

use http::HeaderMap;
use lmcp_core::{Authenticate, Authenticator, Error, Service};
use tokio::net::{TcpListener, ToSocketAddrs};

use crate::{headers::Guard, shared::Settings, who::Who};

/// Listens for HTTP on an address of this machine, and serves MCP there at the path `/mcp`. The result is a transport: see [`Http`].
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
    // As many connections may wait to be accepted as the kernel allows. With the usual 128, a flood from one client fills the
    // queue, and other clients wait seconds for the next attempt of their own kernel.
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

/// Streamable HTTP on a port of its own. [`bind`] makes one; [`service`](crate::service) mounts a server in a program that has an HTTP
/// server already.
///
/// ```no_run
/// # async fn run(server: lmcp::Server) -> Result<(), Box<dyn std::error::Error>> {
/// let stop = async {
///     let _ = tokio::signal::ctrl_c().await;
/// };
/// let http = lmcp::http::bind("127.0.0.1:8080").await?.until(stop);
/// eprintln!("listening on {}", http.url());
/// server.serve(http).await?;
/// # Ok(())
/// # }
/// ```
///
/// # Who is served
///
/// | the program calls | on loopback, the server serves | with an address that others can reach |
/// |---|---|---|
/// | none of these | the user that it runs as, and root (Linux); nobody (macOS, Windows) | `serve` fails |
/// | [`any_local_user`](Self::any_local_user) | every user of this machine | `serve` fails |
/// | [`token`](Self::token) | holders of a token | holders of a token, with [`allow_remote`](Self::allow_remote) |
/// | [`identify`](Self::identify), [`authenticate`](Self::authenticate) | whoever that function admits | the same, with [`allow_remote`](Self::allow_remote) |
///
/// Requests of web pages of another origin are refused, unless [`allow_origin`](Self::allow_origin) names it. A `Host` header with another name than
/// that of this machine is refused, unless [`allow_host`](Self::allow_host) names it: a web page must not reach a local server by a name
/// of its own.
///
/// lmcp speaks plain HTTP. Put a reverse proxy that speaks TLS before a server that others reach.
pub struct Http {
    pub(crate) listener: TcpListener,
    pub(crate) local: SocketAddr,
    pub(crate) settings: Settings,
    pub(crate) remote: bool,
    pub(crate) any_local_user: bool,
    pub(crate) stop: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Http {
    /// The address that the server listens on. With port 0 the system chose the port.
    pub fn address(&self) -> SocketAddr {
        self.local
    }

    /// The URL that clients send their requests to.
    pub fn url(&self) -> String {
        let path = self.settings.path.as_deref();
        let path = path.filter(|path| !path.is_empty()).unwrap_or("/");
        format!("http://{}{path}", self.local)
    }

    /// Serves at this path, in the place of `/mcp`.
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

    /// Also serves other services below the path, as `/mcp/NAME`. The function finds a service by its name, and runs for every
    /// request; its error is answered with 404 and the words of the error. A caller that may call one service may call all of
    /// them, and all share the same limits. Sessions belong to one path, and are unknown at the others.
    ///
    /// ```no_run
    /// # use lmcp::{Server, Service};
    /// # use std::sync::Arc;
    /// # async fn demo() -> Result<(), lmcp::Error> {
    /// let notes = Arc::new(Server::new("notes", "1.0.0").start()?);
    /// let http = lmcp::http::bind("127.0.0.1:8080").await?.below(move |name| match name {
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

    /// Also serves HTTP+SSE, the deprecated transport of 2024-11-05, at `/sse` and `/messages`, for clients that know nothing else.
    #[must_use]
    pub fn legacy_sse(mut self) -> Self {
        self.settings.legacy_sse = true;
        self
    }

    /// Admits requests whose `Host` header is this name: `host` or `host:port`. A server behind a reverse proxy needs it.
    ///
    /// ```no_run
    /// # async fn run() -> Result<(), lmcp::Error> {
    /// let http = lmcp::http::bind("127.0.0.1:8080").await?.allow_host("tools.example");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn allow_host(mut self, host: &str) -> Self {
        self.settings.guard.hosts.push(host.into());
        self
    }

    /// Admits requests of web pages of this origin: `scheme://host[:port]`. Their browsers may read the answers.
    #[must_use]
    pub fn allow_origin(mut self, origin: &str) -> Self {
        self.settings.guard.origins.push(origin.into());
        self
    }

    /// Admits requests with this token, as `Authorization: Bearer TOKEN`; others get 401. The holder of the token is called `name`:
    /// its tasks, sessions and subscriptions belong to that name, and [`Cx::principal`](lmcp_core::Cx::principal) returns it. Call
    /// `token` again for further holders. A server with an empty token does not start. Tokens are compared in constant time.
    ///
    /// ```no_run
    /// # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
    /// let http = lmcp::http::bind("127.0.0.1:8080").await?.token("ann", std::env::var("ANNS_TOKEN")?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Use one of `token`, [`identify`](Self::identify) and [`authenticate`](Self::authenticate): the last one that is called decides.
    #[must_use]
    pub fn token(mut self, name: impl Into<String>, token: impl Into<String>) -> Self {
        self.settings.who = self.settings.who.with_token(name.into(), token.into());
        self
    }

    /// Sets a function that names the sender of a request by its headers. Tasks, sessions and questions belong to that name, and
    /// [`Cx::principal`](lmcp_core::Cx::principal) returns it. `Ok(None)` admits a request without a name. An error refuses the request
    /// with 401 and its words, before anything but the path of the request was looked at. [`bearer`](crate::bearer) finds a token.
    ///
    /// ```no_run
    /// # async fn demo() -> Result<(), lmcp::Error> {
    /// let http = lmcp::http::bind("127.0.0.1:8080").await?.identify(|headers| {
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

    /// Sets an [`Authenticate`] that decides who sent a request, where the name of [`identify`](Self::identify) is not enough:
    /// it gives the sender a role, scopes and claims, answers with a challenge of its own, and may ask another machine first.
    /// Before its decision, lmcp looks only at the path of a request, and reads nothing of the body.
    ///
    /// ```no_run
    /// # use lmcp::{Caller, Challenge, Principal};
    /// # async fn demo() -> Result<(), lmcp::Error> {
    /// let http = lmcp::http::bind("127.0.0.1:8080").await?;
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

    /// Serves other machines, where they can reach the address. Without [`token`](Self::token), [`identify`](Self::identify) or
    /// [`authenticate`](Self::authenticate), everybody who can reach the address can call every tool.
    #[must_use]
    pub fn allow_remote(mut self) -> Self {
        self.remote = true;
        self
    }

    /// Serves every user of this machine. Without this, a server on a loopback address that asks for no credentials serves the user
    /// that it runs as, and root; other users get 403.
    ///
    /// Linux tells which user made a connection. macOS and Windows do not, so `serve` fails there until the program calls this,
    /// [`token`](Self::token), [`identify`](Self::identify) or [`authenticate`](Self::authenticate).
    #[must_use]
    pub fn any_local_user(mut self) -> Self {
        self.any_local_user = true;
        self
    }

    /// Stops when this future ends. The server then takes no new connections, and gives running calls a moment to end
    /// ([`Limits::shutdown_wait`](lmcp_core::Limits::shutdown_wait)).
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
