//! Values of the wire types with every member set, so that none goes unchecked.

use lmcp_wire as wire;
use serde_json::json;
use wire::{elicit::ElicitParams, input::InputRequest};

pub(super) fn tool() -> wire::Tool {
    let mut annotations = wire::ToolAnnotations::default();
    annotations.title = Some("Find".into());
    annotations.read_only_hint = Some(true);
    annotations.destructive_hint = Some(false);
    annotations.idempotent_hint = Some(true);
    annotations.open_world_hint = Some(false);

    let mut tool = wire::Tool::new(
        "find",
        json!({ "type": "object", "properties": { "path": { "type": "string" } } }),
    );
    tool.title = Some("Find".into());
    tool.description = Some("finds files".into());
    tool.output_schema = Some(json!({ "type": "array", "items": { "type": "string" } }));
    tool.annotations = Some(annotations);
    tool.icons = vec![icon()];
    tool.meta = Some(meta());
    tool
}

pub(super) fn resource() -> wire::Resource {
    let mut resource = wire::Resource::new("file:///a.txt", "a.txt");
    resource.title = Some("A".into());
    resource.description = Some("the first".into());
    resource.mime_type = Some("text/plain".into());
    resource.size = Some(u64::from(u32::MAX) + 1);
    resource.annotations = Some(annotations());
    resource.icons = vec![icon()];
    resource.meta = Some(meta());
    resource
}

pub(super) fn resource_template() -> wire::ResourceTemplate {
    let mut template = wire::ResourceTemplate::new("file:///{+path}", "files");
    template.title = Some("Files".into());
    template.description = Some("all files".into());
    template.mime_type = Some("text/plain".into());
    template.annotations = Some(annotations());
    template.icons = vec![icon()];
    template.meta = Some(meta());
    template
}

pub(super) fn prompt() -> wire::Prompt {
    let mut argument = wire::PromptArgument::new("code");
    argument.title = Some("Code".into());
    argument.description = Some("what to review".into());
    argument.required = Some(true);

    let mut prompt = wire::Prompt::new("review");
    prompt.title = Some("Review".into());
    prompt.description = Some("reviews code".into());
    prompt.arguments = vec![argument];
    prompt.icons = vec![icon()];
    prompt.meta = Some(meta());
    prompt
}

/// Each kind of block with the name of its official type; those of sampling have no constructors.
pub(super) fn blocks() -> Vec<(&'static str, wire::Content)> {
    vec![
        ("TextContent", wire::Content::text("text")),
        (
            "ImageContent",
            wire::Content::image(b"\x89PNG", "image/png"),
        ),
        ("AudioContent", wire::Content::audio(b"RIFF", "audio/wav")),
        (
            "EmbeddedResource",
            wire::Content::resource(wire::ResourceContents::text("file:///a", "a")),
        ),
        ("ResourceLink", wire::Content::link(resource())),
    ]
}

/// Each kind of input request with the name of its official type.
pub(super) fn input_requests() -> Vec<(&'static str, InputRequest)> {
    vec![
        (
            "ElicitRequest",
            InputRequest::Elicit(ElicitParams::url("sign in", "https://example.com/")),
        ),
        (
            "CreateMessageRequest",
            InputRequest::Sample(Box::new(question())),
        ),
        (
            "ListRootsRequest",
            InputRequest::Roots(wire::input::EmptyParams::default()),
        ),
    ]
}

pub(super) fn question() -> wire::sampling::CreateMessageParams {
    let mut hint = wire::sampling::ModelHint::default();
    hint.name = Some("small".into());
    let mut preferences = wire::sampling::ModelPreferences::default();
    preferences.hints = Some(vec![hint]);
    preferences.cost_priority = Some(0.0);
    preferences.speed_priority = Some(1.0);
    preferences.intelligence_priority = Some(0.5);

    let mut params = wire::sampling::CreateMessageParams::ask("why?", 100);
    params.system_prompt = Some("be brief".into());
    params.model_preferences = Some(preferences);
    params.include_context = Some("none".into());
    params.temperature = Some(0.7);
    params.stop_sequences = Some(vec!["\n".into()]);
    params.metadata = Some(meta());
    params.tools = Some(vec![tool()]);
    params.tool_choice = Some(json!({ "mode": "auto" }));
    params
}

pub(super) fn client_capabilities() -> wire::ClientCapabilities {
    let mut elicitation = wire::capability::ElicitationCapability::default();
    (elicitation.form, elicitation.url) = (Some(wire::Object::new()), Some(wire::Object::new()));
    let mut sampling = wire::capability::SamplingCapability::default();
    (sampling.context, sampling.tools) = (Some(wire::Object::new()), Some(wire::Object::new()));

    let mut capabilities = wire::ClientCapabilities::default();
    capabilities.elicitation = Some(elicitation);
    capabilities.sampling = Some(sampling);
    capabilities.roots = Some(wire::Object::new());
    capabilities.experimental = Some(settings());
    capabilities.extensions = Some(settings());
    capabilities
}

pub(super) fn server_capabilities() -> wire::ServerCapabilities {
    let mut capabilities = wire::ServerCapabilities::default();
    capabilities.tools = Some(wire::capability::ListCapability::announced());
    capabilities.prompts = Some(wire::capability::ListCapability::announced());
    capabilities.resources = Some(wire::capability::ListCapability::watched());
    capabilities.completions = Some(wire::Object::new());
    capabilities.logging = Some(wire::Object::new());
    capabilities.experimental = Some(settings());
    capabilities.extensions = Some(settings());
    capabilities
}

pub(super) fn implementation() -> wire::Implementation {
    let mut implementation = wire::Implementation::new("lmcp", "0.1.0");
    implementation.title = Some("L".into());
    implementation.description = Some("a server".into());
    implementation.icons = vec![icon()];
    implementation.website_url = Some("https://example.com/".into());
    implementation
}

/// Without `task_ids`, which the tasks extension adds and the core schema does not name.
pub(super) fn filter() -> wire::subscribe::SubscriptionFilter {
    let mut filter = wire::subscribe::SubscriptionFilter::default();
    filter.tools_list_changed = Some(true);
    filter.prompts_list_changed = Some(false);
    filter.resources_list_changed = Some(true);
    filter.resource_subscriptions = Some(vec!["file:///a".into()]);
    filter
}

pub(super) fn annotations() -> wire::Annotations {
    let mut annotations = wire::Annotations::default();
    annotations.audience = vec![wire::Role::User, wire::Role::Assistant];
    annotations.priority = Some(1.0);
    annotations.last_modified = Some("2026-07-28T00:00:00Z".into());
    annotations
}

pub(super) fn meta() -> wire::Meta {
    wire::Object::from_iter([("com.example/k".into(), json!([1]))])
}

fn icon() -> wire::Icon {
    let mut icon = wire::Icon::new("https://example.com/icon.png");
    icon.mime_type = Some("image/png".into());
    icon.sizes = vec!["48x48".into()];
    icon.theme = Some("dark".into());
    icon
}

fn settings() -> wire::Object {
    wire::Object::from_iter([(wire::task::EXTENSION.into(), json!({}))])
}
