//! [`Handle`]: a server that runs.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll},
};

use lmcp_wire::{RequestId, RpcError};

use super::{
    Engine,
    catalog::{Catalog, Lists},
};
use crate::{
    budget::Budget,
    call::incident,
    client::Client,
    error::Error,
    layer::Next,
    limits::Limits,
    prompt::{AnyPrompt, Prompt},
    request::Request,
    resource::{AnyResource, Resource},
    service::{Replies, Reply, Service, Source},
    session::SessionKey,
    set::{Parts, ToolSet},
    tool::{AnyTool, Effect, Tool},
    transport::{LocalPeer, Peer, Transport},
};

/// A running server: serve it on transports, change what it offers, say what changed, test it.
///
/// Cheap to clone. When the last clone made from [`Server::start`](crate::Server::start) goes, the server closes:
/// subscriptions end and tasks are stopped.
#[derive(Clone)]
pub struct Handle {
    engine: Arc<Engine>,
    /// Absent in handles that handlers hold: those do not keep a server open.
    _owner: Option<Arc<Owner>>,
}

struct Owner(Arc<Engine>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.close();
        self.0.spawned.abort();
    }
}

/// Counts a transport for as long as it serves.
struct Serving<'a>(&'a Engine);

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        self.0.serving.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Handle {
    pub(crate) fn own(engine: Engine) -> Self {
        let engine = Arc::new(engine);
        Self {
            _owner: Some(Arc::new(Owner(Arc::clone(&engine)))),
            engine,
        }
    }

    pub(crate) fn of(engine: &Arc<Engine>) -> Self {
        Self {
            engine: Arc::clone(engine),
            _owner: None,
        }
    }

    /// Serves until the transport ends. Several transports can be served at once, from clones.
    ///
    /// # Errors
    /// The transport failed.
    pub async fn serve(&self, transport: impl Transport) -> Result<(), Error> {
        self.engine.serving.fetch_add(1, Ordering::AcqRel);
        let served = Serving(&self.engine);
        let result = transport.serve(self.clone()).await;
        drop(served);
        result
    }

    /// A transport that stops says so while its connections still can be written to: if it is the last one, subscriptions
    /// end with their result, and tasks are stopped.
    pub fn transport_stops(&self) {
        if self.engine.serving.load(Ordering::Acquire) <= 1 {
            self.close();
        }
    }

    /// Does nothing go on but what transports know of: no task, no shielded step?
    pub fn is_idle(&self) -> bool {
        self.engine.spawned.is_empty()
    }

    /// A client in the same process, for tests.
    pub fn client(&self) -> Client {
        Client::new(self.clone())
    }

    /// The bounds of this server.
    pub fn limits(&self) -> &Limits {
        &self.engine.limits
    }

    /// May this process connect?
    pub(crate) fn admits(&self, peer: &Peer) -> Result<(), RpcError> {
        let mut checks = self.engine.peer_checks.iter();
        checks.try_for_each(|check| check(peer))
    }

    /// Is anything asked about TCP connections from this machine?
    pub fn checks_local_peers(&self) -> bool {
        !self.engine.local_peer_checks.is_empty()
    }

    /// May this peer connect over TCP?
    ///
    /// # Errors
    /// It may not. An internal error: that cannot be told now.
    pub async fn admits_local(&self, peer: LocalPeer) -> Result<(), RpcError> {
        for check in &self.engine.local_peer_checks {
            check(peer).await?;
        }
        Ok(())
    }

    /// The memory that callers of this server share.
    pub fn budget(&self) -> &Budget {
        &self.engine.budget
    }

    /// How many questions wait for an answer: of this owner, and of all.
    pub fn waiting_questions(&self, owner: &str) -> (usize, usize) {
        let questions = &self.engine.questions;
        (questions.account(owner).used(), questions.used())
    }

    /// Signs the ids of this server's sessions.
    pub fn session_key(&self) -> &SessionKey {
        &self.engine.session_key
    }

    /// Adds a tool, and tells who listens. Who does not may keep a list for as long as
    /// [`Server::cache_lists`](crate::Server::cache_lists) says.
    ///
    /// # Errors
    /// The tool is wrong, or there is one of its name. Nothing has changed then.
    pub fn add_tool<E: Effect>(&self, tool: Tool<(), E>) -> Result<(), Error> {
        self.add(Parts {
            tools: vec![AnyTool::new(tool, &Arc::new(()))],
            ..Parts::default()
        })
    }

    /// Adds tools, resources and prompts that share a value, all or none.
    ///
    /// # Errors
    /// One of them is wrong. Nothing has changed then.
    pub fn add_tools<S>(&self, set: ToolSet<S>) -> Result<(), Error> {
        self.add(set.parts)
    }

    /// Adds a resource, and tells who listens.
    ///
    /// # Errors
    /// The resource is wrong, or there is one of its URI. Nothing has changed then.
    pub fn add_resource(&self, resource: Resource) -> Result<(), Error> {
        self.add(Parts {
            resources: vec![AnyResource::new(resource, &Arc::new(()))],
            ..Parts::default()
        })
    }

    /// Adds a prompt, and tells who listens.
    ///
    /// # Errors
    /// The prompt is wrong, or there is one of its name. Nothing has changed then.
    pub fn add_prompt(&self, prompt: Prompt) -> Result<(), Error> {
        self.add(Parts {
            prompts: vec![AnyPrompt::new(prompt, &Arc::new(()))],
            ..Parts::default()
        })
    }

    /// Removes a tool. `false`: there was none.
    pub fn remove_tool(&self, name: &str) -> bool {
        self.remove(
            Lists {
                tools: true,
                ..Lists::default()
            },
            |catalog| catalog.tools.remove(name),
        )
    }

    /// Removes a resource or template. `false`: there was none.
    pub fn remove_resource(&self, uri: &str) -> bool {
        let list = Lists {
            resources: true,
            ..Lists::default()
        };
        self.remove(list, |catalog| {
            catalog.resources.remove(uri) || catalog.templates.remove(uri)
        })
    }

    /// Removes a prompt. `false`: there was none.
    pub fn remove_prompt(&self, name: &str) -> bool {
        self.remove(
            Lists {
                prompts: true,
                ..Lists::default()
            },
            |catalog| catalog.prompts.remove(name),
        )
    }

    /// The names of the tools, in order.
    pub fn tool_names(&self) -> Vec<String> {
        self.engine.catalog().tools.keys().map(Into::into).collect()
    }

    /// Tells who watches a resource, or one above it, that it has new contents.
    pub fn resource_updated(&self, uri: &str) {
        self.engine.listeners.resource_updated(uri);
    }

    /// Ends subscriptions and tasks. Transports end by their own signals.
    pub fn close(&self) {
        self.engine.close();
    }

    fn add(&self, parts: Parts) -> Result<(), Error> {
        self.engine.change(|catalog| catalog.add(parts))
    }

    fn remove(&self, list: Lists, remove: impl FnOnce(&mut Catalog) -> bool) -> bool {
        let absent = || Error::config("there is no such thing");
        self.engine
            .change(|catalog| remove(catalog).then_some(list).ok_or_else(absent))
            .is_ok()
    }
}

