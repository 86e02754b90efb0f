//! The JSON Schemas of MCP tools: made acceptable to every client, checked at registration, enforced on arguments.
//!
//! Every assertion of JSON Schema 2020-12 (or of draft-07, if `$schema` says so) is either enforced, or refused when the schema
//! is compiled; none is accepted and then ignored. This crate does not fetch remote references, does not know `$dynamicRef`,
//! and does not check `format`, which the specification calls an annotation.
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
//! | file | contents |
//! |---|---|
//! | `schema` | [`Schema`], the public interface |
//! | `compile`, `keywords`, `read`, `pointer`, `header` | from JSON to the compiled form, and every rule that a schema can break |
//! | `node` | the compiled form |
//! | `validate`, `members`, `evaluated`, `number` | checks a value against the compiled form |
//! | `mismatch`, `explain`, `nearest`, `text` | the words that the model reads |
//! | `mend` | mends values that do not fit, if their meaning is clear |
//! | `normalise`, `inline`, `nullable` | rewrites the schemas that `schemars` makes, for clients |
//! | `publish` | removes the parts that model providers refuse |

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
