//! Names, URIs and ids on their way: from those that clients know to those of a server, and back. No I/O.

use std::sync::Arc;

use lmcp_core::{Notice, Outcome, Payload, Reply, Request};
use lmcp_wire::{
    Content, RpcError, error,
    members::Members,
    method::{notification, request},
};
use serde_json::value::{RawValue, to_raw_value};

use crate::{
    catalog::{Place, View, text},
    names::{marked, unmarked},
};

/// Which server has this slug?
pub(crate) type Slugs<'a> = &'a dyn Fn(&str) -> Option<Arc<str>>;

/// The server that a request is for, and the request as that server knows it. `None`: it is for none in particular.
pub(crate) fn out(
    request: Request,
    view: &View,
    slugs: Slugs<'_>,
) -> Result<Option<(Arc<str>, Request)>, RpcError> {
    let (place, member) = match request.method() {
        request::TOOLS_CALL => {
            let name = request.target()?;
            let place = view.tools.get(&*name).cloned();
            if let Some((held, why)) = view.held.get(&*name) {
                return Err(not_approved(&name, held, why));
            }
            if let Some(schema) = view.mirrored.get(&*name) {
                let schema: serde_json::Value =
                    serde_json::from_str(schema.get()).unwrap_or_default();
                request.check_headers(&schema)?;
            }
            (place.ok_or_else(|| unknown("tool", &name))?, "name")
        }
        request::PROMPTS_GET => {
            let name = request.target()?;
            let place = view.prompts.get(&*name).cloned();
            (place.ok_or_else(|| unknown("prompt", &name))?, "name")
        }
        request::RESOURCES_READ => {
            let uri = request.target()?;
            let place = led_back(&uri, slugs);
            (place.ok_or_else(|| no_resource(&uri))?, "uri")
        }
        request::TASKS_GET | request::TASKS_UPDATE | request::TASKS_CANCEL => {
            let id = request.target()?;
            let place = led_back(&id, slugs);
            (place.ok_or_else(|| unknown("task", &id))?, "taskId")
        }
        request::COMPLETE => return complete(request, view, slugs).map(Some),
        _ => return Ok(None),
    };
    let request = request.with_param(member, &place.own)?;
    Ok(Some((place.server, request)))
}

/// Where a URI or an id leads. One without the slug of any server is of the server that has none.
pub(crate) fn led_back(marked: &str, slugs: Slugs<'_>) -> Option<Place> {
    let found = unmarked(marked).and_then(|(slug, own)| Some((slugs(&slug)?, own)));
    let (server, own) = found.or_else(|| Some((slugs("")?, marked)))?;
    Some(Place {
        server,
        own: own.to_owned(),
    })
}

