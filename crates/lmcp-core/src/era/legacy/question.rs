//! Questions to a client, in the form that its revision knows.

use lmcp_wire::{
    ProtocolVersion,
    elicit::{ElicitMode, ElicitParams},
    input::InputRequest,
    jsonrpc,
    sampling::{CreateMessageParams, OneOrMany, SamplingMessage},
};
use serde_json::{Value, json};

use super::downgrade;
use crate::random;

/// The parameters of the request, as JSON.
///
/// # Errors
/// The revision has no way to ask this.
pub(in crate::era) fn params(
    version: ProtocolVersion,
    request: InputRequest,
) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(256);
    match request {
        InputRequest::Elicit(params) => jsonrpc::append(&mut out, &elicit(version, params)?),
        InputRequest::Sample(params) => jsonrpc::append(&mut out, &sample(version, *params)),
        _ => out.extend_from_slice(b"{}"),
    }
    Ok(out)
}

fn elicit(version: ProtocolVersion, params: ElicitParams) -> Result<Value, String> {
    let link = params.mode == Some(ElicitMode::Url);
    let mut value = serde_json::to_value(params).map_err(|err| err.to_string())?;
    if link && value.get("elicitationId").is_none() {
        // Only these revisions have it. One that a server elsewhere gave stays, because that server uses it again.
        value["elicitationId"] = random::hex::<16>().into();
    }
    if version < ProtocolVersion::V2025_11_25 {
        if let Some(members) = value.as_object_mut() {
            members.remove("mode");
        }
        let fields = value.pointer_mut("/requestedSchema/properties");
        for (name, field) in fields.and_then(Value::as_object_mut).into_iter().flatten() {
            old_field(name, field)?;
        }
    }
    Ok(value)
}

/// A field as 2025-06-18 has it: one value, defaults only for yes and no, and titles of choices in a list of their own.
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

fn sample(version: ProtocolVersion, mut params: CreateMessageParams) -> CreateMessageParams {
    if version >= ProtocolVersion::V2025_11_25 {
        return params;
    }
    params.tools = None;
    params.tool_choice = None;
    // Before, a message was one block.
    params.messages = params.messages.into_iter().flat_map(single).collect();
    for message in &mut params.messages {
        message.meta = None;
        if let OneOrMany::One(block) = &mut message.content {
            downgrade::content(version, block);
        }
    }
    params
}

fn single(message: SamplingMessage) -> Vec<SamplingMessage> {
    let OneOrMany::Many(blocks) = message.content else {
        return vec![message];
    };
    let one = |block| {
        let mut one = SamplingMessage::user(block);
        one.role = message.role;
        one
    };
    blocks.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_that_a_server_elsewhere_gave_a_link_stays() {
        let mut params = ElicitParams::url("Look", "https://example.org/");
        let version = ProtocolVersion::V2025_11_25;
        let made = elicit(version, params.clone()).expect("it can be asked");
        assert_eq!(made["elicitationId"].as_str().map(str::len), Some(32));
        params.elicitation_id = Some("e1".to_owned());
        let kept = elicit(version, params).expect("it can be asked");
        assert_eq!(kept["elicitationId"], "e1");
    }
}
