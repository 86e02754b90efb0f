//! [`Server`]: what a server is and offers, said once.

use std::{
    any::Any,
    sync::{Arc, RwLock},
    time::Duration,
};

use lmcp_wire::{Icon, Implementation, RpcError, discover::CacheHint};

use super::{Engine, Handle, catalog::Catalog, engine::Instructions, visibility::Rule};
use crate::{
    caller::Caller,
    endpoint::Transport,
    era::FORMS,
    error::Error,
    layer::{Layer, Next},
    limits::Limits,
    premises::{Premises, Terms},
    present::{Presentation, Presentations},
    prompt::{AnyPrompt, Prompt},
    random,
    request::Request,
    resource::{AnyResource, Resource, millis},
    seal::Sealer,
    service::Replies,
    set::{Parts, ToolSet},
    spawn::Tasks,
    state::States,
    steps::Steps,
    subscribe::Listeners,
    task::TaskStore,
    tool::{AnyTool, Effect, Tool},
    transport::{CheckingLocalPeer, LocalPeer, Peer},
};

/// A server, described. [`Server::serve`] runs it on a transport; [`Server::start`] gives a [`Handle`] to run it on
/// several, to change it while it runs, or to test it.
///
/// ```
/// use lmcp_core::{Cx, NoArgs, Server, Tool};
///
/// # async fn demo() -> Result<(), lmcp_core::Error> {
/// async fn hello(_: NoArgs, _: Cx) -> &'static str {
///     "hello"
/// }
///
/// Server::new("greeter", "1.0.0")
///     .tool(Tool::new("hello", hello).about("Say hello.").read_only())
///     .serve(lmcp_core::stdio())
///     .await
/// # }
/// ```
#[must_use = "a server does nothing until it serves"]
pub struct Server {
    info: Implementation,
    instructions: Option<Instructions>,
    list_cache: CacheHint,
    layers: Vec<Layer>,
    visibility: Option<Rule>,
    presentations: Presentations,
    terms: Terms,
    state: States,
    parts: Parts,
}

