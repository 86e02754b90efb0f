//! Questions to a client, in the form that its revision knows. Members that no rule changes stay as they are.

use lmcp_wire::{
    ProtocolVersion, elicit::ElicitMode, input::InputRequest, jsonrpc, members::Members,
};
use serde::Serialize;
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};

use super::raw;
use crate::random;

/// Writes the parameters of a question as JSON. `written` is given for a question of another server that is passed on.
///
/// # Errors
/// The revision cannot ask this.
pub(in crate::era) fn params(
    version: ProtocolVersion,
    question: &InputRequest,
    written: Option<&RawValue>,
) -> Result<Vec<u8>, String> {
    let own = match (written, question) {
        (Some(_), _) => None,
        (None, InputRequest::Elicit(params)) => json_of(params),
        (None, InputRequest::Sample(params)) => json_of(params),
        (None, _) => None,
    };
    let text = written.or(own.as_deref()).map_or("{}", RawValue::get);
    let mut params = Members::read(text).unwrap_or_default();
    match question {
        InputRequest::Elicit(asked) => {
            if asked.mode == Some(ElicitMode::Url) && params.get("elicitationId").is_none() {
                // Tells several links apart. Only these revisions have this member.
                params.set("elicitationId", &random::hex::<16>());
            }
            if version < ProtocolVersion::V2025_11_25 {
                params.take("mode");
                old_form(&mut params)?;
            }
        }
        InputRequest::Sample(_) if version < ProtocolVersion::V2025_11_25 => {
            old_sample(version, &mut params);
        }
        _ => {}
    }
    let mut out = Vec::with_capacity(256);
    jsonrpc::append(&mut out, &params);
    Ok(out)
}

fn json_of(params: &impl Serialize) -> Option<Box<RawValue>> {
    to_raw_value(params).ok()
}

/// Changes a form to that of 2025-06-18.
fn old_form(params: &mut Members<'_>) -> Result<(), String> {
    let schema = params.get("requestedSchema");
    let Some(mut schema) = schema.and_then(|raw| serde_json::from_str::<Value>(raw.get()).ok())
    else {
        return Ok(());
    };
    let fields = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (name, field) in fields.into_iter().flatten() {
        old_field(name, field)?;
    }
    params.set("requestedSchema", &schema);
    Ok(())
}

/// Changes a field to that of 2025-06-18: one value, defaults only for yes and no, and titles of choices in a list of their
/// own.
fn old_field(name: &str, field: &mut Value) -> Result<(), String> {
    let Some(members) = field.as_object_mut() else {
        return Ok(());
    };
    if members.get("type") == Some(&json!("array")) {
        return Err(format!(
            "`{name}` is a choice of several, which this client cannot show"
        ));
    }
    if members.get("type") != Some(&json!("boolean")) {
        members.remove("default");
    }
    if let Some(Value::Array(choices)) = members.remove("oneOf") {
        let column = |key: &str| choices.iter().map(|choice| choice[key].clone()).collect();
        members.insert("enum".into(), Value::Array(column("const")));
        members.insert("enumNames".into(), Value::Array(column("title")));
    }
    Ok(())
}

/// Changes a question to the model for the revisions before 2025-11-25: without tools, and each message is one block.
fn old_sample(version: ProtocolVersion, params: &mut Members<'_>) {
    params.take("tools");
    params.take("toolChoice");
    let messages = params.get("messages").map(ToOwned::to_owned);
    let messages = messages.as_ref().and_then(|raw| {
        let messages = serde_json::from_str::<Vec<Members<'_>>>(raw.get());
        messages.ok()
    });
    let Some(messages) = messages else { return };
    let mut single: Vec<_> = messages.into_iter().flat_map(one_by_one).collect();
    for message in &mut single {
        message.take("_meta");
        raw::within(message, "content", |block| raw::content(version, block));
    }
    params.set("messages", &single);
}

/// Returns one message for each of the blocks.
fn one_by_one(mut message: Members<'_>) -> Vec<Members<'_>> {
    let content = message.get("content").map(ToOwned::to_owned);
    let blocks = content
        .as_ref()
        .and_then(|content| serde_json::from_str::<Vec<&RawValue>>(content.get()).ok());
    let Some(blocks) = blocks else {
        return vec![message];
    };
    let one = |block| {
        message.set("content", block);
        message.clone()
    };
    blocks.into_iter().map(one).collect()
}
