//! Shapes messages for older revisions: removes every member that came with a later revision.

use std::borrow::Cow;

use lmcp_wire::{
    self as wire, Content, Implementation, Prompt, ProtocolVersion, Resource, ResourceTemplate,
    ServerCapabilities, Tool, method::notification, progress::ProgressParams,
};
use serde_json::{Value, json};

use crate::outcome::{Payload, keep_as_text};

/// Only 2026-07-28 mirrors arguments in headers.
pub(super) const HEADER_ANNOTATION: &str = "x-mcp-header";

/// Whether the revision is older than 2025-03-26, which added sound, tool annotations, words with progress, and the capability
/// of completions.
pub(super) fn is_first(version: ProtocolVersion) -> bool {
    version < ProtocolVersion::V2025_03_26
}

/// Whether the revision is older than 2025-06-18, which added titles, `_meta` everywhere, structured output, and links to
/// resources.
pub(super) fn lacks_titles(version: ProtocolVersion) -> bool {
    version < ProtocolVersion::V2025_06_18
}

/// Whether the revision is older than 2025-11-25, which added icons, and descriptions of programs.
pub(super) fn lacks_icons(version: ProtocolVersion) -> bool {
    version < ProtocolVersion::V2025_11_25
}

/// Removes from a result the members that the revision does not know.
pub(super) fn project(version: ProtocolVersion, payload: &mut Payload) {
    match payload {
        Payload::CallTool(result) => {
            let structured = result.structured_content.take();
            let known = |value: &Value| !lacks_titles(version) && value.is_object();
            match structured {
                Some(value) if known(&value) => result.structured_content = Some(value),
                // The value is kept as text, so that it is not lost.
                Some(value) => keep_as_text(result, &value),
                None => {}
            }
            result
                .content
                .iter_mut()
                .for_each(|block| content(version, block));
        }
        Payload::GetPrompt(result) => {
            let messages = result.messages.iter_mut();
            messages.for_each(|message| content(version, &mut message.content));
        }
        Payload::ReadResource(result, _) if lacks_titles(version) => {
            result
                .contents
                .iter_mut()
                .for_each(|contents| contents.meta = None);
        }
        _ => {}
    }
}

/// Shapes one block: removes later members, and replaces a block of a later type by words.
pub(in crate::era) fn content(version: ProtocolVersion, block: &mut Content) {
    match block {
        Content::Audio(sound) if is_first(version) => {
            let words = format!(
                "(a sound of type {}, which this client cannot take)",
                sound.mime_type
            );
            *block = Content::text(words);
        }
        Content::ResourceLink(link) if lacks_titles(version) => {
            let words = link.description.as_deref().or(link.title.as_deref());
            let words = words.unwrap_or(&link.name);
            *block = Content::text(format!("{words}: {}", link.uri));
        }
        Content::ResourceLink(link) => resource_in_place(version, link),
        Content::Text(text) if lacks_titles(version) => {
            text.meta = None;
            annotations(&mut text.annotations);
        }
        Content::Image(media) | Content::Audio(media) if lacks_titles(version) => {
            media.meta = None;
            annotations(&mut media.annotations);
        }
        Content::Resource(embedded) if lacks_titles(version) => {
            embedded.meta = None;
            embedded.resource.meta = None;
            annotations(&mut embedded.annotations);
        }
        _ => {}
    }
}

/// Removes the time of the last change, which came with 2025-06-18.
fn annotations(annotations: &mut Option<wire::Annotations>) {
    if let Some(annotations) = annotations {
        annotations.last_modified = None;
    }
}

pub(super) fn capabilities(version: ProtocolVersion, capabilities: &mut ServerCapabilities) {
    capabilities.extensions = None;
    if is_first(version) {
        capabilities.completions = None;
    }
}

