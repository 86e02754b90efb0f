//! [`Handle`]: a running server.

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
    tool::{Alone, AnyTool},
};

/// A running server, made by [`Server::start`](crate::Server::start). It serves transports, changes what the server offers, announces
/// changes, and gives clients for tests.
///
/// ```
/// # use lmcp::{Cx, NoArgs, Server, Tool};
/// # async fn hello(_: NoArgs, _: Cx) -> &'static str { "hello" }
/// # fn main() -> Result<(), lmcp::Error> {
/// let server = Server::new("greeter", "1.0.0").start()?;
/// server.add_tool(Tool::new("hello", hello).about("Say hello.").read_only())?; // clients that listen hear of it
/// assert_eq!(server.tool_names(), ["hello"]);
/// assert!(server.remove_tool("hello"));
/// # Ok(())
/// # }
/// ```
///
/// A handle is cheap to clone. The server closes when the last clone is dropped: subscriptions end, and tasks are stopped. The
/// handle that [`Cx::server`](crate::Cx::server) gives to a handler does not keep the server open.
#[derive(Clone)]
pub struct Handle {
    pub(crate) engine: Arc<Engine>,
    /// `None` in handles that handlers hold: these do not keep a server open.
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

    /// Serves until the transport ends. Several transports can be served at once:
    ///
    /// ```no_run
    /// # async fn run(server: lmcp::Handle) -> Result<(), lmcp::Error> {
    /// let http = lmcp::http::bind("127.0.0.1:8080").await?;
    /// tokio::select! {
    ///     end = server.serve(lmcp::stdio()) => end,
    ///     end = server.serve(http) => end,
    /// }
    /// # }
    /// ```
    ///
    /// This program ends with its standard input. With `tokio::try_join!` it would go on until HTTP ends, too, and a client that started
    /// the program would leave it behind.
    ///
    /// # Errors
    /// The transport failed.
    pub async fn serve(&self, transport: impl Transport) -> Result<(), Error> {
        self.endpoint().serve(transport).await
    }

    /// The server as transports see it. Most programs need [`serve`](Self::serve) only.
    pub fn endpoint(&self) -> Endpoint {
        Endpoint::at(Arc::new(self.clone()), Arc::clone(&self.engine.premises))
    }

    /// Whether no task and no shielded step runs. Calls in flight are known to their transports.
    pub fn is_idle(&self) -> bool {
        self.engine.spawned.is_empty()
    }

    /// A client in the same process, without I/O, for tests.
    ///
    /// The client speaks the newest revision. `upstream::in_process` of the feature `client` speaks all of them.
    pub fn client(&self) -> Client {
        self.endpoint().client()
    }

    /// The limits of this server.
    pub fn limits(&self) -> &Limits {
        &self.engine.limits
    }

    /// The memory that callers of this server share.
    pub fn budget(&self) -> &Budget {
        &self.engine.budget
    }

    /// The key that signs the ids of this server's sessions, for transports.
    #[doc(hidden)]
    pub fn session_key(&self) -> &SessionKey {
        &self.engine.premises.session_key
    }

    /// Adds a tool, and tells the clients that listen. Others may use the old list for as long as
    /// [`Server::cache_lists`](crate::Server::cache_lists) allows.
    ///
    /// # Errors
    /// The tool breaks a rule, or the server has a tool of that name. Nothing changes then.
    pub fn add_tool(&self, tool: impl Alone) -> Result<(), Error> {
        self.add(Parts {
            tools: vec![AnyTool::new(tool.alone(), &Arc::new(()))],
            ..Parts::default()
        })
    }

    /// Adds tools, resources and prompts that share a value: all of them, or none.
    ///
    /// # Errors
    /// One of them breaks a rule. Nothing changes then.
    pub fn add_tools<S>(&self, set: ToolSet<S>) -> Result<(), Error> {
        self.add(set.parts)
    }

    /// Adds a resource, and tells the clients that listen.
    ///
    /// # Errors
    /// The resource breaks a rule, or the server has one at that URI. Nothing changes then.
    pub fn add_resource(&self, resource: Resource) -> Result<(), Error> {
        self.add(Parts {
            resources: vec![AnyResource::new(resource, &Arc::new(()))],
            ..Parts::default()
        })
    }