fn complete(
    request: Request,
    view: &View,
    slugs: Slugs<'_>,
) -> Result<(Arc<str>, Request), RpcError> {
    #[derive(serde::Deserialize)]
    struct Params {
        r#ref: Box<RawValue>,
    }
    let Params { r#ref: whole } = request.params()?;
    let wrong = |_| RpcError::invalid_params("`ref` must be an object");
    let mut reference = Members::read(whole.get()).map_err(wrong)?;
    let place = match (text(reference.get("name")), text(reference.get("uri"))) {
        (Some(name), _) => {
            let place = view.prompts.get(&name).cloned();
            let place = place.ok_or_else(|| unknown("prompt", &name))?;
            reference.set("name", &place.own);
            place
        }
        (None, Some(uri)) => {
            let place = led_back(&uri, slugs).ok_or_else(|| unknown("resource", &uri))?;
            reference.set("uri", &place.own);
            place
        }
        (None, None) => return Err(RpcError::invalid_params("`ref` names nothing")),
    };
    let request = request.with_param("ref", &reference)?;
    Ok((place.server, request))
}

fn unknown(what: &str, name: &str) -> RpcError {
    RpcError::invalid_params(format!("unknown {what}: `{name}`"))
}

/// What a client is told that calls a tool which nobody has approved of: why, and the way out.
fn not_approved(name: &str, place: &Place, why: &str) -> RpcError {
    let (server, own) = (&place.server, &place.own);
    RpcError::invalid_request(format!(
        "tool `{name}` waits for approval: {why}; `lmcp hub approve {server}/{own}` approves of it"
    ))
    .with_data(serde_json::json!({ "retriable": false, "server": &**server, "tool": own, "approval": why }))
}

/// No server has a resource at this URI. The encoder gives the error the code of the client's revision.
pub(crate) fn no_resource(uri: &str) -> RpcError {
    let words = format!("no such resource: `{uri}`");
    RpcError::new(error::RESOURCE_NOT_FOUND, words).with_data(serde_json::json!({ "uri": uri }))
}

/// What a server says, as clients know it.
pub(crate) fn back(reply: Reply, slug: &str) -> Reply {
    match reply {
        Reply::Notify(notice) => Reply::Notify(notice_back(notice, slug)),
        Reply::Done(Ok(outcome)) => Reply::Done(Ok(outcome_back(outcome, slug))),
        Reply::Done(Err(error)) => Reply::Done(Err(error_back(error, slug))),
        other => other,
    }
}

fn notice_back(mut notice: Notice, slug: &str) -> Notice {
    let method = &*notice.method;
    if matches!(method, notification::RESOURCE_UPDATED | notification::TASKS) {
        notice.params = result_back(notice.params, slug);
    }
    notice
}

fn error_back(mut error: RpcError, slug: &str) -> RpcError {
    let uri = error.data.as_mut().and_then(|data| data.get_mut("uri"));
    if let Some(serde_json::Value::String(uri)) = uri {
        *uri = marked(slug, uri);
    }
    error
}

fn outcome_back(mut outcome: Outcome, slug: &str) -> Outcome {
    outcome.payload = match outcome.payload {
        Payload::Raw(result) => Payload::Raw(result_back(result, slug)),
        Payload::CallTool(mut result) => {
            let blocks = result.content.iter_mut();
            blocks.for_each(|block| content_back(block, slug));
            Payload::CallTool(result)
        }
        Payload::GetPrompt(mut result) => {
            let messages = result.messages.iter_mut();
            messages.for_each(|message| content_back(&mut message.content, slug));
            Payload::GetPrompt(result)
        }
        Payload::ReadResource(mut result, hint) => {
            for contents in &mut result.contents {
                contents.uri = marked(slug, &contents.uri);
            }
            Payload::ReadResource(result, hint)
        }
        Payload::TaskCreated(mut task) => {
            task.task_id = marked(slug, &task.task_id);
            Payload::TaskCreated(task)
        }
        Payload::Task(mut task) => {
            task.task_id = marked(slug, &task.task_id);
            task.result = task.result.map(|result| result_back(result, slug));
            Payload::Task(task)
        }
        other => other,
    };
    outcome
}

fn content_back(block: &mut Content, slug: &str) {
    match block {
        Content::Resource(block) => block.resource.uri = marked(slug, &block.resource.uri),
        Content::ResourceLink(link) => link.uri = marked(slug, &link.uri),
        _ => {}
    }
}

/// A result that nobody here understands: what is a URI or the id of a task by its place leads back, the rest stays.
fn result_back(result: Box<RawValue>, slug: &str) -> Box<RawValue> {
    // Most results have neither, and need not be read.
    let said = result.get();
    if !said.contains("\"uri\"") && !said.contains("\"taskId\"") && !has_escaped_letters(said) {
        return result;
    }
    let Some(mut members) = each_once(&result) else {
        return blank(&result);
    };
    for member in ["uri", "taskId"] {
        mark(&mut members, member, slug);
    }
    for member in ["content", "contents", "messages"] {
        let items = members.get(member).map(ToOwned::to_owned);
        let Some(items) = items.and_then(|items| each(&items, |item| block_back(item, slug)))
        else {
            continue;
        };
        members.set(member, &items);
    }
    if let Some(inner) = members.get("result").map(ToOwned::to_owned) {
        members.set("result", &result_back(inner, slug));
    }
    to_raw_value(&members).unwrap_or_else(|_| blank(&result))
}

/// Is a letter written as an escape, as nobody needs to? Then a name may be one that it does not look like.
fn has_escaped_letters(text: &str) -> bool {
    let mut escapes = text.split("\\u00").skip(1);
    escapes.any(|after| matches!(after.as_bytes().first(), Some(b'4'..=b'7')))
}

/// The members of an object, one of each name: a second one would reach clients as the server wrote it.
fn each_once(object: &RawValue) -> Option<Members<'_>> {
    let mut members = Members::read(object.get()).ok()?;
    members.keep_last();
    Some(members)
}

/// In the place of an object that cannot be read, and so may name anything: an empty one. Anything else stays.
fn blank(json: &RawValue) -> Box<RawValue> {
    let nothing = || to_raw_value(&serde_json::json!({})).ok();
    let is_object = json.get().trim_start().starts_with('{');
    let blank = is_object.then(nothing).flatten();
    blank.unwrap_or_else(|| json.to_owned())
}