impl Service for Handle {
    fn call(&self, request: Request) -> Replies {
        if self.engine.layers.is_empty() {
            return self.engine.dispatch(request);
        }
        // Layers are somebody's code, as handlers are.
        let id = request.id().clone();
        let called = catch_unwind(AssertUnwindSafe(|| Next::new(&self.engine).call(request)));
        match called {
            Ok(replies) => Replies::from_source(Fenced {
                id,
                replies: Some(replies),
            }),
            Err(panic) => Replies::error(&id, &incident(&*panic)),
        }
    }
}

/// Replies that a layer may have made: a panic in them costs one answer.
struct Fenced {
    id: RequestId,
    /// `None` after the end.
    replies: Option<Replies>,
}

impl Source for Fenced {
    fn poll_reply(&mut self, cx: &mut Context<'_>) -> Poll<Option<Reply>> {
        let Some(replies) = &mut self.replies else {
            return Poll::Ready(None);
        };
        catch_unwind(AssertUnwindSafe(|| replies.poll_next(cx))).unwrap_or_else(|panic| {
            self.replies = None;
            Poll::Ready(Some(Reply::error(Some(&self.id), &incident(&*panic))))
        })
    }

    fn is_harmless(&self) -> bool {
        self.replies.as_ref().is_some_and(Replies::is_harmless)
    }

    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.replies {
            Some(replies) => replies.poll_deadline(cx),
            None => Poll::Pending,
        }
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Handle")
            .field(&self.engine.server_info)
            .finish()
    }
}