impl Server {
    /// A server that offers nothing yet.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            info: Implementation::new(name, version),
            instructions: None,
            // Lists change rarely, and whoever listens hears of it.
            list_cache: CacheHint::private(60_000),
            layers: Vec::new(),
            visibility: None,
            presentations: Presentations::new(),
            terms: Terms::default(),
            state: States::default(),
            parts: Parts::default(),
        }
    }

    /// A name for people.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.info.title = Some(title.into());
        self
    }

    /// One sentence about it.
    pub fn about(mut self, description: impl Into<String>) -> Self {
        self.info.description = Some(description.into());
        self
    }

    /// Where to read more.
    pub fn website(mut self, url: impl Into<String>) -> Self {
        self.info.website_url = Some(url.into());
        self
    }

    /// A picture.
    pub fn icon(mut self, icon: Icon) -> Self {
        self.info.icons.push(icon);
        self
    }

    /// How to use it, for the model.
    pub fn instructions(self, instructions: impl Into<String>) -> Self {
        let instructions = instructions.into();
        self.instructions_for(move |_| instructions.clone())
    }

    /// How to use it, in other words for each caller: where it works, say. Asked in every handshake and discovery.
    pub fn instructions_for(
        mut self,
        tell: impl Fn(&Caller) -> String + Send + Sync + 'static,
    ) -> Self {
        self.instructions = Some(Box::new(tell));
        self
    }

    /// One more tool.
    pub fn tool<E: Effect>(mut self, tool: Tool<(), E>) -> Self {
        self.parts.tools.push(AnyTool::new(tool, &Arc::new(())));
        self
    }

    /// Tools, resources and prompts that share a value.
    pub fn tools<S>(mut self, set: ToolSet<S>) -> Self {
        self.parts.append(set.parts);
        self
    }

    /// One more resource.
    pub fn resource(mut self, resource: Resource) -> Self {
        self.parts
            .resources
            .push(AnyResource::new(resource, &Arc::new(())));
        self
    }

    /// One more prompt.
    pub fn prompt(mut self, prompt: Prompt) -> Self {
        self.parts
            .prompts
            .push(AnyPrompt::new(prompt, &Arc::new(())));
        self
    }

    /// A value that handlers find by its type, with [`Cx::state`](crate::Cx::state).
    pub fn state<T: Any + Send + Sync>(mut self, value: impl Into<Arc<T>>) -> Self {
        self.state.insert(value.into());
        self
    }

    /// A function around every request: it answers itself, or hands on. The first one added is the outermost.
    ///
    /// ```
    /// # use lmcp_core::{Replies, Server};
    /// # use lmcp_wire::RpcError;
    /// let server = Server::new("careful", "1.0.0").layer(|request, next| {
    ///     if request.caller().peer().is_some_and(|process| process.uid == 0) {
    ///         return Replies::error(RpcError::invalid_request("not for root"));
    ///     }
    ///     next.call(request)
    /// });
    /// ```
    pub fn layer(
        mut self,
        layer: impl Fn(Request, Next<'_>) -> Replies + Send + Sync + 'static,
    ) -> Self {
        self.layers.push(Arc::new(layer));
        self
    }

    /// Which tools each caller sees and can call, by name. To others they are not there. Asked on every list and call,
    /// so it should be quick. For one tool, [`Tool::only_for`] says the same.
    pub fn show_tools(
        mut self,
        may_see: impl Fn(&Caller, &str) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.visibility = Some(Arc::new(may_see));
        self
    }

    /// How results are presented to clients whose name begins with this. What a client says of itself decides nothing else.
    /// The ways of some are known without it: Claude Code and Codex, which show their model `structuredContent` alone where
    /// there is any, get results without it and tools without `outputSchema`.
    ///
    /// ```
    /// # use lmcp_core::{Presentation, Server};
    /// let server = Server::new("careful", "1.0.0").present("my-agent", Presentation::text(16 * 1024, 500));
    /// ```
    pub fn present(mut self, client: impl Into<Box<str>>, how: Presentation) -> Self {
        self.presentations.push((client.into(), how));
        self
    }

    /// Asks this about every process that connects to a unix socket of this server, once and before it is heard: who is
    /// refused is told the error's words, and the connection ends. An internal error means that it cannot be told now, and
    /// that the question is to be asked again. Called twice, both must agree. It should be quick.
    pub fn admit_peers(
        mut self,
        check: impl Fn(&Peer) -> Result<(), RpcError> + Send + Sync + 'static,
    ) -> Self {
        self.terms = self.terms.admit_peers(check);
        self
    }

    /// Asks this about every TCP connection from this machine to an HTTP port that does not identify its callers, once and
    /// before its first request is answered: who is refused gets 403 and the error's words. An internal error means that it
    /// cannot be told now, and that the next request is to ask again. Called twice, both must agree.
    pub fn admit_local_peers(
        mut self,
        check: impl Fn(LocalPeer) -> CheckingLocalPeer + Send + Sync + 'static,
    ) -> Self {
        self.terms = self.terms.admit_local_peers(check);
        self
    }

    /// Other bounds than the default ones.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.terms = self.terms.limits(limits);
        self
    }

    /// Lists are the same for every caller, and good for this long. The default is one minute, per caller.
    pub fn cache_lists(mut self, time: Duration) -> Self {
        self.list_cache = CacheHint::public(millis(time));
        self
    }

    /// A new key, for [`Server::key`].
    pub fn random_key() -> [u8; 32] {
        random::bytes()
    }

    /// The key for what clients carry: the ids of sessions, and what is kept between two rounds of questions. Give the same one to all instances that
    /// may answer the same client; by default every start makes its own.
    pub fn key(mut self, key: [u8; 32]) -> Self {
        self.terms = self.terms.key(key);
        self
    }

    /// Checks everything and starts.
    ///
    /// # Errors
    /// A registration is wrong: the error names it and the rule.
    pub fn start(self) -> Result<Handle, Error> {
        let mut catalog = Catalog::default();
        let offered = catalog.add(self.parts)?;
        catalog.mark(offered);
        let key = self.terms.key.unwrap_or_else(random::bytes);
        let premises = Premises::new(self.terms.key(key));
        let server_info = serde_json::to_string(&self.info).expect("names are JSON");
        let engine = Engine {
            budget: premises.budget.clone(),
            steps: Steps::new(premises.limits.blocking_steps),
            listeners: Listeners::new(&premises.limits),
            tasks: TaskStore::default(),
            limits: premises.limits.clone(),
            forms: &FORMS,
            premises: Arc::new(premises),
            server_info: server_info.into(),
            instructions: self.instructions,
            list_cache: self.list_cache,
            catalog: RwLock::new(Arc::new(catalog)),
            layers: self.layers,
            visibility: self.visibility,
            presentations: self.presentations,
            state: self.state,
            sealer: Sealer::new(&key),
            spawned: Tasks::default(),
        };
        Ok(Handle::own(engine))
    }

    /// Checks everything and serves until the transport ends.
    ///
    /// # Errors
    /// A registration is wrong, or the transport failed.
    pub async fn serve(self, transport: impl Transport) -> Result<(), Error> {
        self.start()?.serve(transport).await
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("info", &self.info)
            .finish_non_exhaustive()
    }
}
