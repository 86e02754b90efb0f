//! A server inside of another program's HTTP server: the settings of which hosts and users it serves there.

use std::sync::Once;

use http::HeaderMap;
use lmcp_core::{Authenticate, Authenticator, Caller, Challenge, Endpoint, Principal};

use crate::{carried::Carry, service::HttpService, shared::Settings, who::Who};

/// Makes a `tower` service of a server, to mount it in an axum or hyper program that has an HTTP server already.
///
/// The service answers at every path that it is mounted at. It admits requests whose `Host` header is a loopback name, such as
/// `127.0.0.1` or `localhost`; [`Mount::allow_host`] admits others.
///
/// [`Mount::login`] takes the user from the login of the application. Without it, [`Mount::token`], [`Mount::identify`] or
/// [`Mount::authenticate`], the service serves everybody that the application lets through, and knows nobody by name: all of them can use
/// the sessions of all others. A mounted service does not serve HTTP+SSE, the transport of 2024-11-05.
///
/// ```no_run
/// # use lmcp::Server;
/// # fn demo() -> Result<(), lmcp::Error> {
/// let server = Server::new("mounted", "1.0.0").start()?;
/// let mcp = lmcp::http::service(server).allow_host("tools.example").build();
/// let app: axum::Router = axum::Router::new().route_service("/mcp", mcp);
/// # Ok(())
/// # }
/// ```
///
/// Before the application shuts down, call [`Handle::close`](lmcp_core::Handle::close): a subscription would keep its connection open. Running
/// calls keep theirs until they end.
pub fn service(server: impl Into<Endpoint>) -> Mount {
    Mount {
        endpoint: server.into(),
        settings: Settings::default(),
    }
}

/// A service that is not built yet: see [`service`]. All settings are made before there is a service that could be cloned.
#[must_use = "nothing is served before `build`"]
pub struct Mount {
    endpoint: Endpoint,
    settings: Settings,
}

impl Mount {
    /// Admits requests whose `Host` header is this name: `host` or `host:port`.
    pub fn allow_host(mut self, host: &str) -> Self {
        self.settings.guard.hosts.push(host.into());
        self
    }

    /// Admits requests of web pages of this origin: `scheme://host[:port]`. Pages of the application itself need no permission: those
    /// whose origin has the host and the port that the request names in `Host`.
    ///
    /// Before a request of a page of another origin, browsers send an `OPTIONS` request without cookies. A login in front of the service
    /// has to let it pass.
    pub fn allow_origin(mut self, origin: &str) -> Self {
        self.settings.guard.origins.push(origin.into());
        self
    }

    /// Admits requests with this token; others get 401. An empty token admits nobody. See [`Http::token`](crate::Http::token).
    ///
    /// ```no_run
    /// # fn run(server: lmcp::Handle) -> Result<(), Box<dyn std::error::Error>> {
    /// let mcp = lmcp::http::service(server).token("ann", std::env::var("ANNS_TOKEN")?).build();
    /// # Ok(())
    /// # }
    /// ```
    pub fn token(mut self, name: impl Into<String>, token: impl Into<String>) -> Self {
        self.settings.who = self.settings.who.with_token(name.into(), token.into());
        self
    }

    /// Sets a function that names the sender of a request by its headers. See [`Http::identify`](crate::Http::identify).
    pub fn identify(
        mut self,
        identify: impl Fn(&HeaderMap) -> Result<Option<String>, String> + Send + Sync + 'static,
    ) -> Self {
        self.settings.who = Who::Identify(Box::new(identify));
        self
    }

    /// Sets an [`Authenticate`] that decides who sent a request. See [`Http::authenticate`](crate::Http::authenticate).
    pub fn authenticate(mut self, authenticate: impl Authenticate) -> Self {
        self.settings.who = Who::Authenticate(Authenticator::new(authenticate));
        self
    }

    /// Carries values of this type from the extensions of an HTTP request to handlers. Middleware of the application puts them there;
    /// [`Cx::extension`](lmcp_core::Cx::extension) finds them in a handler, and [`Caller::extension`](lmcp_core::Caller::extension) in an
    /// [`Authenticate`] or a layer. Call it again for further types.
    ///
    /// `carry` tells lmcp nothing about the caller: to lmcp all callers are the same, roles do not count, and a caller that knows the id of
    /// a session may use that session. For the user of a request call [`login`](Self::login), which does more. `carry` is for all else, such as
    /// the tenant or a trace id:
    ///
    /// ```no_run
    /// # use lmcp::{Principal, Server};
    /// # fn demo() -> Result<(), lmcp::Error> {
    /// # #[derive(Clone)] struct User { name: String }
    /// #[derive(Clone)]
    /// struct Tenant(u32); // an axum middleware inserts it: request.extensions_mut().insert(Tenant(7))
    ///
    /// let server = Server::new("mounted", "1.0.0").start()?;
    /// let mcp = lmcp::http::service(server)
    ///     .login(|user: &User| Principal::new(&user.name))
    ///     .carry::<Tenant>()
    ///     .build();
    /// # Ok(())
    /// # }
    /// ```
    pub fn carry<T: Clone + Send + Sync + 'static>(mut self) -> Self {
        self.settings.carries.push(Carry::of::<T>());
        self
    }

    /// Takes the user from the login of the application. Middleware of the application puts a value of type `T` into the extensions of
    /// the request, and the function makes a [`Principal`] of it. A request without such a value gets 401, and the first one is logged as
    /// a warning that names the type.
    ///
    /// Sessions, tasks and subscriptions then belong to that user, roles count, and handlers find the value itself with
    /// [`Cx::extension`](lmcp_core::Cx::extension). This is [`carry`](Self::carry) and [`authenticate`](Self::authenticate) in one.
    ///
    /// ```no_run
    /// # use lmcp::{Principal, Server};
    /// # fn demo() -> Result<(), lmcp::Error> {
    /// #[derive(Clone)]
    /// struct User {
    ///     name: String, // an axum middleware inserts it: request.extensions_mut().insert(User { name })
    /// }
    ///
    /// let server = Server::new("mounted", "1.0.0").start()?;
    /// let mcp = lmcp::http::service(server).login(|user: &User| Principal::new(&user.name)).build();
    /// # Ok(())
    /// # }
    /// ```
    pub fn login<T: Clone + Send + Sync + 'static>(
        self,
        who: impl Fn(&T) -> Principal + Send + Sync + 'static,
    ) -> Self {
        let missed = Once::new();
        let known = move |caller: &Caller| match caller.extension::<T>() {
            Some(user) => Ok(who(user)),
            None => {
                missed.call_once(|| {
                    let wanted = std::any::type_name::<T>();
                    tracing::warn!(
                        "a request without a {wanted} in its extensions gets 401; if its sender was logged in, the middleware of the \
                         application inserts a value of another type, or runs after the service"
                    );
                });
                Err(Challenge::new("log in first"))
            }
        };
        self.carry::<T>().authenticate(known)
    }

    /// Builds the service, whose settings are final.
    pub fn build(self) -> HttpService {
        if !self.settings.carries.is_empty() && matches!(self.settings.who, Who::NotAsked) {
            tracing::warn!(
                "`carry` tells handlers who calls, and lmcp nothing: all callers can use the sessions of all others; \
                 call `login` or `authenticate`, too"
            );
        }
        HttpService::new(self.endpoint, self.settings)
    }
}

impl std::fmt::Debug for Mount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mount")
            .field("guard", &self.settings.guard)
            .finish_non_exhaustive()
    }
}
