//! lmcp is a library to write [Model Context Protocol](https://modelcontextprotocol.io) servers and clients with. You write plain
//! async functions; lmcp speaks every revision of the protocol, from 2024-11-05 to 2026-07-28, over stdio, HTTP and unix sockets.
//!
//! - [Hello](#hello) · [Arguments and results](#arguments-and-results) · [State](#state) · [Errors](#errors) ·
//!   [Progress and cancellation](#progress-and-cancellation) · [Questions to the user](#questions-to-the-user) ·
//!   [Resources and prompts](#resources-and-prompts)
//! - [Transports](#transports) · [Who calls](#who-calls) · [Inside an axum application](#inside-an-axum-application) ·
//!   [Layers](#layers) · [Logs and spans](#logs-and-spans) · [Shutdown](#shutdown)
//! - [Tests](#tests) · [Clients](#clients) · [Inside your program](#inside-your-program)
//! - [When it does not compile](#when-it-does-not-compile) · [Features](#features)
//!
//! # Hello
//!
//! ```no_run
//! use lmcp::{Cx, Server, Tool};
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Hello {
//!     /// Whom to greet.
//!     name: String,
//! }
//!
//! async fn hello(args: Hello, _cx: Cx) -> String {
//!     format!("Hello, {}!", args.name)
//! }
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), lmcp::Error> {
//!     Server::new("hello", "0.1.0")
//!         .tool(Tool::new("hello", hello).about("Greet somebody by name.").read_only())
//!         .serve(lmcp::stdio())
//!         .await
//! }
//! ```
//!
//! A tool is an async function with two arguments. The first is a type of yours: its fields are the arguments of the tool, and the
//! doc comments of the fields are what the model reads. The second is the [`Cx`], the context of the call. [`Tool::read_only`],
//! [`Tool::writes`] or [`Tool::destructive`] says what the tool does to the world. Clients decide by it whether they ask the user
//! first, so a tool without it does not compile.
//!
//! # Arguments and results
//!
//! lmcp derives the JSON Schema of the arguments from the type, checks every call against it, and tells the model what does not fit.
//! An `Option` or `#[serde(default)]` makes an argument optional. [`NoArgs`] is for tools that take none.
//!
//! A tool returns text, [`Json`] for structured results with a schema of their own, [`Content`] for pictures and sounds, a
//! `Vec<Content>` for several of them, `()`, or a [`ToolResult`] of any of these.
//!
//! ```
//! use lmcp::{Content, Cx, Json, NoArgs, ToolResult};
//! use schemars::JsonSchema;
//! use serde::Serialize;
//!
//! #[derive(Serialize, JsonSchema)]
//! struct Disk {
//!     free_bytes: u64,
//! }
//!
//! async fn disk(_: NoArgs, _: Cx) -> Json<Disk> {
//!     Json(Disk { free_bytes: 1 << 30 })
//! }
//!
//! async fn chart(_: NoArgs, _: Cx) -> ToolResult<Vec<Content>> {
//!     let png = std::fs::read("chart.png")?;
//!     Ok(vec![Content::text("free space, by day"), Content::image(&png, "image/png")])
//! }
//! ```
//!
//! # State
//!
//! Tools that share a value are methods of it, gathered in a [`ToolSet`]. A method takes `self: Arc<Self>` before its arguments.
//!
//! ```
//! use std::sync::{Arc, Mutex};
//!
//! use lmcp::{Cx, NoArgs, Server, Tool, ToolSet};
//!
//! #[derive(Default)]
//! struct Counter(Mutex<u64>);
//!
//! impl Counter {
//!     async fn count(self: Arc<Self>, _: NoArgs, _: Cx) -> String {
//!         let mut count = self.0.lock().unwrap();
//!         *count += 1;
//!         count.to_string()
//!     }
//! }
//!
//! let tools = ToolSet::new(Counter::default())
//!     .tool(Tool::new("count", Counter::count).about("Count one more.").writes());
//! let server = Server::new("counter", "0.1.0").tools(tools);
//! ```
//!
//! A value that all tools may need, such as a pool of database connections, is given to [`Server::state`]. A handler finds it by its
//! type: `cx.state::<Pool>()?`.
//!
//! # Errors
//!
//! A tool that can fail returns a [`ToolResult`]. Every error becomes a [`ToolError`] with `?`: those of libraries,
//! `Box<dyn Error>`, `anyhow::Error`, and plain text. The model reads the words and can try something else, so say what failed, with
//! which value, and what to try.
//!
//! ```
//! use lmcp::{ToolError, ToolResult};
//!
//! fn port(text: &str) -> ToolResult<u16> {
//!     let digits = text.strip_prefix(':').ok_or("a port begins with `:`")?;
//!     let port = digits.parse().map_err(|err| {
//!         ToolError::new(format!("`{digits}` is no port")).source(err).hint("give a number from 1 to 65535")
//!     })?;
//!     Ok(port)
//! }
//! # assert!(port("80").is_err() && port(":x").is_err() && port(":80").is_ok());
//! ```
//!
//! | an error of | is read by | and becomes |
//! |---|---|---|
//! | [`ToolError`] | the model | a result with `isError` |
//! | [`ToolError::rpc`], [`RpcError`] | the client program | a JSON-RPC error |
//! | [`Error`] | whoever runs the server | the return value of `serve` or `start` |
//! | a panic in a handler | whoever reads the log | an internal error with a number, which the log has too |
//!
//! # Progress and cancellation
//!
//! ```
//! # use lmcp::{Cx, NoArgs};
//! async fn index(_: NoArgs, cx: Cx) -> String {
//!     let files = ["a.rs", "b.rs"];
//!     let progress = cx.progress(files.len());
//!     for file in files {
//!         tokio::task::yield_now().await;
//!         progress.step(file);
//!     }
//!     "done".into()
//! }
//! ```
//!
//! Progress is sent only to clients that asked for it. When a client cancels a call or goes away, the future of the handler is
//! dropped at its next `.await`; clean up in `Drop`. [`Cx::shield`] runs a step that must not be torn in two, [`Cx::blocking`] runs
//! code that blocks, and [`Cx::detach`] turns the rest of a call into a task that the client can come back for.
//!
//! # Questions to the user
//!
//! ```
//! use lmcp::{Cx, NoArgs, ToolResult};
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Sure {
//!     /// Really erase everything?
//!     yes: bool,
//! }
//!
//! async fn erase(_: NoArgs, cx: Cx) -> ToolResult<&'static str> {
//!     let sure: Sure = cx.ask("sure", "This cannot be undone.").await?;
//!     Ok(if sure.yes { "erased" } else { "kept" })
//! }
//! ```
//!
//! Ask before you act. Clients of 2026-07-28 answer a question by calling again, and the handler then runs again from its first line,
//! with the answer at hand. [`Cx::ask_all`] asks several questions at once; [`ask`] also has questions to the client's model.
//!
//! # Resources and prompts
//!
//! ```
//! use lmcp::{Cx, Prompt, Resource, Server, ToolError, ToolResult};
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Note {
//!     /// The name of the note.
//!     name: String,
//! }
//!
//! async fn read(note: Note, _: Cx) -> ToolResult<String> {
//!     match &*note.name {
//!         "garden" => Ok("Water the roses.".into()),
//!         _ => Err(ToolError::not_found()),
//!     }
//! }
//!
//! async fn summarise(note: Note, _: Cx) -> String {
//!     format!("Summarise the note `{}` in one sentence.", note.name)
//! }
//!
//! let server = Server::new("notes", "0.1.0")
//!     .resource(Resource::template("note://{name}", "note", read).mime("text/plain"))
//!     .prompt(Prompt::new("summarise", summarise).about("Summarise a note."));
//! ```
//!
//! [`Handle::resource_updated`] tells whoever watches a resource that it changed; a handler calls it as
//! `cx.server().resource_updated("note://garden")`. [`Handle::add_tool`] and its like change what a running server offers.
//!
//! # Transports
//!
//! | transport | for |
//! |---|---|
//! | [`stdio()`] | clients that start the server themselves |
//! | `http::bind` | clients that connect to a URL |
//! | `unix` | programs of the same user on the same machine |
//! | [`streams`] | any pair of byte streams |
//!
//! [`Server::serve`] serves one transport. [`Server::start`] gives a [`Handle`], which serves several at once and changes the server
//! while it runs:
//!
//! ```no_run
//! # #[cfg(feature = "http")]
//! # async fn run(server: lmcp::Server) -> Result<(), lmcp::Error> {
//! let server = server.start()?;
//! let http = lmcp::http::bind("127.0.0.1:8080").await?;
//! tokio::try_join!(server.serve(http), server.serve(lmcp::unix("/run/user/1000/notes.sock")?))?;
//! # Ok(())
//! # }
//! ```
//!
//! # Who calls
//!
//! Without further words, HTTP on loopback serves the user that the server runs as, and root. A token lets its holder in from
//! elsewhere, and names it:
//!
//! ```no_run
//! # #[cfg(feature = "http")]
//! # async fn run(server: lmcp::Server) -> Result<(), Box<dyn std::error::Error>> {
//! let http = lmcp::http::bind("0.0.0.0:8080").await?.allow_remote().token("ann", std::env::var("ANNS_TOKEN")?);
//! server.serve(http).await?;
//! # Ok(())
//! # }
//! ```
//!
//! [`Authenticate`] looks up who calls anywhere else, such as at the issuer of tokens, and gives the caller a name, a role, scopes and
//! claims. Handlers see them as [`Cx::principal`], [`Cx::role`], [`Cx::scopes`] and [`Cx::claims`]. [`Tool::only_for`] shows a tool
//! to some roles only. Sessions, tasks and subscriptions belong to the caller that began them.
//!
//! # Inside an axum application
//!
//! ```no_run
//! # #[cfg(feature = "http")]
//! # async fn run(server: lmcp::Server) -> Result<(), Box<dyn std::error::Error>> {
//! let server = server.start()?;
//! let mcp = lmcp::http::service(server.clone()).allow_host("tools.example").build();
//! let app = axum::Router::new().route_service("/mcp", mcp);
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
//! axum::serve(listener, app)
//!     .with_graceful_shutdown(async move {
//!         let _ = tokio::signal::ctrl_c().await;
//!         server.close(); // ends subscriptions, which would keep their connections open
//!     })
//!     .await?;
//! # Ok(())
//! # }
//! ```
//!
//! The application says who calls: with `token` or `authenticate` of the service, or with a middleware of its own whose value
//! travels on. `service(…).carry::<User>()` makes what the middleware put into the extensions of the request available as
//! `cx.extension::<User>()`.
//!
//! # Layers
//!
//! A layer is a function around every request. It answers by itself, or hands the request on and may look at what comes back.
//!
//! ```
//! use lmcp::{Ended, Replies, RpcError, Server};
//!
//! let server = Server::new("careful", "0.1.0")
//!     .layer(|request, next| match request.method() {
//!         "tools/call" if request.caller().principal().is_none() => Replies::error(RpcError::invalid_request("say who you are")),
//!         _ => next.call(request),
//!     })
//!     .layer(|request, next| {
//!         let began = std::time::Instant::now();
//!         next.call(request).on_end(move |ended| {
//!             let is_ok = matches!(ended, Ended::Done(_));
//!             eprintln!("{:?}, ok: {is_ok}", began.elapsed());
//!         })
//!     });
//! ```
//!
//! # Logs and spans
//!
//! lmcp writes through [`tracing`](https://docs.rs/tracing). At `INFO` every call is one line: what was called, how it ended, how long
//! that took, who called. At `DEBUG` every request is a span `request` with `id`, `method`, `target`, `caller` and `outcome`, around
//! everything that its handler logs. On stdio nothing but the protocol may be written to standard output, so have your subscriber
//! write to standard error. [`Cx::log`] is for messages to the client.
//!
//! # Shutdown
//!
//! A server on stdio ends with its input. `http::bind(…)` ends with the future given to `until`: running calls get a moment, and new
//! ones are refused. A mounted service ends with the application, after [`Handle::close`]. Dropping the future of `serve` ends it at
//! once.
//!
//! # Tests
//!
//! ```
//! # use lmcp::{Cx, NoArgs, Server, Tool};
//! # async fn hello(_: NoArgs, _: Cx) -> &'static str { "hello" }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = Server::new("hello", "0.1.0").tool(Tool::new("hello", hello).about("Greet.").read_only());
//! let client = server.start()?.client(); // in the same process, without I/O
//! let result = client.call_tool("hello", serde_json::json!({})).await?;
//! assert_eq!(result.content[0].as_text(), Some("hello"));
//! # Ok(())
//! # }
//! ```
//!
//! [`Client::answering`] answers questions, and [`Client::start_tool`] shows progress.
//!
//! # Clients
//!
//! With the feature `client`, [`Client`] connects to any server: behind a URL, on a socket, or as a program that it starts. It finds
//! out which revision the server speaks.
//!
//! ```no_run
//! # #[cfg(feature = "client")]
//! # async fn run() -> Result<(), lmcp::client::Error> {
//! let client = lmcp::Client::connect(lmcp::upstream::url("https://tools.example/mcp").token_file("token")).await?;
//! for tool in client.list_tools().await? {
//!     println!("{}", tool.name);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! An `Upstream` is such a server as a [`Service`], which can be served again on any transport; with the feature `hub`, many of them
//! stand behind one endpoint.
//!
//! # Inside your program
//!
//! With the feature `embed`, a program serves its own child processes on a private socket, and knows by the kernel's word which child
//! calls:
//!
//! ```no_run
//! # #[cfg(feature = "embed")]
//! # fn run(server: lmcp::Server) -> Result<(), Box<dyn std::error::Error>> {
//! let host = lmcp::embed::Host::start(server)?;
//! let ann = host.child("ann", "lead")?;
//! ann.spawn(&mut std::process::Command::new("some-agent"))?.wait()?;
//! # Ok(())
//! # }
//! ```
//!
//! # When it does not compile
//!
//! | the compiler says | the reason | do this |
//! |---|---|---|
//! | `… is not a handler` | the function is not `async fn(Args, Cx) -> R`, or its future cannot be sent to another thread | call [`debug_handler`] with the function: the compiler then names the value or the trait |
//! | the same, and the first argument is an `Arc` | the tool has a state, and was given to [`Server::tool`] | put it into a [`ToolSet`] |
//! | `JsonSchema` or `Deserialize` is not implemented | the arguments must be readable and describable | `#[derive(Deserialize, JsonSchema)]`, with the version of `schemars` that [`schemars`] is |
//! | `a tool cannot return …` | the type is no result of a tool | return text, [`Json`], [`Content`], or a [`ToolResult`] of them |
//! | `Undeclared: Effect` is not satisfied | the tool does not say what it does | add [`Tool::read_only`], [`Tool::writes`] or [`Tool::destructive`] |
//! | `type annotations needed` at [`Server::state`] | an `Arc` can become several types | `state::<Pool>(pool)` |
//!
//! # Features
//!
//! | feature | brings | default |
//! |---|---|---|
//! | `http` | Streamable HTTP, and the same as a `tower` service | yes |
//! | `client` | servers elsewhere: by URL, socket or command | |
//! | `hub` | many servers behind one endpoint | |
//! | `embed` | a server inside a program, with an identity for every child process; Linux only | |
//! | `wiring` | how agents such as Claude Code or Codex are started so that they find a server: presets, and their configuration; not on Windows | TOML |
//!
//! lmcp builds on Linux, macOS and Windows. `unix` is absent on Windows.

#[cfg(all(feature = "embed", not(target_os = "linux")))]
compile_error!(
    "the feature `embed` of `lmcp` needs Linux: it tells child processes apart by `/proc` and process descriptors"
);

pub use lmcp_core::{
    Authenticate, Budget, Caller, CallerTransport, Challenge, Client, Completing, Cx, Discovery,
    Ended, Endpoint, Error, Handle, Handler, HeaderValue, Headers, Identity, Json, JsonText,
    Layered, Limits, Logged, Message, MessageKind, Messages, Next, NoArgs, NoRoom, Notice, Outcome,
    Owned, OwnerKey, Page, Payload, Presentation, Principal, Process, Progress, ProgressReport,
    Prompt, Replies, Reply, Request, Reservation, Resource, Server, Service, Session, Terms, Tool,
    ToolError, ToolResult, ToolSet, Transport, Workplace, ask, bytes, client,
    completion::Completer,
    debug_handler, equal_secrets, error,
    prompt::IntoPrompt,
    resource::IntoContents,
    roots, service,
    service::Source,
    stdio, streams,
    tool::IntoToolOutput,
    transport::{Stdio, Streams},
    workplace,
};
#[cfg(unix)]
pub use lmcp_core::{transport::Unix, unix};
#[cfg(all(feature = "embed", target_os = "linux"))]
pub use lmcp_embed as embed;
pub use lmcp_heap as heap;
#[cfg(feature = "http")]
pub use lmcp_http as http;
#[cfg(feature = "hub")]
pub use lmcp_hub::{self as hub, Hub};
#[cfg(feature = "client")]
pub use lmcp_upstream as upstream;
pub use lmcp_wire as wire;
pub use lmcp_wire::{
    Annotations, CallToolResult, Content, Icon, PromptMessage, ResourceContents, RpcError,
};
#[cfg(all(feature = "wiring", unix))]
pub use lmcp_wiring as wiring;
/// The version of `schemars` whose `JsonSchema` the types of arguments and results must have.
pub use schemars;
/// The version of `serde_json` whose `Value` stands in signatures.
pub use serde_json;

/// The README's code, compiled and run with the other documentation tests.
#[cfg(all(doctest, feature = "http"))]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// The same of the page about clients.
#[cfg(all(doctest, feature = "client"))]
#[doc = include_str!("../../../docs/client.md")]
struct ClientPage;

/// The same of the page about hubs.
#[cfg(all(doctest, feature = "hub"))]
#[doc = include_str!("../../../docs/hub.md")]
struct HubPage;

/// The same of the page about embedding.
#[cfg(all(doctest, feature = "embed", feature = "http"))]
#[doc = include_str!("../../../docs/embedding.md")]
struct Embedding;
