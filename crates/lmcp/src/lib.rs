//! lmcp is a library to write [Model Context Protocol](https://modelcontextprotocol.io) servers and clients with. You write plain
//! async functions; lmcp speaks every revision of the protocol, from 2024-11-05 to 2026-07-28, over stdio, HTTP and unix sockets.
//!
//! MCP in short: an agent program, the *client*, connects to your program, the *server*. The model behind the agent calls *tools*, the
//! client reads *resources*, and the user picks *prompts*. MCP has dated versions, called *revisions*; lmcp handles them all. In the older
//! revisions a client first makes a handshake, which begins a *session*.
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
//!         .tool(Tool::new("hello", hello).about("Greet by name.").read_only())
//!         .serve(lmcp::stdio())
//!         .await
//! }
//! ```
//!
//! A tool is an async function with two arguments. The first is a type of yours: its fields are the arguments of the tool, and the
//! doc comments of the fields are what the model reads. The second is the [`Cx`], the context of the call. [`Tool::read_only`],
//! [`Tool::writes`] or [`Tool::destructive`] declares what the tool does to the world. Clients decide by this declaration whether
//! they ask the user first, so a tool without it does not compile.
//!
//! The project needs `lmcp`, `serde` with the feature `derive`, `schemars` 1, and `tokio` with the features `rt` and `macros`. Tests also
//! need `serde_json`, and a program that waits for signals needs the feature `signal` of `tokio`.
//!
//! A server on stdio is started by its client. `lmcp call hello name=Bo -- target/debug/hello` starts it and calls a tool, with the program
//! `lmcp` of this project. `claude mcp add hello -- $PWD/target/debug/hello` gives it to an agent.
//!
//! # Arguments and results
//!
//! lmcp derives the JSON Schema of the arguments from the type, and checks every call against it. A model that sends wrong arguments is
//! told what does not fit. An `Option` or `#[serde(default)]` makes an argument optional. [`NoArgs`] is for tools without arguments.
//! Unknown arguments are ignored, unless the type has `#[serde(deny_unknown_fields)]`. Models often send `"2"` for a number: lmcp reads it as
//! 2 where the field is a number. Some clients send every argument, so an empty value counts as absent where an optional argument does not
//! allow it, and so does `0` where the number must be larger. A `minimum` of 0 or 1, `minLength` and `minItems` are checked but not
//! published, because some providers of models refuse them.
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
//! async fn chart(_: NoArgs, cx: Cx) -> ToolResult<Vec<Content>> {
//!     let png = cx.blocking(|| std::fs::read("chart.png")).await??;
//!     let picture = Content::image(&png, "image/png");
//!     Ok(vec![Content::text("free space, by day"), picture])
//! }
//! ```
//!
//! A handler shares its thread with other calls, so code that blocks goes through [`Cx::blocking`], as in `chart`. lmcp logs a warning for a
//! handler that holds its thread for a second. Handlers run in a tokio runtime: `tokio::spawn`, `tokio::fs` and timers work.
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
//! [`Server::state`] takes a value that many tools need, such as a pool of database connections. A handler finds the value by its type:
//! `cx.state::<Pool>()?`.
//!
//! # Errors
//!
//! A tool that can fail returns a [`ToolResult`]. Every error becomes a [`ToolError`] with `?`: those of libraries,
//! `Box<dyn Error + Send + Sync>`, `anyhow::Error`, and plain text. The model reads the words and can try something else, so say what failed, with
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
//! | the error | has this reader | and becomes |
//! |---|---|---|
//! | [`ToolError`] in a tool | the model | a result with `isError` |
//! | [`ToolError`] in a prompt or a resource | the client program | the JSON-RPC error -32603; [`ToolError::not_found`] is for a missing resource |
//! | [`ToolError::rpc`], [`RpcError`] | the client program | a JSON-RPC error, such as `RpcError::invalid_params` (-32602) for a wrong argument |
//! | [`Error`] | the operator of the server | the return value of `serve` or `start` |
//! | a panic in a handler | the operator, in the log | an internal error with a number; the log has the same number and the message |
//!
//! A `ToolError` is for handlers. It is no `std::error::Error`, but `?` turns it into a `Box<dyn Error>`, as `main` may return.
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
//! Only clients that asked for progress get it. When a client cancels a call or goes away, the future of the handler is dropped at its
//! next `.await`, so clean up in `Drop`. [`Cx::shield`] runs a step that must not be torn in two. [`Cx::detach`] turns the rest of a call
//! into a task, whose result the client asks for later.
//!
//! Code in [`Cx::blocking`] cannot be dropped. A loop there looks at [`Cx::is_cancelled`], and reports progress itself:
//!
//! ```
//! # use lmcp::{Cx, NoArgs, ToolResult};
//! async fn count(_: NoArgs, cx: Cx) -> ToolResult<String> {
//!     let (watch, progress) = (cx.clone(), cx.open_progress());
//!     let count_files = move || -> std::io::Result<usize> {
//!         let mut count = 0;
//!         for file in std::fs::read_dir(".")? {
//!             if watch.is_cancelled() {
//!                 break;
//!             }
//!             count += 1;
//!             progress.set(count, file?.path().display().to_string());
//!         }
//!         Ok(count)
//!     };
//!     let count = cx.blocking(count_files).await??;
//!     Ok(format!("{count} files"))
//! }
//! ```
//!
//! # Questions to the user
//!
//! ```
//! use lmcp::{Cx, NoArgs, ToolResult};
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//!
//! async fn erase(_: NoArgs, cx: Cx) -> ToolResult<&'static str> {
//!     let sure = cx.confirm("sure", "Erase everything? This cannot be undone.").await?;
//!     Ok(if sure { "erased" } else { "kept" })
//! }
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Person {
//!     /// Your name.
//!     name: String,
//! }
//!
//! async fn greet(_: NoArgs, cx: Cx) -> ToolResult<String> {
//!     let person: Person = cx.ask("person", "Who are you?").await?;
//!     Ok(format!("Hello, {}!", person.name))
//! }
//! ```
//!
//! Ask before you change anything. Clients of 2026-07-28 answer a question by calling again: the handler then runs again from its first
//! line, and finds the answer. [`Cx::ask_all`] asks several questions at once, [`Cx::sample`] asks the model of the client, and
//! [`Cx::ask_link`] sends the user to a web page. If the client cannot ask its user, the call fails, unless the handler looks at
//! [`ToolError::is_missing_capability`].
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
//! [`Handle::resource_updated`] tells the clients that watch a resource that it changed. A handler calls
//! `cx.server().resource_updated("note://garden")`. Every client that watches the URI is told, whoever calls: where each user has a list of
//! their own at one URI, `cx.server().to(Audience::Principal("ann"))` tells one user only ([`Handle::to`]). [`Handle::add_tool`],
//! [`Handle::remove_tool`] and their like change what a running server offers; [`Handle::set_resource`] adds or replaces a resource, and
//! announces that it has new contents.
//!
//! # Transports
//!
//! | transport | for |
//! |---|---|
//! | [`stdio()`] | clients that start the server themselves |
//! | `http::bind` | clients that connect to a URL |
//! | `http::service` | an axum or hyper application that has an HTTP server already |
//! | `unix` | programs of the same user on the same machine |
//! | [`streams`] | any pair of byte streams |
//!
//! [`Server::serve`] serves one transport. [`Server::start`] gives a [`Handle`], which serves several transports at once, and changes the
//! server while it runs:
//!
//! ```no_run
//! # #[cfg(feature = "http")]
//! # async fn run(server: lmcp::Server) -> Result<(), lmcp::Error> {
//! let server = server.start()?;
//! let http = lmcp::http::bind("127.0.0.1:8080").await?;
//! tokio::select! {
//!     end = server.serve(lmcp::stdio()) => end,
//!     end = server.serve(http) => end,
//! }
//! # }
//! ```
//!
//! This program ends with its standard input. With `tokio::try_join!` it would go on until HTTP ends, too, and a client that started the
//! program would leave it behind.
//!
//! # Who calls
//!
//! By default, HTTP listens on loopback only, and serves the user that the server runs as, and root. A token admits its holder, and
//! gives it a name:
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
//! A unix socket serves the user that the server runs as, and root. `unix(path)?.token("ann", token)` tells several callers apart there;
//! a client shows its token with `upstream::socket(path).token(token)`.
//!
//! An [`Authenticate`] checks credentials in any other way, such as with the issuer of tokens, and gives the caller a name, a role, scopes
//! and claims. Handlers read them with [`Cx::principal`], [`Cx::role`], [`Cx::scopes`] and [`Cx::claims`]. [`Tool::only_for`] shows a
//! tool to some roles only. Sessions, tasks and subscriptions belong to the caller that began them.
//!
//! lmcp looks at credentials when a request or a connection begins. A stream that is open stays open when the credentials are withdrawn, as
//! at a logout: `server.to(Audience::Principal("ann")).end_subscriptions()` ends it.
//!
//! # Inside an axum application
//!
//! ```no_run
//! # use lmcp::Principal;
//! # #[derive(Clone)] struct User { name: String }
//! # #[cfg(feature = "http")]
//! # async fn run(server: lmcp::Server) -> Result<(), Box<dyn std::error::Error>> {
//! let server = server.start()?;
//! // A middleware of the application puts the `User` of a request into its extensions.
//! let mcp = lmcp::http::service(server.clone())
//!     .allow_host("tools.example")
//!     .login(|user: &User| Principal::new(&user.name))
//!     .build();
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
//! The application decides who may call: with its own login, as here, or with `token` or `authenticate` of the service. With `login`,
//! sessions, tasks and subscriptions belong to the user, roles count, and a handler finds the value itself with `cx.extension::<User>()`.
//! Without any of them, all requests come from one caller to lmcp, and a user who knows the id of another's session may use that
//! session. `carry` hands further values of the application to handlers, and says nothing about who calls. The example `axum` is a whole
//! program with a login.
//!
//! A graceful shutdown waits for running calls; [`Tool::deadline`] and [`Limits::deadline`] bound them. A mounted service does not serve
//! HTTP+SSE, the transport of 2024-11-05.
//!
//! # Layers
//!
//! A layer is a function around every request. It either answers the request itself, as the first layer here does for callers without a
//! name, or calls `next`. The second layer looks at how each request ended.
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
//! lmcp logs with [`tracing`](https://docs.rs/tracing). At `INFO` every call is one line: the tool, how the call ended, how long it took,
//! and the caller. At `DEBUG` every request is a span `request` with the fields `id`, `method`, `target`, `caller` and `outcome`, around
//! everything that its handler logs. Nothing is printed until your program sets a subscriber, such as that of `tracing_subscriber`. A
//! server on stdio must write nothing but the protocol to standard output, so let the subscriber write to standard error:
//!
//! ```
//! tracing_subscriber::fmt().with_writer(std::io::stderr).init();
//! ```
//!
//! Over HTTP, a call of a revision with sessions runs apart from its connection, which may break. Spans of HTTP middleware, such as those of
//! a `TraceLayer`, are not around such a call; the span `request` is. [`Cx::log`] sends messages to the client.
//!
//! # Shutdown
//!
//! A server on stdio ends with its input. A server over HTTP or on a unix socket ends when the future given to `until` ends: new calls
//! are refused, and running calls get a moment to end. Ctrl-C and SIGTERM end a program at once, unless it waits for them; the file of a
//! unix socket then stays behind. This program waits for both, with the feature `signal` of `tokio`:
//!
//! ```no_run
//! /// Ends at Ctrl-C and, on unix, at SIGTERM, the signal of service managers.
//! async fn stopped() {
//!     let ctrl_c = async {
//!         let _ = tokio::signal::ctrl_c().await;
//!     };
//!     #[cfg(unix)]
//!     let terminated = async {
//!         use tokio::signal::unix::{SignalKind, signal};
//!         match signal(SignalKind::terminate()) {
//!             Ok(mut signals) => drop(signals.recv().await),
//!             Err(_) => std::future::pending().await,
//!         }
//!     };
//!     #[cfg(not(unix))]
//!     let terminated = std::future::pending();
//!     tokio::select! {
//!         () = ctrl_c => {}
//!         () = terminated => {}
//!     }
//! }
//!
//! # #[cfg(all(unix, feature = "http"))]
//! # async fn run(server: lmcp::Server) -> Result<(), lmcp::Error> {
//! let server = server.start()?;
//! let http = lmcp::http::bind("127.0.0.1:8080").await?.until(stopped());
//! let socket = lmcp::unix("/run/user/1000/notes.sock")?.until(stopped());
//! tokio::try_join!(server.serve(http), server.serve(socket))?;
//! # Ok(())
//! # }
//! ```
//!
//! A mounted service ends with its application, which calls [`Handle::close`] first. Dropping the future of `serve` ends a server at once.
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
//! The client has typed calls for everything that a server offers. [`Client::answering`] answers questions, [`Client::start_tool`] shows
//! progress, and [`Client::caller`] calls with a name and a role. This client speaks the newest revision. With the feature `client`,
//! `upstream::in_process(handle)` is a target of [`Client::connect`] that speaks every revision. The example `testing` has a test of each
//! kind.
//!
//! # Clients
//!
//! With the feature `client`, [`Client`] connects to any server: behind a URL, on a socket, or in a program that the client starts. The
//! client finds out which revision the server speaks.
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
//! `upstream::Upstream` makes a [`Service`] of a remote server, which can be served again on any transport. With the feature `hub`, many
//! servers stand behind one endpoint.
//!
//! # Inside your program
//!
//! With the feature `embed`, a program serves its own child processes on a private socket. The kernel tells the program which child
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
//! | `… is not a handler` | the function is not `async fn(Args, Cx) -> R`, or its future cannot be sent to another thread | call [`debug_handler`] with the function or method: the compiler then names the value or the trait |
//! | ``expected `Tool<(), _>`, found `Tool<S>` `` | the tool has a state, and was given to [`Server::tool`] | put the tool into a [`ToolSet`], and that into [`Server::tools`] |
//! | ``expected `Tool<(), _>`, found `ToolSet<S>` `` | a set was given to [`Server::tool`] | give it to [`Server::tools`] |
//! | `JsonSchema` or `Deserialize` is not implemented | the arguments must be readable and describable | `#[derive(Deserialize, JsonSchema)]`, with the version of `schemars` that [`schemars`] is |
//! | `a tool cannot return …` | the type is no result of a tool | return text, [`Json`], [`Content`], or a [`ToolResult`] of them |
//! | `this tool does not say what it does to the world` | the tool declares no effect | add [`Tool::read_only`], [`Tool::writes`] or [`Tool::destructive`] |
//! | ``no method named `idempotent` … `Tool<_, Undeclared>` `` | the tool declares no effect yet | declare the effect first: `.writes().idempotent()` |
//! | `` `ToolError: StdError` is not satisfied `` | `?` on a [`ToolResult`] where the error is `anyhow::Error` or `Box<dyn Error + Send + Sync>` | let the function that fails return that error, or return a `Box<dyn Error>` |
//! | `` `(dyn Error + 'static)` cannot be sent between threads safely `` | the handler returns a `Box<dyn Error>`, and an error in a box must be able to go to another thread | return `Box<dyn Error + Send + Sync>`, or a [`ToolResult`] |
//! | ``implementation of `Deserialize` is not general enough`` | the arguments borrow text, as with `&str` | let them own it: `String` |
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
//! | `wiring` | how agents such as Claude Code or Codex are started so that they find a server: presets, and their configuration; not on Windows | |
//!
//! lmcp builds on Linux, macOS and Windows, with Rust 1.91 or newer. Windows has no `unix`.
//!
//! Signatures name types of these crates: `schemars` and `serde_json`, which are re-exported, and `http` and `tower` in `lmcp::http`. A program
//! that derives `JsonSchema` needs `schemars` 1 among its own dependencies.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(all(feature = "embed", not(target_os = "linux")))]
compile_error!(
    "the feature `embed` of `lmcp` needs Linux: it tells child processes apart by `/proc` and process descriptors"
);

pub use lmcp_core::{
    Account, Audience, Authenticate, Authenticating, Authenticator, Budget, Caller,
    CallerTransport, Challenge, Client, Completing, Cx, Discovery, Ended, Endpoint, Error, Handle,
    Handler, HeaderValue, Headers, Identity, Json, JsonText, Layered, Limits, Logged, Message,
    MessageKind, Messages, Next, NoArgs, NoRoom, Notice, Outcome, Owned, OwnerKey, Page, Payload,
    Presentation, Principal, Process, Progress, ProgressReport, Prompt, Replies, Reply, Request,
    Reservation, Resource, Say, Server, Service, Session, Starts, Telling, Terms, Tool, ToolError,
    ToolResult, ToolSet, Transport, WithArgs, WithState, Workplace, admit, ask, bytes, client,
    completion,
    completion::Completer,
    debug_handler, equal_secrets, error, exchange, handshake, is_handshake, is_long, limits,
    prompt,
    prompt::IntoPrompt,
    resource,
    resource::IntoContents,
    roots, service,
    service::Source,
    stdio, streams, tool,
    tool::IntoToolOutput,
    transport,
    transport::{Stdio, Streams},
    workplace,
};
#[cfg(unix)]
pub use lmcp_core::{transport::Unix, unix};
#[cfg(all(feature = "embed", target_os = "linux"))]
#[doc(inline)]
pub use lmcp_embed as embed;
#[doc(inline)]
pub use lmcp_heap as heap;
#[cfg(feature = "http")]
#[doc(inline)]
pub use lmcp_http as http;
#[cfg(feature = "hub")]
#[doc(inline)]
pub use lmcp_hub::{self as hub, Hub};
#[cfg(feature = "client")]
#[doc(inline)]
pub use lmcp_upstream as upstream;
#[doc(inline)]
pub use lmcp_wire as wire;
pub use lmcp_wire::{
    Annotations, CallToolResult, ClientCapabilities, Content, Icon, Implementation, LoggingLevel,
    PromptMessage, ProtocolVersion, RequestId, ResourceContents, RpcError,
};
#[cfg(all(feature = "wiring", unix))]
#[doc(inline)]
pub use lmcp_wiring as wiring;
/// The crate `schemars`, in the version whose `JsonSchema` the types of arguments and results implement.
pub use schemars;
/// The crate `serde_json`, in the version whose `Value` the signatures use.
pub use serde_json;

/// Compiles and runs the code of the README with the other documentation tests.
#[cfg(all(doctest, feature = "http"))]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// Does the same for the page that registries show.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct PackagePage;

/// Does the same for the page about clients.
#[cfg(all(doctest, feature = "client"))]
#[doc = include_str!("../../../docs/client.md")]
struct ClientPage;

/// Does the same for the page about hubs.
#[cfg(all(doctest, feature = "hub"))]
#[doc = include_str!("../../../docs/hub.md")]
struct HubPage;

/// Does the same for the page about embedding.
#[cfg(all(doctest, feature = "embed", feature = "http"))]
#[doc = include_str!("../../../docs/embedding.md")]
struct Embedding;
