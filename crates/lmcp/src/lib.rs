//! A light Model Context Protocol server: plain async functions in, the protocol out.
//!
//! This crate only gathers what the others make: [`lmcp_core`] is the engine, [`lmcp_wire`] the words on the wire; with
//! the feature `http`, `lmcp_http` is Streamable HTTP; with the feature `embed`, `lmcp_embed` is a server inside a
//! program; with the feature `client`, [`Client`] connects to servers elsewhere, by what `lmcp_upstream` has;
//! with the feature `hub`, `Hub` is many servers behind one endpoint.
//!
//! It builds on Linux, macOS and Windows. `unix` and `Unix` are absent on Windows, and `embed` is for Linux alone.

#[cfg(all(feature = "embed", not(target_os = "linux")))]
compile_error!(
    "the feature `embed` of `lmcp` needs Linux: it tells child processes apart by `/proc` and process descriptors"
);

pub use lmcp_core::{
    Authenticate, Budget, Caller, CallerTransport, Challenge, Client, Completing, Cx, Discovery,
    Endpoint, Error, Handle, Handler, HeaderValue, Identity, Json, JsonText, Layered, Limits,
    Logged, Message, MessageKind, Messages, Next, NoArgs, NoRoom, Notice, Outcome, Owned, OwnerKey,
    Page, Payload, Presentation, Principal, Process, Progress, ProgressReport, Prompt, Replies,
    Reply, Request, Reservation, Resource, Server, Service, Session, Terms, Tool, ToolError,
    ToolResult, ToolSet, Transport, Workplace, ask, client, error, roots, service, stdio, streams,
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
