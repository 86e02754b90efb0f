//! The JSON Schemas of MCP tools: made acceptable to every client, checked at registration, enforced on arguments.
//!
//! The world is closed: every assertion of JSON Schema 2020-12 (or of draft-07, where `$schema` says so) is either
//! enforced or refused when the schema is compiled; nothing is accepted and then ignored. What is not here: fetching
//! of remote references, `$dynamicRef`, and `format`, which the specification leaves an annotation.
//!
//! Patterns have the syntax of `regex-lite`: no look-around, no `\p{…}`, and `\s`, `\w`, `\d` are ASCII.
//!
//! ```
//! use lmcp_schema::Schema;
//! use serde_json::json;
//!
//! let schema = Schema::compile_input(&json!({
//!     "type": "object",
//!     "properties": { "text": { "type": "string" } },
//!     "required": ["text"],
//!     "additionalProperties": false,
//! }))?;
//! let wrong = schema.validate(&json!({ "txet": "hi" })).unwrap_err();
//! assert_eq!(wrong.to_string(), "`/text` is required\n`/txet` is not known; did you mean `text`?");
//! # Ok::<(), lmcp_schema::SchemaError>(())
//! ```
//!
//! | file | what lives there |
//! |---|---|
//! | `schema` | [`Schema`], the public face |
//! | `compile`, `keywords`, `read`, `pointer`, `header` | from JSON to the compiled form, and every rule a schema can break |
//! | `node` | the compiled form |
//! | `validate`, `members`, `evaluated`, `number` | a value against the compiled form |
//! | `mismatch`, `explain`, `nearest`, `text` | what the model is told |
//! | `mend` | values that do not fit, and what was meant by them |
//! | `normalise`, `inline`, `nullable` | the schemas `schemars` makes, rewritten for clients |
//! | `publish` | what a model's provider refuses, and what clients are shown instead |

mod compile;
mod error;
mod evaluated;
mod explain;
mod header;
mod inline;
mod keywords;
mod members;
mod mend;
mod mismatch;
mod nearest;
mod node;
mod normalise;
mod nullable;
mod number;
mod pointer;
mod publish;
mod read;
mod schema;
mod text;
mod validate;

pub use error::SchemaError;
pub use header::{HeaderParam, header_params};
pub use mend::Aliases;
pub use mismatch::{Mismatch, Mismatches};
pub use nearest::{is_same, nearest};
pub use normalise::{normalise_input, normalise_output};
pub use publish::{publish_input, publish_output};
pub use schema::Schema;
