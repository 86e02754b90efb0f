//! [`Endpoint`]: a service, and everything that transports need to serve it. [`Endpoint::start`] is the only place where a
//! request is given to the service and its replies are given to the encoder. They come out as [`Messages`].

use std::{
    fmt,
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll, ready},
};

use lmcp_wire::RpcError;

use crate::{
    budget::Budget,
    era::Encoder,
    error::Error,
    limits::Limits,
    message::Message,
    peer::{LocalPeer, Peer},
    premises::{Premises, Terms},
    reply::Reply,
    request::Request,
    service::{Replies, Service},
    serving::{Served, Serving},
    session::SessionKey,
    span,
};

/// A transport that a service can be served on: stdio, HTTP, a unix socket, or a pair of streams.
pub trait Transport: Send {
    /// Serves until the transport ends. [`Endpoint::serve`] calls it.
    fn serve(self, endpoint: Endpoint) -> impl Future<Output = Result<(), Error>> + Send;
}

/// Any [`Service`], with everything that transports need to serve it: limits, memory, the key of its sessions, and the checks
/// of who connects.
///
/// A [`Handle`](crate::Handle) makes its own. Cheap to clone.
#[derive(Clone)]
pub struct Endpoint {
    service: Arc<dyn Service>,
    premises: Arc<Premises>,
    /// The transport that serves it, which this was given to.
    serving: Option<Arc<Serving>>,
}

impl Endpoint {
    /// Makes an endpoint with default limits, and a key that is new at every start.
    pub fn new(service: impl Service) -> Self {
        Self::on_terms(service, Terms::default())
    }

    /// Makes an endpoint with other limits, a key that is kept, or checks of who connects.
    pub fn on_terms(service: impl Service, terms: Terms) -> Self {
        Self::at(Arc::new(service), Arc::new(Premises::new(terms)))
    }

    pub(crate) fn at(service: Arc<dyn Service>, premises: Arc<Premises>) -> Self {
        Self {
            service,
            premises,
            serving: None,
        }
    }

    /// Makes an endpoint for another service, with the same limits, memory and checks.
    #[must_use]
    pub fn beside(&self, service: impl Service) -> Self {
        Self::at(Arc::new(service), Arc::clone(&self.premises))
    }

    /// Serves until the transport ends. Several transports can be served at once, from clones.
    ///
    /// # Errors
    /// The transport failed.
    pub async fn serve(&self, transport: impl Transport) -> Result<(), Error> {
        let served = Served::begin(&self.premises.transports, &self.service);
        let endpoint = Self {
            serving: Some(Arc::clone(served.serving())),
            ..self.clone()
        };
        transport.serve(endpoint).await
    }

    /// Starts to answer a request. The messages are in the revision of the request, and its client can read every one.
    pub fn start(&self, mut request: Request) -> Messages {
        let encoder = Encoder::new(&mut request, &self.premises.budget);
        request.premises = Some(Arc::clone(&self.premises));
        Messages::new(span::call(&*self.service, request), encoder)
    }

    /// Reads a long message ([`is_long`](crate::is_long)) on another thread than the one that all callers share. A few messages are read at
    /// once; the others wait.
    ///
    /// # Errors
    /// Reading it panicked, or everything closes.
    pub async fn read_long<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, RpcError> {
        self.premises.read_long(read).await
    }

    /// Disconnects from the remote server that the service stands for, and waits until that is done.
    pub async fn hang_up(&self) {
        self.service.hang_up().await;
    }

    /// Checks that the remote server that the service stands for answers.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn ping(&self) -> Result<(), RpcError> {
        self.service.ping().await
    }

    /// Tells the service that a transport stops, while its connections can still be written to. If the transport is the last
    /// one, the service closes.
    #[doc(hidden)]
    pub fn transport_stops(&self) {
        if let Some(serving) = &self.serving {
            serving.stop();
        }
    }

    /// Whether no work goes on besides the requests of transports.
    pub fn is_idle(&self) -> bool {
        self.service.is_idle()
    }

    /// The limits of the endpoint.
    pub fn limits(&self) -> &Limits {
        &self.premises.limits
    }

    /// The memory that callers share.
    pub fn budget(&self) -> &Budget {
        &self.premises.budget
    }

    /// The key that signs the ids of sessions.
    #[doc(hidden)]
    pub fn session_key(&self) -> &SessionKey {
        &self.premises.session_key
    }

    /// Returns how many questions wait for an answer: those of this owner, and all.
    #[doc(hidden)]
    pub fn waiting_questions(&self, payer: &str) -> (usize, usize) {
        let questions = &self.premises.questions;
        match questions.used() {
            // The common case: hardly any client is ever asked.
            0 => (0, 0),
            all => (questions.account(payer).used(), all),
        }
    }

    /// Checks whether this process may connect.
    pub(crate) fn admits(&self, peer: &Peer) -> Result<(), RpcError> {
        self.premises.admits(peer)
    }

    /// Whether TCP connections from this machine are checked.
    #[doc(hidden)]
    pub fn checks_local_peers(&self) -> bool {
        self.premises.checks_local_peers()
    }

    /// Checks whether this peer may connect over TCP.
    ///
    /// # Errors
    /// The peer may not connect. An internal error means that this cannot be decided now.
    #[doc(hidden)]
    pub async fn admits_local(&self, peer: LocalPeer) -> Result<(), RpcError> {
        self.premises.admits_local(peer).await
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").finish_non_exhaustive()
    }
}

