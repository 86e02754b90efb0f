//! [`Endpoint`]: a service with what transports need to serve it, and the one place where they call it.

use std::{
    fmt,
    sync::{Arc, atomic::Ordering},
};

use lmcp_wire::RpcError;

use crate::{
    budget::Budget,
    era::Encoder,
    error::Error,
    limits::Limits,
    messages::Messages,
    premises::{Premises, Terms},
    request::Request,
    service::Service,
    session::SessionKey,
    transport::{LocalPeer, Peer},
};

/// Somewhere a service can be reached.
pub trait Transport: Send {
    /// Serves until the transport ends. [`Endpoint::serve`] calls it.
    fn serve(self, endpoint: Endpoint) -> impl Future<Output = Result<(), Error>> + Send;
}

/// Any [`Service`], with what transports need to serve it: bounds, memory, the key of its sessions, who may connect.
///
/// A [`Handle`](crate::Handle) makes its own. Cheap to clone.
#[derive(Clone)]
pub struct Endpoint {
    service: Arc<dyn Service>,
    premises: Arc<Premises>,
}

impl Endpoint {
    /// A service with the default bounds, and a key that every start makes anew.
    pub fn new(service: impl Service) -> Self {
        Self::on_terms(service, Terms::default())
    }

    /// A service with other bounds, a key that is kept, or checks of who connects.
    pub fn on_terms(service: impl Service, terms: Terms) -> Self {
        Self::at(Arc::new(service), Arc::new(Premises::new(terms)))
    }

    pub(crate) fn at(service: Arc<dyn Service>, premises: Arc<Premises>) -> Self {
        Self { service, premises }
    }

    /// Serves until the transport ends. Several transports can be served at once, from clones.
    ///
    /// # Errors
    /// The transport failed.
    pub async fn serve(&self, transport: impl Transport) -> Result<(), Error> {
        self.premises.serving.fetch_add(1, Ordering::AcqRel);
        let served = Serving(&self.premises);
        let result = transport.serve(self.clone()).await;
        drop(served);
        result
    }

    /// Starts to answer a request. The messages are in the revision of the request, and its client can read every one.
    pub fn start(&self, mut request: Request) -> Messages {
        let encoder = Encoder::new(&mut request, &self.premises.budget);
        if request.session().is_some() {
            request.premises = Some(Arc::clone(&self.premises));
        }
        Messages::new(self.service.call(request), encoder)
    }

    /// A transport that stops says so while its connections still can be written to: if it is the last one, the service
    /// closes.
    pub fn transport_stops(&self) {
        if self.premises.serving.load(Ordering::Acquire) <= 1 {
            self.service.close();
        }
    }

    /// Does nothing go on but what transports know of?
    pub fn is_idle(&self) -> bool {
        self.service.is_idle()
    }

    /// The bounds.
    pub fn limits(&self) -> &Limits {
        &self.premises.limits
    }

    /// The memory that callers share.
    pub fn budget(&self) -> &Budget {
        &self.premises.budget
    }

    /// Signs the ids of sessions.
    pub fn session_key(&self) -> &SessionKey {
        &self.premises.session_key
    }

    /// How many questions wait for an answer: of this owner, and of all.
    pub fn waiting_questions(&self, owner: &str) -> (usize, usize) {
        let questions = &self.premises.questions;
        (questions.account(owner).used(), questions.used())
    }

    /// May this process connect?
    pub(crate) fn admits(&self, peer: &Peer) -> Result<(), RpcError> {
        self.premises.admits(peer)
    }

    /// Is anything asked about TCP connections from this machine?
    pub fn checks_local_peers(&self) -> bool {
        self.premises.checks_local_peers()
    }

    /// May this peer connect over TCP?
    ///
    /// # Errors
    /// It may not. An internal error: that cannot be told now.
    pub async fn admits_local(&self, peer: LocalPeer) -> Result<(), RpcError> {
        self.premises.admits_local(peer).await
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").finish_non_exhaustive()
    }
}

/// Counts a transport for as long as it serves.
struct Serving<'a>(&'a Premises);

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        self.0.serving.fetch_sub(1, Ordering::AcqRel);
    }
}