    /// Adds a resource, or replaces the one at its URI, and announces that it has new contents: for a resource that a program makes
    /// when it is first written, and announces when it is written again.
    ///
    /// Clients hear that the list has changed only if the resource is new or looks different there. For a template, nothing is
    /// announced besides the list: announce each URI that has changed with [`resource_updated`](Self::resource_updated).
    ///
    /// ```
    /// # use lmcp::{Resource, Server};
    /// # fn main() -> Result<(), lmcp::Error> {
    /// let server = Server::new("notes", "1.0.0").start()?;
    /// server.set_resource(Resource::text("note://plan", "plan", "Sow."))?; // the list has changed
    /// server.set_resource(Resource::text("note://plan", "plan", "Sow, then wait."))?; // the contents have changed
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The resource breaks a rule. Nothing changes then.
    pub fn set_resource(&self, resource: Resource) -> Result<(), Error> {
        let resource = AnyResource::new(resource, &Arc::new(()));
        let plain = resource
            .template
            .is_none()
            .then(|| resource.spec.uri.clone());
        self.engine
            .change(|catalog| catalog.set_resource(resource))?;
        if let Some(uri) = plain {
            self.resource_updated(&uri);
        }
        Ok(())
    }

    /// Adds a prompt, and tells the clients that listen.
    ///
    /// # Errors
    /// The prompt breaks a rule, or the server has one of that name. Nothing changes then.
    pub fn add_prompt(&self, prompt: Prompt) -> Result<(), Error> {
        self.add(Parts {
            prompts: vec![AnyPrompt::new(prompt, &Arc::new(()))],
            ..Parts::default()
        })
    }

    /// Removes a tool, and tells the clients that listen. `false`: there was no such tool.
    pub fn remove_tool(&self, name: &str) -> bool {
        self.remove(|catalog| catalog.remove_tool(name))
    }

    /// Removes a resource or a template, by its URI. `false`: there was none.
    pub fn remove_resource(&self, uri: &str) -> bool {
        self.remove(|catalog| catalog.remove_resource(uri))
    }

    /// Removes a prompt. `false`: there was no such prompt.
    pub fn remove_prompt(&self, name: &str) -> bool {
        self.remove(|catalog| catalog.remove_prompt(name))
    }

    /// Whether the server has a tool of this name.
    pub fn has_tool(&self, name: &str) -> bool {
        self.engine.catalog().tools.get(name).is_some()
    }

    /// The names of all tools, in alphabetical order.
    pub fn tool_names(&self) -> Vec<String> {
        self.engine.catalog().tools.keys().map(Into::into).collect()
    }

    /// Announces that a resource has new contents, to the clients that watch it or a resource above it.
    ///
    /// Every client that watches this URI is told, whoever calls. Where each user has contents of their own at the same URI, tell that
    /// user alone, with [`to`](Self::to), or give each user a URI.
    ///
    /// ```
    /// # fn run(server: lmcp::Handle) {
    /// server.resource_updated("note://garden");
    /// # }
    /// ```
    pub fn resource_updated(&self, uri: &str) {
        self.engine.listeners.resource_updated(uri);
    }

    /// Announces changes to some clients only: to a caller by its name, to a role, or to a child process.
    ///
    /// ```
    /// # use lmcp::{Audience, Cx, NoArgs, Server};
    /// async fn add(_: NoArgs, cx: Cx) -> &'static str {
    ///     // Each user has a list of their own at this URI: only the user who calls is told.
    ///     if let Some(user) = cx.principal() {
    ///         cx.server().to(Audience::Principal(user)).resource_updated("todo://list");
    ///     }
    ///     "added"
    /// }
    /// ```
    pub fn to<'a>(&'a self, audience: Audience<'a>) -> Telling<'a> {
        Telling::new(&self.engine, audience)
    }

    /// Ends subscriptions and tasks. Calls go on: transports end by their own signals, such as `until` of HTTP, and give their calls a
    /// moment to end.
    ///
    /// A service that is mounted in an axum application needs this call before a graceful shutdown: an open subscription would keep its
    /// connection, and the application, open. The application still waits for running calls, for as long as [`Limits::deadline`] allows.
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
