//! What an engine writes before anybody asks for it, in the form of each revision. Whoever makes an engine gives it these
//! functions (`era/forms.rs`): an engine knows no revision itself.

use std::borrow::Cow;

use lmcp_wire::{self as wire, ProtocolVersion};
use serde_json::value::RawValue;

use crate::outcome::Outcome;

/// How things look in a revision: as they are, or without what it does not know.
#[derive(Debug)]
pub(crate) struct Forms {
    pub(crate) tool: for<'a> fn(ProtocolVersion, &'a wire::Tool) -> Cow<'a, wire::Tool>,
    pub(crate) prompt: for<'a> fn(ProtocolVersion, &'a wire::Prompt) -> Cow<'a, wire::Prompt>,
    pub(crate) resource: for<'a> fn(ProtocolVersion, &'a wire::Resource) -> Cow<'a, wire::Resource>,
    pub(crate) template:
        for<'a> fn(ProtocolVersion, &'a wire::ResourceTemplate) -> Cow<'a, wire::ResourceTemplate>,
    /// What a call came to, as a task shows it.
    pub(crate) task_result: fn(Outcome) -> Option<Box<RawValue>>,
}
