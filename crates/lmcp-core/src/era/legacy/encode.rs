//! Responses of the revisions with a handshake.

use lmcp_wire::{
    CallToolResult, ClientCapabilities, Implementation, ProtocolVersion, RequestId, RpcError,
    error, jsonrpc, legacy::InitializeResult, members::splice, method::request,
};

use serde::Deserialize as _;

use super::{downgrade, raw};
use crate::{
    era::members,
    error::unaskable,
    outcome::{Discovery, Outcome, Payload},
};

/// Writes a whole response.
///
/// # Errors
/// The revision cannot express this result.
pub(in crate::era) fn result(
    version: ProtocolVersion,
    id: &RequestId,
    method: &str,
    mut outcome: Outcome,
) -> Result<Vec<u8>, RpcError> {
    let mut out = Vec::with_capacity(256 + outcome.contents_bytes());
    jsonrpc::open_result(&mut out, id);
    let start = out.len();
    downgrade::project(version, &mut outcome.payload);
    let mut told = None;
    match &mut outcome.payload {
        Payload::InputRequired(_) | Payload::TaskCreated(_) | Payload::Task(_) => {
            return Err(raw::cannot_be_said());
        }
        Payload::Raw(result)
            if outcome.meta.is_none() && raw::write_plain(&mut out, version, method, result) => {}
        Payload::Raw(result) => {
            let info = outcome.server_info.as_deref();
            let result = raw::shaped(version, method, result.get(), info, outcome.meta.take())?;
            result.write(&mut out);
        }
        Payload::List(page, _) if page.written_for != Some(version) => {
            let shaped = page.shaped(version, || {
                let (mut text, mut shaped) = (Vec::new(), Vec::new());
                members::write_page(&mut text, page);
                raw::shaped(version, method, &as_object(text), None, None)?.write(&mut shaped);
                Ok(shaped)
            })?;
            out.extend_from_slice(&shaped);
        }
        Payload::Discover(discovery, _) => {
            let info = outcome.server_info.as_deref();
            splice(&mut out, &initialized(version, discovery, info));
        }
        Payload::CallTool(result) => {
            told = result.meta.take();
            splice(&mut out, result);
        }
        payload => members::write(&mut out, payload),
    }
    if let Some(more) = outcome.meta {
        told.get_or_insert_default().extend(more);
    }
    if let Some(told) = told.filter(|told| !told.is_empty()) {
        out.extend_from_slice(b",\"_meta\":");
        jsonrpc::append(&mut out, &told);
    }
    close(&mut out, start);
    out.push(b'}');
    Ok(out)
}

/// Encodes an error in these revisions, or the result that they send in its place.
pub(in crate::era) fn error(
    id: &RequestId,
    method: &str,
    error: RpcError,
) -> Result<Vec<u8>, RpcError> {
    if error.code != error::MISSING_CLIENT_CAPABILITY {
        return Err(error);
    }
    // These revisions have no special error for a client that cannot be asked.
    let data = error.data.unwrap_or_default();
    let needed = ClientCapabilities::deserialize(&data["requiredCapabilities"]);
    let words = unaskable(&needed.unwrap_or_default());
    if method == request::TOOLS_CALL {
        return Ok(jsonrpc::result(id, &CallToolResult::error(words)));
    }
    Err(RpcError::invalid_request(words))
}

/// Makes the answer to a handshake.
fn initialized(
    version: ProtocolVersion,
    discovery: &mut Discovery,
    info: Option<&str>,
) -> InitializeResult {
    let mut capabilities = std::mem::take(&mut discovery.capabilities);
    downgrade::capabilities(version, &mut capabilities);
    let info = info.and_then(|info| serde_json::from_str(info).ok());
    let mut info: Implementation = info.unwrap_or_default();
    downgrade::implementation(version, &mut info);
    let mut result = InitializeResult::new(version.to_string(), capabilities, info);
    result.instructions = discovery.instructions.take();
    result
}

