//! The messages of the Model Context Protocol.
//!
//! Each file is for one page of the specification, so that the two can be read side by side. Nothing here is async, does I/O,
//! reads a clock or logs: bytes go in, values come out, and the other way round.
//!
//! | file | contents |
//! |---|---|
//! | [`jsonrpc`], [`members`] | the envelope: parses one message, writes one message; members that need not be understood |
//! | [`envelope`], [`framing`] | the same for programs that pass messages on; one message per line |
//! | [`name`], [`limits`] | names that are looked up, and their greatest length |
//! | [`error`] | [`RpcError`] and every numeric code of the project |
//! | [`version`], [`method`], [`params`], [`meta`], [`header`] | protocol revisions, method names, parameters, `_meta` keys, header values |
//! | [`capability`], [`discover`] | the capabilities of the two sides |
//! | [`content`], [`tool`], [`order`], [`resource`], [`prompt`], [`completion`] | server features |
//! | [`input`], [`elicit`], [`sampling`], [`roots`] | questions to a client |
//! | [`subscribe`], [`progress`], [`logging`], [`task`] | patterns that span messages |
//! | [`greeting`] | the lines before and after MCP, on sockets that ask who calls |
//! | [`hidden`] | invisible characters in foreign text |
//! | [`jsonc`] | JSON as people write it in configurations |
//! | [`legacy`] | the parts that 2026-07-28 removed, and older clients still send |

mod batch;
pub mod capability;
pub mod completion;
pub mod content;
mod depth;
pub mod discover;
pub mod elicit;
pub mod envelope;
pub mod error;
pub mod framing;
pub mod greeting;
pub mod header;
pub mod hidden;
pub mod input;
pub mod jsonc;
pub mod jsonrpc;
pub mod legacy;
pub mod limits;
pub mod logging;
pub mod members;
pub mod meta;
pub mod method;
pub mod name;
pub mod order;
pub mod params;
pub mod progress;
pub mod prompt;
pub mod resource;
pub mod roots;
pub mod sampling;
pub mod scan;
mod shape;
pub mod subscribe;
pub mod task;
pub mod tool;
pub mod version;

pub use capability::{ClientCapabilities, ServerCapabilities};
pub use content::{Annotations, Content, Icon, ResourceContents, Role};
pub use envelope::Envelope;
pub use error::RpcError;
pub use jsonrpc::{Incoming, RequestId};
pub use logging::LoggingLevel;
pub use meta::{Implementation, Meta};
pub use progress::ProgressToken;
pub use prompt::{Prompt, PromptArgument, PromptMessage};
pub use resource::{Resource, ResourceTemplate};
pub use tool::{CallToolResult, Tool, ToolAnnotations};
pub use version::ProtocolVersion;

/// A JSON object, for the open-ended members of the specification.
pub type Object = serde_json::Map<String, serde_json::Value>;