/// The answer to one request, encoded: any number of notifications and questions, then one response. The work goes on while the next
/// message is awaited. Dropping this value stops the work at its next `.await`.
pub struct Messages(Inner);

#[expect(
    clippy::large_enum_variant,
    reason = "a box would be one more allocation for every call that is not answered at once"
)]
enum Inner {
    /// Only the response, or nothing.
    Ready(Option<Message>),
    Unfinished(Unfinished),
}

/// Work that has not ended, or that sends more than its response.
struct Unfinished {
    /// A message that was put back.
    next: Option<Message>,
    replies: Replies,
    encoder: Encoder,
    /// The response was handed out: nothing may follow it.
    ended: bool,
}

impl Messages {
    /// Makes an answer that consists of this response.
    pub fn ready(message: Message) -> Self {
        Self(Inner::Ready(Some(message)))
    }

    /// Encodes the replies of a service.
    fn new(mut replies: Replies, mut encoder: Encoder) -> Self {
        let done = replies.take_ready();
        let next = done.and_then(|done| encoder.encode(done));
        match next {
            Some(response) if response.is_response() => Self::ready(response),
            next => Self(Inner::Unfinished(Unfinished {
                next,
                replies,
                encoder,
                ended: false,
            })),
        }
    }

    /// The next message; `None` after the response.
    pub async fn next(&mut self) -> Option<Message> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// As [`Messages::next`], for hand-written futures.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        match &mut self.0 {
            Inner::Ready(message) => Poll::Ready(message.take()),
            Inner::Unfinished(running) => running.poll(cx),
        }
    }

    /// Whether the work changes nothing, so that it may be stopped after its first turn as if it had never begun.
    #[doc(hidden)]
    pub fn is_harmless(&self) -> bool {
        match &self.0 {
            Inner::Ready(_) => true,
            Inner::Unfinished(running) => running.replies.is_harmless(),
        }
    }

    /// Waits for another future, such as room for a message, while the deadline of the work goes on.
    #[doc(hidden)]
    pub async fn hold<T>(&mut self, other: impl Future<Output = T>) -> T {
        let mut other = std::pin::pin!(other);
        poll_fn(|cx| {
            let done = other.as_mut().poll(cx);
            if done.is_pending() {
                let _ = self.poll_deadline(cx);
            }
            done
        })
        .await
    }

    /// Waits until the deadline of the work is over; for ever, if the work has ended.
    #[doc(hidden)]
    pub async fn expired(&mut self) {
        poll_fn(|cx| self.poll_deadline(cx)).await;
    }

    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.0 {
            Inner::Unfinished(running) => running.replies.poll_deadline(cx),
            Inner::Ready(_) => Poll::Pending,
        }
    }

    /// The response, if the first turn of the work brings it and no other message comes before.
    pub(crate) fn at_once(&mut self, cx: &mut Context<'_>) -> Option<Message> {
        match self.poll_next(cx) {
            Poll::Ready(Some(message)) if message.is_response() => Some(message),
            Poll::Ready(Some(message)) => {
                self.put_back(message);
                None
            }
            Poll::Ready(None) | Poll::Pending => None,
        }
    }

    /// Puts a message back, so that it comes again next.
    #[doc(hidden)]
    pub fn put_back(&mut self, message: Message) {
        match &mut self.0 {
            Inner::Ready(next) | Inner::Unfinished(Unfinished { next, .. }) => {
                *next = Some(message)
            }
        }
    }

    /// Takes the response, if it is there already.
    #[doc(hidden)]
    pub fn take_ready(&mut self) -> Option<Message> {
        match &mut self.0 {
            Inner::Ready(message) => message.take(),
            Inner::Unfinished(_) => None,
        }
    }

    /// The response, without what comes before it.
    pub async fn response(mut self) -> Option<Message> {
        loop {
            match self.next().await {
                Some(message) if message.is_response() => return Some(message),
                Some(_) => {}
                None => return None,
            }
        }
    }
}

impl Unfinished {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        let next = self.next.take().or_else(|| self.encoder.held());
        let message = match next {
            Some(message) => message,
            None if self.ended => return Poll::Ready(None),
            None => ready!(self.poll_replies(cx)),
        };
        self.ended |= message.is_response();
        Poll::Ready(Some(message))
    }

    fn poll_replies(&mut self, cx: &mut Context<'_>) -> Poll<Message> {
        loop {
            let reply = ready!(self.replies.poll_next(cx)).unwrap_or_else(|| {
                // A request gets one response, whatever a service does.
                Reply::Done(Err(RpcError::internal("the service gave no answer")))
            });
            // A reply that this client cannot be sent is left out.
            if let Some(message) = self.encoder.encode(reply) {
                return Poll::Ready(message);
            }
        }
    }
}

impl fmt::Debug for Messages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Messages")
    }
}
