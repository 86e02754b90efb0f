//! [`Handle`]: a server that runs.

use std::sync::Arc;

use super::{
    Engine,
    catalog::{Catalog, Lists},
};
use crate::{
    budget::Budget,
    client::Client,
    endpoint::{Endpoint, Transport},
    error::Error,
    limits::Limits,
    prompt::{AnyPrompt, Prompt},
    resource::{AnyResource, Resource},
    session::SessionKey,
    set::{Parts, ToolSet},
    subscribe::{Audience, Telling},
    tool::{AnyTool, Effect, Tool},
};

/// A running server: serve it on transports, change what it offers, say what changed, test it.
///
/// Cheap to clone. When the last clone made from [`Server::start`](crate::Server::start) goes, the server closes:
/// subscriptions end and tasks are stopped.
#[derive(Clone)]
pub struct Handle {
    pub(crate) engine: Arc<Engine>,
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
        self.endpoint().serve(transport).await
    }

    /// This server, as transports see it.
    pub fn endpoint(&self) -> Endpoint {
        Endpoint::at(Arc::new(self.clone()), Arc::clone(&self.engine.premises))
    }

    /// Does nothing go on but what transports know of: no task, no shielded step?
    pub fn is_idle(&self) -> bool {
        self.engine.spawned.is_empty()
    }

    /// A client in the same process, for tests.
    pub fn client(&self) -> Client {
        self.endpoint().client()
    }

    /// The bounds of this server.
    pub fn limits(&self) -> &Limits {
        &self.engine.limits
    }

    /// The memory that callers of this server share.
    pub fn budget(&self) -> &Budget {
        &self.engine.budget
    }

    /// Signs the ids of this server's sessions.
    pub fn session_key(&self) -> &SessionKey {
        &self.engine.premises.session_key
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
        self.remove(|catalog| catalog.remove_tool(name))
    }

    /// Removes a resource or template. `false`: there was none.
    pub fn remove_resource(&self, uri: &str) -> bool {
        self.remove(|catalog| catalog.remove_resource(uri))
    }

    /// Removes a prompt. `false`: there was none.
    pub fn remove_prompt(&self, name: &str) -> bool {
        self.remove(|catalog| catalog.remove_prompt(name))
    }

    /// Is there a tool of this name? For tools that send their callers to another one, which a program may have removed.
    pub fn has_tool(&self, name: &str) -> bool {
        self.engine.catalog().tools.get(name).is_some()
    }

    /// The names of the tools, in order.
    pub fn tool_names(&self) -> Vec<String> {
        self.engine.catalog().tools.keys().map(Into::into).collect()
    }

    /// Tells who watches a resource, or one above it, that it has new contents.
    pub fn resource_updated(&self, uri: &str) {
        self.engine.listeners.resource_updated(uri);
    }

    /// The same, and more, told to some of those who listen alone.
    ///
    /// ```
    /// # use lmcp_core::{Audience, Server};
    /// # fn demo() -> Result<(), lmcp_core::Error> {
    /// # let server = Server::new("mail", "1.0.0").start()?;
    /// server.to(Audience::Role("lead")).resource_updated("inbox://leads");
    /// # Ok(())
    /// # }
    /// ```
    pub fn to<'a>(&'a self, audience: Audience<'a>) -> Telling<'a> {
        Telling::new(&self.engine, audience)
    }

    /// Ends subscriptions and tasks. Transports end by their own signals.
    pub fn close(&self) {
        self.engine.close();
    }

    fn add(&self, parts: Parts) -> Result<(), Error> {
        self.engine.change(|catalog| catalog.add(parts))
    }

    fn remove(&self, remove: impl FnOnce(&mut Catalog) -> Option<Lists>) -> bool {
        let absent = || Error::config("there is no such thing");
        self.engine
            .change(|catalog| remove(catalog).ok_or_else(absent))
            .is_ok()
    }
}

impl From<Handle> for Endpoint {
    fn from(server: Handle) -> Self {
        server.endpoint()
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Handle")
            .field(&self.engine.server_info)
            .finish()
    }
}
