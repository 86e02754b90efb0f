//! The seam: a request goes in, a stream of replies comes out, and dropping the stream stops the work.
//!
//! Transports are on one side; a [`Handle`](crate::Handle), a hub or a test is on the other. Nothing else passes between them.
//! Requests and replies are free of revisions: [`Endpoint::start`](crate::Endpoint::start) writes them for the client.

use std::{
    fmt,
    future::{poll_fn, ready},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use lmcp_wire::RpcError;

use crate::{outcome::Outcome, reply::Reply, request::Request};

/// A service answers requests. An [`Endpoint`](crate::Endpoint) serves it on any transport, to clients of every revision:
///
/// ```
/// use lmcp::{Endpoint, Payload, Replies, Request, Service};
/// use lmcp::wire::{CallToolResult, Content, RpcError, discover::CacheHint};
///
/// struct Greeter;
///
/// impl Service for Greeter {
///     fn call(&self, request: Request) -> Replies {
///         match request.method() {
///             "server/discover" | "initialize" => Replies::done(Payload::Discover(Box::default(), CacheHint::private(0))),
///             "tools/call" => Replies::done(CallToolResult::new(vec![Content::text("hello")])),
///             method => Replies::error(RpcError::method_not_found(method)),
///         }
///     }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let client = Endpoint::new(Greeter).client();
/// let result = client.call_tool("hello", serde_json::json!({})).await.unwrap();
/// assert_eq!(result.content[0].as_text(), Some("hello"));
/// # });
/// ```
pub trait Service: Send + Sync + 'static {
    /// Starts to answer. Returns at once: the work is done as the replies are polled.
    fn call(&self, request: Request) -> Replies;

    /// Called when the last transport stops: ends everything that would never end by itself, such as subscriptions, while
    /// connections can still be written to.
    fn close(&self) {}

    /// Disconnects from the remote server that the service stands for, and waits until that is done.
    fn hang_up(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(ready(()))
    }

    /// Asks the remote server that the service stands for whether it answers.
    fn ping(&self) -> Pin<Box<dyn Future<Output = Result<(), RpcError>> + Send + '_>> {
        Box::pin(ready(Ok(())))
    }

    /// Whether no work goes on besides the requests of transports.
    fn is_idle(&self) -> bool {
        true
    }
}

impl<S: Service + ?Sized> Service for Arc<S> {
    fn call(&self, request: Request) -> Replies {
        (**self).call(request)
    }

    fn close(&self) {
        (**self).close();
    }

    fn hang_up(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        (**self).hang_up()
    }

    fn ping(&self) -> Pin<Box<dyn Future<Output = Result<(), RpcError>> + Send + '_>> {
        (**self).ping()
    }

    fn is_idle(&self) -> bool {
        (**self).is_idle()
    }
}

/// The answer to one request: progress and log messages, then [`Reply::Done`].
///
/// The holder of the replies drives the work by taking them. Dropping them stops the work at its next `.await`.
///
/// ```
/// use lmcp::{Ended, Replies, RpcError, Server};
///
/// let server = Server::new("careful", "1.0.0").layer(|request, next| {
///     if request.method() == "prompts/get" {
///         return Replies::error(RpcError::invalid_request("no prompts today"));
///     }
///     next.call(request).on_end(|ended| eprintln!("ok: {}", matches!(ended, Ended::Done(_))))
/// });
/// ```
pub struct Replies(Inner);

enum Inner {
    Ready(Option<Reply>),
    Source(Box<dyn Source>),
}

