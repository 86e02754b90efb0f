//! [`Server`]: the description of a server, before it runs.

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
    tool::{Alone, AnyTool},
    transport::{CheckingLocalPeer, LocalPeer, Peer},
};

/// The description of a server: its name, its tools, resources and prompts, and the rules it works by.
///
/// [`Server::serve`] runs it on one transport. [`Server::start`] gives a [`Handle`], which runs it on several transports, changes it
/// while it runs, or tests it.
///
/// ```
/// use lmcp::{Cx, NoArgs, Server, Tool};
///
/// # async fn demo() -> Result<(), lmcp::Error> {
/// async fn hello(_: NoArgs, _: Cx) -> &'static str {
///     "hello"
/// }
///
/// Server::new("greeter", "1.0.0")
///     .tool(Tool::new("hello", hello).about("Say hello.").read_only())
///     .serve(lmcp::stdio())
///     .await
/// # }
/// ```
///
/// | to add | call |
/// |---|---|
/// | a tool, a resource, a prompt | [`tool`](Server::tool), [`resource`](Server::resource), [`prompt`](Server::prompt) |
/// | several of them that share a value | [`tools`](Server::tools) |
/// | a value that every handler finds by its type | [`state`](Server::state) |
/// | a function around every request | [`layer`](Server::layer) |
/// | advice to the model on the whole server | [`instructions`](Server::instructions) |
/// | other limits of memory and time | [`limits`](Server::limits) |
///
/// A server in a test needs no transport:
///
/// ```
/// # use lmcp::{Cx, NoArgs, Server, Tool};
/// # async fn hello(_: NoArgs, _: Cx) -> &'static str { "hello" }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let hello = Tool::new("hello", hello).about("Say hello.").read_only();
/// let client = Server::new("greeter", "1.0.0").tool(hello).start()?.client();
/// let result = client.call_tool("hello", serde_json::json!({})).await?;
/// assert_eq!(result.content[0].as_text(), Some("hello"));
/// # Ok(())
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
    /// Makes a server of this name and version, which offers nothing yet.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            info: Implementation::new(name, version),
            instructions: None,
            // Lists change rarely, and clients that listen are told of changes.
            list_cache: CacheHint::private(60_000),
            layers: Vec::new(),
            visibility: None,
            presentations: Presentations::new(),
            terms: Terms::default(),
            state: States::default(),
            parts: Parts::default(),
        }
    }

    /// Sets a name for people, which clients show in the place of the name.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.info.title = Some(title.into());
        self
    }

    /// Describes the server in one sentence, for people.
    pub fn about(mut self, description: impl Into<String>) -> Self {
        self.info.description = Some(description.into());
        self
    }

    /// Sets the address of a page about the server.
    pub fn website(mut self, url: impl Into<String>) -> Self {
        self.info.website_url = Some(url.into());
        self
    }

    /// Adds a picture, which clients show beside the name.
    pub fn icon(mut self, icon: Icon) -> Self {
        self.info.icons.push(icon);
        self
    }

    /// Tells the model how to use the server as a whole. Descriptions of single tools belong to [`Tool::about`](crate::Tool::about).
    ///
    /// ```
    /// # use lmcp::Server;
    /// let server = Server::new("notes", "1.0.0").instructions("Look for a note with `search` before you write a new one.");
    /// ```
    pub fn instructions(self, instructions: impl Into<String>) -> Self {
        let instructions = instructions.into();
        self.instructions_for(move |_| instructions.clone())
    }

    /// Tells the model of each caller how to use the server, such as with the folder that the caller works in. The function runs for
    /// every handshake and every discovery.
    pub fn instructions_for(
        mut self,
        tell: impl Fn(&Caller) -> String + Send + Sync + 'static,
    ) -> Self {
        self.instructions = Some(Box::new(tell));
        self
    }

    /// Adds a [`Tool`](crate::Tool). A tool with a state goes into a [`ToolSet`], which [`tools`](Self::tools) adds.
    ///
    /// ```
    /// # use lmcp::{Cx, NoArgs, Server, Tool};
    /// let ping = Tool::new("ping", async |_: NoArgs, _: Cx| "pong").about("Answers.").read_only();
    /// let server = Server::new("example", "1.0.0").tool(ping);
    /// ```
    pub fn tool(mut self, tool: impl Alone) -> Self {
        let tool = AnyTool::new(tool.alone(), &Arc::new(()));
        self.parts.tools.push(tool);
        self
    }

    /// Adds tools, resources and prompts that share a value. See [`ToolSet`] for an example.
    pub fn tools<S>(mut self, set: ToolSet<S>) -> Self {
        self.parts.append(set.parts);
        self
    }

    /// Adds a resource, or a family of them: see [`Resource::template`].
    ///
    /// ```
    /// # use lmcp::{Resource, Server};
    /// let server = Server::new("notes", "1.0.0").resource(Resource::text("note://about", "about", "Two notes live here."));
    /// ```
    pub fn resource(mut self, resource: Resource) -> Self {
        self.parts
            .resources
            .push(AnyResource::new(resource, &Arc::new(())));
        self
    }

    /// Adds a prompt. See [`Prompt`] for an example.
    pub fn prompt(mut self, prompt: Prompt) -> Self {
        self.parts
            .prompts
            .push(AnyPrompt::new(prompt, &Arc::new(())));
        self
    }

    /// Adds a value that handlers find by its type, with [`Cx::state`](crate::Cx::state). A second value of the same type replaces the
    /// first.
    ///
    /// ```
    /// # use lmcp::{Cx, NoArgs, Server, ToolResult};
    /// struct Config {
    ///     city: String,
    /// }
    ///
    /// let server = Server::new("weather", "1.0.0").state(Config { city: "Ulm".into() });
    ///
    /// async fn city(_: NoArgs, cx: Cx) -> ToolResult<String> {
    ///     Ok(cx.state::<Config>()?.city.clone())
    /// }
    /// ```
    ///
    /// A value that is an [`Arc`] already needs its type named: `server.state::<Config>(config)`.
    pub fn state<T: Any + Send + Sync>(mut self, value: impl Into<Arc<T>>) -> Self {
        self.state.insert(value.into());
        self
    }

    /// Adds a function around every request. It answers the request itself, or hands it on with `next.call(request)` and may look
    /// at the replies. The first layer that is added is the outermost.
    ///
    /// [`Replies::on_end`] tells a layer how the request ended, while progress passes on its way.
    ///
    /// ```
    /// # use lmcp::{Replies, Server};
    /// # use lmcp::wire::RpcError;
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

    /// Decides which tools each caller sees and can call, by their names. A tool that a caller may not see does not exist for it.
    /// The function runs for every list and every call, so it should be quick. [`Tool::only_for`](crate::Tool::only_for) does the same for one tool.
    ///
    /// ```
    /// # use lmcp::Server;
    /// let server = Server::new("shop", "1.0.0")
    ///     .show_tools(|caller, tool| !tool.starts_with("admin_") || caller.role() == Some("admin"));
    /// ```
    pub fn show_tools(
        mut self,
        may_see: impl Fn(&Caller, &str) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.visibility = Some(Arc::new(may_see));
        self
    }

    /// Sets how results are presented to clients whose name begins with these letters. The name that a client claims decides
    /// nothing else. lmcp knows the ways of some clients by itself: Claude Code and Codex show their model nothing but
    /// `structuredContent` where there is any, so they get results without it, and tools without `outputSchema`.
    ///
    /// ```
    /// # use lmcp::{Presentation, Server};
    /// let server = Server::new("careful", "1.0.0").present("my-agent", Presentation::text(16 * 1024, 500));
    /// ```
    pub fn present(mut self, client: impl Into<Box<str>>, how: Presentation) -> Self {
        self.presentations.push((client.into(), how));
        self
    }

    /// Sets a function that admits or refuses every process that connects to a unix socket of this server. It runs once for each
    /// connection, before anything is read, and should be quick. A refused process is told the message of the error, and the
    /// connection ends. An internal error means that the answer is not known yet: the function is asked again. Of two such
    /// functions both must admit.
    pub fn admit_peers(
        mut self,
        check: impl Fn(&Peer) -> Result<(), RpcError> + Send + Sync + 'static,
    ) -> Self {
        self.terms = self.terms.admit_peers(check);
        self
    }

    /// Sets a function that admits or refuses TCP connections from this machine to an HTTP port that does not identify its callers.
    /// It runs once for each connection, before its first request is answered. A refused connection gets 403 and the message of
    /// the error. An internal error means that the answer is not known yet: the next request asks again. Of two such functions
    /// both must admit.
    pub fn admit_local_peers(
        mut self,
        check: impl Fn(LocalPeer) -> CheckingLocalPeer + Send + Sync + 'static,
    ) -> Self {
        self.terms = self.terms.admit_local_peers(check);
        self
    }

    /// Sets limits of memory, time and number.
    ///
    /// ```
    /// # use lmcp::{Limits, Server};
    /// let mut limits = Limits::default();
    /// limits.memory_bytes = 16 << 20;
    /// let server = Server::new("small", "1.0.0").limits(limits);
    /// ```
    pub fn limits(mut self, limits: Limits) -> Self {
        self.terms = self.terms.limits(limits);
        self
    }

    /// Declares that lists are the same for every caller, and that clients may keep them for this time. By default clients keep a
    /// list for one minute, and for themselves alone.
    pub fn cache_lists(mut self, time: Duration) -> Self {
        self.list_cache = CacheHint::public(millis(time));
        self
    }

    /// Makes a random key, for [`Server::key`].
    pub fn random_key() -> [u8; 32] {
        random::bytes()
    }

    /// Sets the key that signs what clients carry: the ids of sessions, and the state between two rounds of questions. Give the same
    /// key to all instances that may answer the same client, and keep it to have sessions survive a restart. By default every
    /// start makes a key of its own.
    pub fn key(mut self, key: [u8; 32]) -> Self {
        self.terms = self.terms.key(key);
        self
    }

    /// Checks all tools, resources and prompts, and starts the server. Nothing is served yet: [`Handle::serve`] does that.
    ///
    /// ```no_run
    /// # async fn run(server: lmcp::Server) -> Result<(), lmcp::Error> {
    /// let server = server.start()?;
    /// let http = lmcp::http::bind("127.0.0.1:8080").await?;
    /// // The end of standard input ends the program.
    /// tokio::select! {
    ///     end = server.serve(lmcp::stdio()) => end,
    ///     end = server.serve(http) => end,
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// A name, a schema or a URI breaks a rule, or two things have the same name. The error names the thing and the rule.
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

    /// Starts the server, as [`start`](Self::start) does, and serves until the transport ends: stdio with its input, HTTP with the
    /// future given to its `until`.
    ///
    /// # Errors
    /// The description of the server breaks a rule, or the transport failed.
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