/// Has a URI or an id lead back. A text that cannot be read leads nowhere.
fn mark(members: &mut Members<'_>, member: &'static str, slug: &str) {
    let own = members.get(member);
    if own.is_some_and(|own| own.get().starts_with('"')) {
        let own = text(own).unwrap_or_default();
        members.set(member, &marked(slug, &own));
    }
}

fn each(
    items: &RawValue,
    change: impl Fn(&RawValue) -> Box<RawValue>,
) -> Option<Vec<Box<RawValue>>> {
    let items: Vec<&RawValue> = serde_json::from_str(items.get()).ok()?;
    Some(items.into_iter().map(change).collect())
}

/// A block of content, the contents of a resource, or a message with a block in it.
fn block_back(block: &RawValue, slug: &str) -> Box<RawValue> {
    let Some(mut members) = each_once(block) else {
        return blank(block);
    };
    mark(&mut members, "uri", slug);
    for member in ["resource", "content"] {
        if let Some(inner) = members.get(member).map(ToOwned::to_owned)
            && inner.get().starts_with('{')
        {
            members.set(member, &block_back(&inner, slug));
        }
    }
    to_raw_value(&members).unwrap_or_else(|_| blank(block))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn through(result: &Value) -> Value {
        let raw = to_raw_value(result).unwrap();
        serde_json::from_str(result_back(raw, "s").get()).unwrap()
    }

    #[test]
    fn uris_in_results_lead_back_and_all_else_stays() {
        let result = json!({
            "content": [
                { "type": "text", "text": "\"uri\": \"x://1\"" },
                { "type": "resource_link", "uri": "x://2", "name": "n" },
                { "type": "resource", "resource": { "uri": "x://3", "text": "t" } },
            ],
            "structuredContent": { "uri": "x://4" },
            "_meta": { "a": { "uri": "x://5" } },
        });
        let mut expected = result.clone();
        expected["content"][1]["uri"] = json!("s+x://2");
        expected["content"][2]["resource"]["uri"] = json!("s+x://3");
        assert_eq!(through(&result), expected);
    }

    #[test]
    fn contents_messages_and_tasks_too() {
        let read = json!({ "contents": [{ "uri": "x://1", "text": "t" }] });
        assert_eq!(through(&read)["contents"][0]["uri"], "s+x://1");
        let prompt = json!({ "messages": [{ "role": "user", "content":
            { "type": "resource", "resource": { "uri": "x://1" } } }] });
        let uri = &through(&prompt)["messages"][0]["content"]["resource"]["uri"];
        assert_eq!(*uri, "s+x://1");
        let task = json!({ "taskId": "t", "result": { "content": [{ "type": "resource_link", "uri": "x://1" }] } });
        let task = through(&task);
        assert_eq!(task["taskId"], "s+t");
        assert_eq!(task["result"]["content"][0]["uri"], "s+x://1");
    }

    /// Clients read the first of two members, or the last: neither may name another server.
    #[test]
    fn members_that_are_repeated_or_escaped_lead_back_too() {
        for result in [
            r#"{"content":[{"type":"resource_link","uri":"x://1","uri":"t+x://1"}]}"#,
            r#"{"content":[{"type":"resource_link","uri":"x://1","ur\u0069":"t+x://1"}]}"#,
            r#"{"content":[{"type":"resource_link","\u0075ri":"t+x://1"}]}"#,
            r#"{"content":[],"content":[{"type":"resource_link","uri":"t+x://1"}]}"#,
            r#"{"contents":[{"uri":"x://1"}],"contents":[{"uri":"t+x://1"}]}"#,
            r#"{"content":[{"resource":{"uri":"x://1"},"resource":{"uri":"t+x://1"}}]}"#,
            r#"{"messages":[],"messages":[{"content":{"uri":"x://1"},"content":{"uri":"t+x://1"}}]}"#,
            r#"{"taskId":"x://1","taskId":"t+x://1"}"#,
            r#"{"content":[{"type":"resource_link","\ud800":1,"uri":"t+x://1"}]}"#,
            r#"{"content":[{"type":"resource_link","uri":"t+x://1\ud800"}]}"#,
            r#"{"\ud800":1,"content":[{"type":"resource_link","uri":"t+x://1"}]}"#,
        ] {
            let raw = RawValue::from_string(result.to_owned()).unwrap();
            let back = result_back(raw, "s");
            assert!(!back.get().contains("\"t+x"), "{result}: {back}");
        }
    }
}
