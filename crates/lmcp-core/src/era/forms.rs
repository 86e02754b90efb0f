//! Data that an engine writes ahead of any request, in the form of each revision: pages of lists, and results of tasks. An
//! engine is given these functions when it is made, and calls nothing else of `era/`.

use std::borrow::Cow;

use lmcp_wire::{ProtocolVersion, method::request};
use serde_json::value::RawValue;

use super::{encode, legacy::downgrade, versions::LEGACY};
use crate::{outcome::Outcome, server::Forms};

/// The forms of the revisions that are served.
pub(crate) static FORMS: Forms = Forms {
    tool: |version, tool| shown(version, tool, downgrade::tool),
    prompt: |version, prompt| shown(version, prompt, downgrade::prompt),
    resource: |version, resource| shown(version, resource, downgrade::resource),
    template: |version, template| shown(version, template, downgrade::template),
    task_result,
};

fn shown<T: Clone>(
    version: ProtocolVersion,
    item: &T,
    downgrade: fn(ProtocolVersion, &T) -> Cow<'_, T>,
) -> Cow<'_, T> {
    if LEGACY.contains(&version) {
        downgrade(version, item)
    } else {
        Cow::Borrowed(item)
    }
}

/// Only 2026-07-28 has tasks.
fn task_result(outcome: Outcome) -> Option<Box<RawValue>> {
    let mut body = Vec::new();
    encode::write(&mut body, request::TOOLS_CALL, outcome).ok()?;
    RawValue::from_string(String::from_utf8(body).ok()?).ok()
}
