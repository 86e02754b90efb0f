//! Translates names, URIs and ids from the forms that clients know to those of a server, and back. No I/O.

use std::sync::Arc;

use lmcp_core::{Notice, Outcome, Payload, Reply, Request};
use lmcp_wire::{
    Content, RpcError, error,
    members::Members,
    method::{notification, request},
};
use serde_json::value::RawValue;

use crate::{
    catalog::{Place, View},
    items::text,
    limits::LONG_ANSWER,
    names::{marked, unmarked},
    room::Room,
    uris::{Marks, Unmarked, blank, marked_in},
};

/// Returns the server with a slug.
pub(crate) type Slugs<'a> = &'a dyn Fn(&str) -> Option<Arc<str>>;

/// Returns the server that a request is for, and the request as that server knows it. `None`: it is for no server in
/// particular.
pub(crate) fn out(
    request: Request,
    view: &View,
    slugs: Slugs<'_>,
) -> Result<Option<(Arc<str>, Request)>, RpcError> {
    let place = match request.method() {
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
            place.ok_or_else(|| unknown("tool", &name))?
        }
        request::PROMPTS_GET => {
            let name = request.target()?;
            let place = view.prompts.get(&*name).cloned();
            place.ok_or_else(|| unknown("prompt", &name))?
        }
        request::RESOURCES_READ => {
            let uri = request.target()?;
            let place = led_back(&uri, slugs);
            place.ok_or_else(|| no_resource(&uri))?
        }
        request::TASKS_GET | request::TASKS_UPDATE | request::TASKS_CANCEL => {
            let id = request.target()?;
            let place = led_back(&id, slugs);
            place.ok_or_else(|| unknown("task", &id))?
        }
        request::COMPLETE => return complete(request, view, slugs).map(Some),
        _ => return Ok(None),
    };
    let request = request.with_target(&place.own)?;
    Ok(Some((place.server, request)))
}

/// Returns where a URI or an id leads. Without the slug of any server, it belongs to the server that has no slug.
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

/// Makes the error for a call of a tool that nobody has approved: it names the reason, and the command that approves the
/// tool.
fn not_approved(name: &str, place: &Place, why: &str) -> RpcError {
    let (server, own) = (&place.server, &place.own);
    RpcError::invalid_request(format!(
        "tool `{name}` waits for approval: {why}; `lmcp hub approve {server}/{own}` approves of it"
    ))
    .with_data(serde_json::json!({ "retriable": false, "server": &**server, "tool": own, "approval": why }))
}

/// Makes the error for a URI at which no server has a resource. The encoder sets the error code of the client's revision.
pub(crate) fn no_resource(uri: &str) -> RpcError {
    let words = format!("no such resource: `{uri}`");
    RpcError::new(error::RESOURCE_NOT_FOUND, words).with_data(serde_json::json!({ "uri": uri }))
}

/// Returns the length of an answer that takes a while to lead back. `None`: the reply is no such answer.
pub(crate) fn long(reply: &Reply) -> Option<usize> {
    let result = match reply {
        Reply::Done(Ok(outcome)) => match &outcome.payload {
            Payload::Raw(result) => Some(result),
            Payload::Task(task) => task.result.as_ref(),
            _ => None,
        },
        _ => None,
    };
    let bytes = result?.get().len();
    (bytes > LONG_ANSWER).then_some(bytes)
}

/// Translates a reply of a server for clients. An answer that grows takes its memory from the room before it does.
pub(crate) fn back(reply: Reply, slug: &str, room: &mut Room) -> Reply {
    match reply {
        Reply::Notify(notice) => Reply::Notify(notice_back(notice, slug)),
        Reply::Done(Ok(outcome)) => Reply::Done(outcome_back(outcome, slug, room)),
        Reply::Done(Err(error)) => Reply::Done(Err(error_back(error, slug))),
        other => other,
    }
}

/// Translates a notification of a server for clients.
pub(crate) fn notice_back(mut notice: Notice, slug: &str) -> Notice {
    let method = &*notice.method;
    if matches!(method, notification::RESOURCE_UPDATED | notification::TASKS) {
        notice.params = marked_in(notice.params, slug);
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

fn outcome_back(mut outcome: Outcome, slug: &str, room: &mut Room) -> Result<Outcome, RpcError> {
    outcome.payload = match outcome.payload {
        Payload::Raw(result) => Payload::Raw(result_back(result, slug, room)?),
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
            let result = task.result.take();
            let result = result.map(|result| result_back(result, slug, room));
            task.result = result.transpose()?;
            Payload::Task(task)
        }
        other => other,
    };
    Ok(outcome)
}

fn result_back(
    result: Box<RawValue>,
    slug: &str,
    room: &mut Room,
) -> Result<Box<RawValue>, RpcError> {
    let marks = match Marks::of(&result, slug) {
        Ok(marks) => marks,
        Err(Unmarked::NotJson) => return Ok(blank()),
        Err(Unmarked::TooMany) => return Err(room.too_many_marks()),
    };
    if marks.bytes() > 0 {
        room.expect(result.get().len() + marks.bytes())?;
    }
    Ok(marks.put_into(result))
}

fn content_back(block: &mut Content, slug: &str) {
    match block {
        Content::Resource(block) => block.resource.uri = marked(slug, &block.resource.uri),
        Content::ResourceLink(link) => link.uri = marked(slug, &link.uri),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Long answers are led back beside the thread that all callers share.
    #[test]
    fn a_long_answer_is_known_before_it_is_read() {
        for (bytes, is_long) in [(10, false), (LONG_ANSWER + 10, true)] {
            let text = format!("{{\"content\":\"{}\"}}", "x".repeat(bytes));
            let result = RawValue::from_string(text).unwrap();
            let reply = Reply::Done(Ok(Payload::Raw(result).into()));
            assert_eq!(long(&reply).is_some(), is_long, "{bytes}");
        }
    }
}