/// A source of replies, for services that are not a future.
pub trait Source: Send {
    /// The next reply; `None` after [`Reply::Done`].
    fn poll_reply(&mut self, cx: &mut Context<'_>) -> Poll<Option<Reply>>;

    /// Whether the work changes nothing, so that it may be stopped after its first turn as if it had never begun.
    fn is_harmless(&self) -> bool {
        false
    }

    /// Polls the deadline while nobody can take a reply. Work whose time is over ends, and this becomes ready.
    fn poll_deadline(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

impl Replies {
    /// Answers at once, with this result.
    pub fn done(outcome: impl Into<Outcome>) -> Self {
        Self(Inner::Ready(Some(Reply::Done(Ok(outcome.into())))))
    }

    /// Answers at once, with this error.
    pub fn error(error: RpcError) -> Self {
        Self(Inner::Ready(Some(Reply::Done(Err(error)))))
    }

    /// Makes replies of this one, which must be the last.
    pub(crate) fn ready(done: Reply) -> Self {
        Self(Inner::Ready(Some(done)))
    }

    /// Makes replies of a source, which is polled for each of them.
    pub fn from_source(source: impl Source + 'static) -> Self {
        Self(Inner::Source(Box::new(source)))
    }

    /// Makes replies that a future returns, where a service must wait before it can answer, such as for an authorisation.
    pub fn later(future: impl Future<Output = Self> + Send + 'static) -> Self {
        Self::from_source(Later {
            state: Waited::Waiting(Box::pin(future)),
            harmless: false,
        })
    }

    /// Does the same for work that changes nothing, or only what can be changed back.
    pub(crate) fn later_harmless(future: impl Future<Output = Self> + Send + 'static) -> Self {
        Self::from_source(Later {
            state: Waited::Waiting(Box::pin(future)),
            harmless: true,
        })
    }

    /// The next reply; `None` after the end.
    pub async fn next(&mut self) -> Option<Reply> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// As [`Replies::next`], for hand-written futures.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Reply>> {
        match &mut self.0 {
            Inner::Ready(reply) => Poll::Ready(reply.take()),
            Inner::Source(source) => source.poll_reply(cx),
        }
    }

    /// Whether the work changes nothing, so that it may be stopped after its first turn as if it had never begun.
    #[doc(hidden)]
    pub fn is_harmless(&self) -> bool {
        match &self.0 {
            Inner::Ready(_) => true,
            Inner::Source(source) => source.is_harmless(),
        }
    }

    /// Polls the deadline while nobody can take a reply. Work whose time is over ends, and this becomes ready.
    #[doc(hidden)]
    pub fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.0 {
            Inner::Source(source) => source.poll_deadline(cx),
            Inner::Ready(_) => Poll::Pending,
        }
    }

    /// The end of the replies, if it is there already and nothing comes before it.
    #[doc(hidden)]
    pub fn take_ready(&mut self) -> Option<Reply> {
        match &mut self.0 {
            Inner::Ready(reply) => reply.take(),
            Inner::Source(_) => None,
        }
    }

    /// The end of the replies, without those before it. `None`: there was no end.
    pub async fn response(mut self) -> Option<Result<Outcome, RpcError>> {
        loop {
            match self.next().await {
                Some(Reply::Done(result)) => return Some(result),
                Some(_) => {}
                None => return None,
            }
        }
    }
}

impl fmt::Debug for Replies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Replies")
    }
}

struct Later {
    state: Waited,
    harmless: bool,
}

enum Waited {
    Waiting(Pin<Box<dyn Future<Output = Replies> + Send>>),
    Running(Replies),
}

impl Source for Later {
    fn poll_reply(&mut self, cx: &mut Context<'_>) -> Poll<Option<Reply>> {
        loop {
            match &mut self.state {
                Waited::Waiting(future) => match future.as_mut().poll(cx) {
                    Poll::Ready(replies) => self.state = Waited::Running(replies),
                    Poll::Pending => return Poll::Pending,
                },
                Waited::Running(replies) => return replies.poll_next(cx),
            }
        }
    }

    fn is_harmless(&self) -> bool {
        self.harmless
    }

    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.state {
            Waited::Running(replies) => replies.poll_deadline(cx),
            Waited::Waiting(_) => Poll::Pending,
        }
    }
}