pub(super) fn implementation(version: ProtocolVersion, info: &mut Implementation) {
    if lacks_titles(version) {
        info.title = None;
    }
    if lacks_icons(version) {
        info.icons.clear();
        info.description = None;
        info.website_url = None;
    }
}

/// Returns a tool in the form that a list shows.
pub(in crate::era) fn tool(version: ProtocolVersion, tool: &Tool) -> Cow<'_, Tool> {
    let mut tool = tool.clone();
    if is_first(version) {
        tool.annotations = None;
    }
    if lacks_titles(version) {
        if let Some(annotations) = &mut tool.annotations {
            annotations.title = annotations.title.take().or(tool.title.take());
        }
        tool.title = None;
        tool.output_schema = None;
        tool.meta = None;
    }
    if lacks_icons(version) {
        tool.icons.clear();
    }
    // Only 2026-07-28 allows structured output that is no object.
    tool.output_schema = tool
        .output_schema
        .filter(|schema| schema["type"] == "object");
    for schema in [Some(&mut tool.input_schema), tool.output_schema.as_mut()] {
        let properties = schema.and_then(|schema| schema.get_mut("properties")?.as_object_mut());
        for schema in properties.into_iter().flat_map(|all| all.values_mut()) {
            plain(schema);
        }
    }
    forget_headers(&mut tool.input_schema);
    Cow::Owned(tool)
}

/// Removes `x-mcp-header`: clients of these revisions send no such headers.
pub(super) fn forget_headers(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            members.remove(HEADER_ANNOTATION);
            members.values_mut().for_each(forget_headers);
        }
        Value::Array(items) => items.iter_mut().for_each(forget_headers),
        _ => {}
    }
}

/// Makes the schema of a property an object: only later revisions allow `true` and `false`.
pub(super) fn plain(schema: &mut Value) {
    match schema {
        Value::Bool(true) => *schema = json!({}),
        Value::Bool(false) => *schema = json!({ "not": {} }),
        _ => {}
    }
}

/// Returns a resource in the form that a list shows.
pub(in crate::era) fn resource(version: ProtocolVersion, resource: &Resource) -> Cow<'_, Resource> {
    let mut resource = resource.clone();
    resource_in_place(version, &mut resource);
    Cow::Owned(resource)
}

fn resource_in_place(version: ProtocolVersion, resource: &mut Resource) {
    if lacks_titles(version) {
        resource.title = None;
        resource.meta = None;
        annotations(&mut resource.annotations);
    }
    if lacks_icons(version) {
        resource.icons.clear();
    }
}

/// Returns a template in the form that a list shows.
pub(in crate::era) fn template(
    version: ProtocolVersion,
    template: &ResourceTemplate,
) -> Cow<'_, ResourceTemplate> {
    let mut template = template.clone();
    if lacks_titles(version) {
        template.title = None;
        template.meta = None;
        annotations(&mut template.annotations);
    }
    if lacks_icons(version) {
        template.icons.clear();
    }
    Cow::Owned(template)
}

/// Returns a prompt in the form that a list shows.
pub(in crate::era) fn prompt(version: ProtocolVersion, prompt: &Prompt) -> Cow<'_, Prompt> {
    let mut prompt = prompt.clone();
    if lacks_titles(version) {
        prompt.title = None;
        prompt.meta = None;
        prompt
            .arguments
            .iter_mut()
            .for_each(|argument| argument.title = None);
    }
    if lacks_icons(version) {
        prompt.icons.clear();
    }
    Cow::Owned(prompt)
}

/// Removes the words from progress if the revision has none.
pub(in crate::era) fn progress(version: ProtocolVersion, params: &mut ProgressParams) {
    if is_first(version) {
        params.message = None;
    }
}

/// Whether a client of these revisions knows the notification. A notification that lmcp does not know is passed on.
pub(in crate::era) fn has_notification(method: &str) -> bool {
    !matches!(
        method,
        notification::LISTEN_ACKNOWLEDGED | notification::TASKS
    )
}
