//! The functions that shape prepared lists and results for each revision. An engine gets them when it is made (`era/forms.rs`):
//! an engine knows no revision itself.

use std::borrow::Cow;

use lmcp_wire::{self as wire, ProtocolVersion};
use serde_json::value::RawValue;

use crate::outcome::Outcome;

/// Shapes an item for a revision: as it is, or without the members that the revision does not know.
#[derive(Debug)]
pub(crate) struct Forms {
    pub(crate) tool: for<'a> fn(ProtocolVersion, &'a wire::Tool) -> Cow<'a, wire::Tool>,
    pub(crate) prompt: for<'a> fn(ProtocolVersion, &'a wire::Prompt) -> Cow<'a, wire::Prompt>,
    pub(crate) resource: for<'a> fn(ProtocolVersion, &'a wire::Resource) -> Cow<'a, wire::Resource>,
    pub(crate) template:
        for<'a> fn(ProtocolVersion, &'a wire::ResourceTemplate) -> Cow<'a, wire::ResourceTemplate>,
    /// Writes the outcome of a call in the form that a task shows.
    pub(crate) task_result: fn(Outcome) -> Option<Box<RawValue>>,
}
