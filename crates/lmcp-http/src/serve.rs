//! A port of our own: accepting connections, limiting them, closing them.

use std::{
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex},
};

use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use lmcp_core::{
    Endpoint, Error, Limits, Tasks, Throttle, Transport,
    transport::connections::{Connection, Connections},
};
use lmcp_wire::{RpcError, error::INTERNAL_ERROR, jsonrpc};
use tokio::{
    net::{TcpListener, TcpStream, ToSocketAddrs},
    sync::watch,
    time::timeout,
};

use crate::{
    body::Body,
    entry::{Door, Entry},
    guard::Guard,
    service::{self, HttpService, Settings},
};

/// Listens for HTTP on an address of this machine, at the path `/mcp`.
///
/// # Errors
/// The address cannot be bound, or others could reach it: see [`Http::allow_remote`].
pub async fn bind(address: impl ToSocketAddrs + std::fmt::Debug) -> Result<Http, Error> {
    let failed = format!("cannot listen on {address:?}");
    let listener = match TcpListener::bind(address).await {
        Ok(listener) => listener,
        Err(err) => return Err(Error::io(failed, err)),
    };
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
        identify: None,
        path: "/mcp".into(),
        pair: false,
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
    listener: TcpListener,
    local: SocketAddr,
    settings: Settings,
    remote: bool,
    any_local_user: bool,
    stop: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Http {
    /// Where it listens; useful with port 0.
    pub fn address(&self) -> SocketAddr {
        self.local
    }

    /// Where clients send their requests.
    pub fn url(&self) -> String {
        format!(
            "http://{}{}",
            self.local,
            if self.settings.path.is_empty() {
                "/"
            } else {
                &self.settings.path
            }
        )
    }

    /// Another path than `/mcp`.
    #[must_use]
    pub fn path(mut self, path: &str) -> Self {
        let path = path.trim_matches('/');
        self.settings.path = if path.is_empty() {
            String::new()
        } else {
            format!("/{path}")
        };
        self
    }

    /// Also serves HTTP+SSE, the transport of 2024-11-05, at `/sse` and `/messages`. Deprecated for long; for clients
    /// that know nothing else.
    #[must_use]
    pub fn legacy_sse(mut self) -> Self {
        self.settings.pair = true;
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
        self.settings.identify = Some(Box::new(identify));
        self
    }

    /// Lets other machines in, where the address is one they can reach. Only behind something that knows who they are.
    #[must_use]
    pub fn allow_remote(mut self) -> Self {
        self.remote = true;
        self
    }

    /// Serves every user of this machine. Without it, a server on a loopback address that does not
    /// [identify](Self::identify) its callers serves the user it runs as and root alone, as the kernel says who made a
    /// connection; others get 403.
    #[must_use]
    pub fn any_local_user(mut self) -> Self {
        self.any_local_user = true;
        self
    }

    /// What is asked about those who connect. Whoever shows a token has shown enough.
    fn door(&self, server: &Endpoint) -> Door {
        let is_open = self.settings.identify.is_none();
        Door {
            asks_for_user: is_open && !self.remote && !self.any_local_user,
            asks_server: is_open && server.checks_local_peers(),
            server: server.clone(),
            refusals: Mutex::default(),
        }
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

impl Transport for Http {
    async fn serve(mut self, server: Endpoint) -> Result<(), Error> {
        if !self.local.ip().is_loopback() && !self.remote {
            let address = self.local;
            return Err(Error::config(format!(
                "{address} can be reached by other machines; say so with `allow_remote`"
            )));
        }
        let limits = server.limits().clone();
        let door = Arc::new(self.door(&server));
        let service = HttpService::standalone(server.clone(), self.settings);
        let open = Connections::new(limits.connections_here(), server.budget());
        let (close, closing) = watch::channel(());
        let connections = Tasks::default();
        let mut full = Throttle::default();
        loop {
            let stream = tokio::select! {
                () = &mut self.stop => break,
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => stream,
                    Err(err) => {
                        // Out of descriptors, most likely: others will close some.
                        if let Some(times) = full.count() {
                            tracing::warn!(times, "cannot accept a connection: {err}");
                        }
                        tokio::time::sleep(limits.drain_wait).await;
                        continue;
                    }
                },
            };
            // An answer is one write; without this it may wait for the peer's acknowledgement of the one before.
            let _ = stream.set_nodelay(true);
            let place = match open.enter() {
                Ok(place) => place,
                Err(error) => {
                    refuse(&stream, &error);
                    continue;
                }
            };
            let entry = Arc::new(door.look(&stream));
            let number = place.number();
            let service = service.on(place.connection());
            let entry = (entry, Arc::clone(place.connection()));
            let connection = serve(stream, service, entry, limits.clone(), closing.clone());
            let task = connections.spawn(async move {
                connection.await;
                drop(place);
            });
            open.abort_with(number, task);
        }
        drop(self.listener);
        server.transport_stops();
        service.stop();
        close.send_replace(());
        let _ = timeout(limits.shutdown_wait, open.all_closed()).await;
        Ok(())
    }
}

async fn serve(
    stream: TcpStream,
    service: HttpService,
    (entry, connection): (Arc<Entry>, Arc<Connection>),
    limits: Limits,
    mut closing: watch::Receiver<()>,
) {
    let answer = service_fn(move |request: Request<Incoming>| {
        let (service, entry) = (service.clone(), Arc::clone(&entry));
        let connection = Arc::clone(&connection);
        async move {
            // While it waits for that, it makes room for nobody: others could push it out by coming again and again.
            connection.begin();
            Ok::<_, std::convert::Infallible>(match entry.admit().await {
                Ok(()) => service.answer_here(request).await,
                Err(error) => {
                    connection.end(false);
                    forbid(&error)
                }
            })
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_wait)
        .max_buf_size(limits.header_bytes.max(8192))
        .serve_connection(TokioIo::new(stream), answer);
    let mut connection = std::pin::pin!(connection);
    let result = tokio::select! {
        result = connection.as_mut() => result,
        _ = closing.changed() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(err) = result {
        tracing::debug!("a connection ended: {err}");
    }
}

/// The answer to somebody on this machine who is not served, or cannot be just now.
fn forbid(error: &RpcError) -> Response<Body> {
    let status = match error.code {
        INTERNAL_ERROR => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::FORBIDDEN,
    };
    let mut response = service::refuse(status, error);
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(header::CONNECTION, close);
    response
}

/// As much of an answer as fits into the socket's buffer, for a connection too many.
fn refuse(stream: &TcpStream, error: &RpcError) {
    let body = jsonrpc::error(None, error);
    let head = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         retry-after: 1\r\nconnection: close\r\n\r\n",
        body.len(),
    );
    let _ = stream.try_write(&[head.as_bytes(), &body].concat());
}
