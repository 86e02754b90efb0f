//! The members of a result that every revision writes alike.

use lmcp_wire::{
    RpcError,
    discover::CacheHint,
    jsonrpc,
    members::{Members, splice},
    method::request,
};
use serde_json::value::RawValue;

use crate::outcome::{Page, Payload};

/// The methods whose results say how long they may be reused.
pub(super) const CACHED: [&str; 6] = [
    request::DISCOVER,
    request::TOOLS_LIST,
    request::PROMPTS_LIST,
    request::RESOURCES_LIST,
    request::RESOURCE_TEMPLATES_LIST,
    request::RESOURCES_READ,
];

/// Reads a result that is passed on.
///
/// # Errors
/// The text is no object, or has too many members.
pub(super) fn read(text: &str) -> Result<Members<'_>, RpcError> {
    let refused = |err| RpcError::internal(format!("the result cannot be passed on: {err}"));
    Members::read(text).map_err(refused)
}

/// Reads the `_meta` of such a result. A `_meta` that is no object counts as empty.
///
/// # Errors
/// The object has too many members.
pub(super) fn read_meta(meta: Option<&RawValue>) -> Result<Members<'_>, RpcError> {
    match meta.map(RawValue::get).filter(|meta| meta.starts_with('{')) {
        Some(meta) => read(meta),
        None => Ok(Members::default()),
    }
}

/// Writes the members of a result, with a comma before each. A result that each revision writes in its own way has no members
/// here.
pub(super) fn write(out: &mut Vec<u8>, payload: &Payload) {
    match payload {
        Payload::CallTool(result) => splice(out, result),
        Payload::GetPrompt(result) => splice(out, result),
        Payload::ReadResource(result, _) => splice(out, result),
        Payload::Complete(result) => splice(out, result),
        Payload::InputRequired(result) => splice(out, result),
        Payload::TaskCreated(task) | Payload::Task(task) => splice(out, &**task),
        Payload::List(page, _) => write_page(out, page),
        Payload::Acknowledged | Payload::Discover(..) | Payload::Raw(_) => {}
    }
}

/// Writes the members of a page of a list.
pub(super) fn write_page(out: &mut Vec<u8>, page: &Page) {
    out.push(b',');
    out.extend_from_slice(&page.members);
    if let Some(next) = &page.next {
        out.extend_from_slice(b",\"nextCursor\":");
        jsonrpc::append(out, next);
    }
}

/// Returns how long a result may be reused. Only complete results of lists, reads and discovery may be reused.
pub(super) fn cache_hint(payload: &Payload) -> Option<CacheHint> {
    match payload {
        Payload::ReadResource(_, hint) | Payload::Discover(_, hint) | Payload::List(_, hint) => {
            Some(*hint)
        }
        Payload::CallTool(_)
        | Payload::GetPrompt(_)
        | Payload::Complete(_)
        | Payload::InputRequired(_)
        | Payload::TaskCreated(_)
        | Payload::Task(_)
        | Payload::Acknowledged
        | Payload::Raw(_) => None,
    }
}