/// Closes an object whose members were written with a comma before each: the first comma becomes the opening brace.
fn close(out: &mut Vec<u8>, start: usize) {
    match out.get_mut(start) {
        Some(comma) => *comma = b'{',
        None => out.push(b'{'),
    }
    out.push(b'}');
}

fn as_object(mut members: Vec<u8>) -> String {
    close(&mut members, 0);
    String::from_utf8(members).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use lmcp_wire::{
        Prompt, Resource, ResourceTemplate, Tool, discover::CacheHint, prompt::GetPromptResult,
        resource::ReadResourceResult,
    };
    use serde::{Serialize, de::DeserializeOwned};
    use serde_json::{Value, json, value::to_raw_value};

    use super::*;
    use crate::{
        era::{FORMS, versions::LEGACY},
        outcome::Page,
    };

    fn written(version: ProtocolVersion, method: &str, payload: Payload) -> Value {
        let id = RequestId::Number(1);
        let json = result(version, &id, method, Outcome::new(payload)).unwrap();
        serde_json::from_slice(&json).unwrap()
    }

    fn typed<T: DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    /// A result that lmcp makes and the same result as JSON of another server look alike in every revision.
    fn agree<T: Serialize + DeserializeOwned>(
        method: &str,
        value: &Value,
        payload: impl Fn(T) -> Payload,
    ) {
        for version in LEGACY {
            let ours = written(version, method, payload(typed(value.clone())));
            let theirs = Payload::Raw(to_raw_value(value).unwrap());
            let theirs = written(version, method, theirs);
            assert_eq!(ours, theirs, "{method} in {version}");
        }
    }

    /// A list that was written ahead for a revision and a list that is shaped for it look alike.
    fn lists_agree<T: Serialize + DeserializeOwned>(
        method: &str,
        member: &str,
        item: Value,
        shown: impl Fn(ProtocolVersion, &T) -> Value,
    ) {
        let item: T = typed(item);
        for version in LEGACY {
            let mut ahead = Page::new(member, &[shown(version, &item)], Some("next".into()));
            ahead.written_for = Some(version);
            let later = Page::new(member, std::slice::from_ref(&item), Some("next".into()));
            let hint = CacheHint::public(1);
            let ahead = written(version, method, Payload::List(ahead, hint));
            let later = written(version, method, Payload::List(later, hint));
            assert_eq!(ahead, later, "{method} in {version}");
        }
    }

    fn blocks() -> Value {
        let said = json!({ "audience": ["user"], "priority": 1.0, "lastModified": "2025-01-01" });
        let meta = json!({ "x/y": 1 });
        json!([
            { "type": "text", "text": "one", "annotations": said, "_meta": meta },
            { "type": "image", "data": "", "mimeType": "image/png", "annotations": said, "_meta": meta },
            { "type": "audio", "data": "", "mimeType": "audio/wav", "_meta": meta },
            { "type": "resource", "resource": { "uri": "a:b", "text": "c", "_meta": meta }, "_meta": meta },
            resource(&json!({ "type": "resource_link" })),
        ])
    }

    fn resource(more: &Value) -> Value {
        let mut resource = json!({
            "uri": "a:b", "name": "b", "title": "B", "description": "It", "icons": [{ "src": "data:," }],
            "annotations": { "lastModified": "2025-01-01" }, "_meta": { "x/y": 1 },
        });
        let members = resource.as_object_mut().unwrap();
        members.extend(more.as_object().cloned().unwrap_or_default());
        resource
    }

    #[test]
    fn a_structured_result_that_is_no_value_of_ours_is_shown_as_it_came() {
        let theirs = r#"{"content":[{"type":"text","text":"a","_meta":{"b":1e999}}],"structuredContent":[1e999]}"#;
        let payload = Payload::Raw(serde_json::from_str(theirs).unwrap());
        let id = RequestId::Number(1);
        let version = ProtocolVersion::V2025_11_25;
        let json = result(version, &id, request::TOOLS_CALL, Outcome::new(payload)).unwrap();
        let json = std::str::from_utf8(&json).unwrap();
        assert!(
            json.contains(r#"{"type":"text","text":"a","_meta":{"b":1e999}}"#),
            "{json}"
        );
        assert!(json.contains(r#""text":"[1e999]""#), "{json}");
    }

    #[test]
    fn a_structured_result_of_somebody_else_is_shown_letter_by_letter() {
        let shown = |theirs: &str| {
            let payload = Payload::Raw(serde_json::from_str(theirs).unwrap());
            let version = ProtocolVersion::V2024_11_05;
            written(version, request::TOOLS_CALL, payload)["result"]["content"].take()
        };
        let words = r#"{"b": 1.10,"a":[ {} ]}"#;
        let block = json!({ "type": "text", "text": words });
        let one = json!({ "type": "text", "text": "one" });
        for (content, all) in [
            (json!([]), json!([block])),
            (json!("none"), json!([block])),
            (json!([one]), json!([one, block])),
            (json!([block, one]), json!([block, one])),
        ] {
            let theirs = format!(r#"{{"structuredContent":{words},"content":{content}}}"#);
            assert_eq!(shown(&theirs), all, "{content}");
        }
        assert_eq!(
            shown(&format!(r#"{{"structuredContent":{words}}}"#)),
            json!([block])
        );
    }

    #[test]
    fn results_of_ours_and_of_others_look_alike() {
        for structured in [json!({ "a": 1 }), json!([1]), json!("one"), Value::Null] {
            let value = json!({
                "content": blocks(), "structuredContent": structured, "isError": true, "_meta": { "a/b": 1 },
            });
            agree(request::TOOLS_CALL, &value, Payload::CallTool);
        }
        let messages = blocks().as_array().cloned().unwrap_or_default();
        let messages = messages
            .iter()
            .map(|block| json!({ "role": "user", "content": block }));
        let value = json!({ "description": "It", "messages": messages.collect::<Vec<_>>() });
        agree::<GetPromptResult>(request::PROMPTS_GET, &value, Payload::GetPrompt);
        let value = json!({ "contents": [{ "uri": "a:b", "text": "c", "_meta": { "x/y": 1 } }] });
        agree::<ReadResourceResult>(request::RESOURCES_READ, &value, |result| {
            Payload::ReadResource(result, CacheHint::public(1))
        });
    }

    #[test]
    fn lists_of_ours_and_of_others_look_alike() {
        for output in ["object", "array"] {
            let tool = json!({
                "name": "t", "title": "T", "description": "It", "icons": [{ "src": "data:," }],
                "inputSchema": {
                    "type": "object",
                    "properties": { "b": { "type": "string", "x-mcp-header": "B" }, "a": true, "c": false },
                },
                "outputSchema": { "type": output, "properties": { "a": true } },
                "annotations": { "readOnlyHint": true }, "_meta": { "x/y": 1 },
            });
            lists_agree::<Tool>(request::TOOLS_LIST, "tools", tool, |version, tool| {
                serde_json::to_value((FORMS.tool)(version, tool)).unwrap()
            });
        }
        let prompt = json!({
            "name": "p", "title": "P", "icons": [{ "src": "data:," }], "_meta": { "x/y": 1 },
            "arguments": [{ "name": "a", "title": "A", "required": true }],
        });
        lists_agree::<Prompt>(
            request::PROMPTS_LIST,
            "prompts",
            prompt,
            |version, prompt| serde_json::to_value((FORMS.prompt)(version, prompt)).unwrap(),
        );
        let (list, member) = (request::RESOURCES_LIST, "resources");
        lists_agree::<Resource>(list, member, resource(&json!({})), |version, resource| {
            serde_json::to_value((FORMS.resource)(version, resource)).unwrap()
        });
        let template = resource(&json!({ "uriTemplate": "a:{b}" }));
        let (list, member) = (request::RESOURCE_TEMPLATES_LIST, "resourceTemplates");
        lists_agree::<ResourceTemplate>(list, member, template, |version, template| {
            serde_json::to_value((FORMS.template)(version, template)).unwrap()
        });
    }
}
