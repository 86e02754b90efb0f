//! Middleware: functions around every request, to log, to limit, to authorise.

use std::{
    any::Any,
    fmt,
    io::{self, Write as _},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use lmcp_wire::RpcError;

use crate::{
    random,
    reply::Reply,
    request::Request,
    service::{Replies, Service, Source},
};

/// A function around every request: it answers itself, or hands the request on with [`Next::call`].
pub(crate) type Layer = Arc<dyn Fn(Request, Next<'_>) -> Replies + Send + Sync>;

/// The rest of the way of a request: further layers, and the service inside of them.
pub struct Next<'a> {
    layers: &'a [Layer],
    service: &'a dyn Service,
}

impl Next<'_> {
    /// Hands the request on.
    pub fn call(self, request: Request) -> Replies {
        match self.layers.split_first() {
            Some((layer, layers)) => layer(request, Next { layers, ..self }),
            None => self.service.call(request),
        }
    }
}

impl fmt::Debug for Next<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next")
            .field("layers", &self.layers.len())
            .finish_non_exhaustive()
    }
}

/// Layers around any service, as [`Server::layer`](crate::Server::layer) puts them around a server. The first one added is
/// the outermost.
///
/// ```
/// # use lmcp::{Endpoint, Layered, Replies, Service};
/// # use lmcp::wire::RpcError;
/// # fn demo(hub: impl Service) -> Endpoint {
/// Endpoint::new(Layered::new(hub).layer(|request, next| {
///     if request.caller().principal().is_none() {
///         return Replies::error(RpcError::invalid_request("who are you?"));
///     }
///     next.call(request)
/// }))
/// # }
/// ```
pub struct Layered<S> {
    layers: Vec<Layer>,
    service: S,
}

impl<S: Service> Layered<S> {
    /// Puts no layer around a service yet.
    pub fn new(service: S) -> Self {
        Self {
            layers: Vec::new(),
            service,
        }
    }

    /// Adds a layer inside of those that were added before.
    #[must_use]
    pub fn layer(
        mut self,
        layer: impl Fn(Request, Next<'_>) -> Replies + Send + Sync + 'static,
    ) -> Self {
        self.layers.push(Arc::new(layer));
        self
    }
}

impl<S: Service> Service for Layered<S> {
    fn call(&self, request: Request) -> Replies {
        call(&self.layers, &self.service, request)
    }

    fn close(&self) {
        self.service.close();
    }

    fn hang_up(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.service.hang_up()
    }

    fn ping(&self) -> Pin<Box<dyn Future<Output = Result<(), RpcError>> + Send + '_>> {
        self.service.ping()
    }

    fn is_idle(&self) -> bool {
        self.service.is_idle()
    }
}

impl<S> fmt::Debug for Layered<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Layered")
            .field("layers", &self.layers.len())
            .finish_non_exhaustive()
    }
}

/// Calls a service through layers. The code of a layer may panic, as that of a handler may: a panic costs one answer.
pub(crate) fn call(layers: &[Layer], service: &dyn Service, request: Request) -> Replies {
    if layers.is_empty() {
        return service.call(request);
    }
    let next = Next { layers, service };
    match catch_unwind(AssertUnwindSafe(|| next.call(request))) {
        Ok(replies) => Replies::from_source(Fenced(Some(replies))),
        Err(panic) => Replies::error(incident(&*panic)),
    }
}

/// Replies that a layer may have made. `None` after a panic.
struct Fenced(Option<Replies>);

impl Source for Fenced {
    fn poll_reply(&mut self, cx: &mut Context<'_>) -> Poll<Option<Reply>> {
        let Some(replies) = &mut self.0 else {
            return Poll::Ready(None);
        };
        catch_unwind(AssertUnwindSafe(|| replies.poll_next(cx))).unwrap_or_else(|panic| {
            self.0 = None;
            Poll::Ready(Some(Reply::Done(Err(incident(&*panic)))))
        })
    }

    fn is_harmless(&self) -> bool {
        self.0.as_ref().is_some_and(Replies::is_harmless)
    }

    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.0 {
            Some(replies) => replies.poll_deadline(cx),
            None => Poll::Pending,
        }
    }
}

/// Makes the error that the peer gets after a panic. Its number leads to the panic in the log.
pub(crate) fn incident(panic: &(dyn Any + Send)) -> RpcError {
    let words = panic.downcast_ref::<&str>().copied();
    let words = words
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    let incident = random::hex::<8>();
    tracing::error!(incident, "a handler panicked: {words}");
    if !tracing::enabled!(tracing::Level::ERROR) {
        // No log is written, but the client is told the number, and the operator must be able to find it.
        let _ = writeln!(
            io::stderr(),
            "incident {incident}: a handler panicked: {words}"
        );
    }
    RpcError::internal(format!("internal error, incident {incident}"))
}
