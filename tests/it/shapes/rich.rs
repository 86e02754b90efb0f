//! Things with every member set that the newest revision has, so that older ones have something to leave out.

use lmcp::{
    Annotations, Content, Cx, Icon, NoArgs, Prompt, PromptMessage, Resource, ResourceContents,
    Server, Tool, ToolResult,
    wire::{
        self, Object,
        sampling::{CreateMessageParams, ModelHint, ModelPreferences},
    },
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

pub(crate) fn add(server: Server) -> Server {
    let tool = Tool::new("rich", rich)
        .title("Rich")
        .about("Return blocks with all their members.")
        .icon(icon())
        .meta("com.example/a", json!(1))
        .destructive();
    let sample = Tool::new("rich_sample", rich_sample)
        .about("Ask the model with everything that can be said.")
        .read_only();
    let resource = Resource::new("rich://one", "rich", contents)
        .title("Rich")
        .about("All members.")
        .mime("text/plain")
        .size(1)
        .annotations(annotations())
        .icon(icon())
        .meta("com.example/a", json!(1));
    let template = Resource::template("rich://all/{name}", "riches", named)
        .title("Riches")
        .about("All members.")
        .mime("text/plain")
        .annotations(annotations())
        .icon(icon())
        .meta("com.example/a", json!(1));
    let prompt = Prompt::new("rich", messages)
        .title("Rich")
        .about("All members.")
        .icon(icon())
        .meta("com.example/a", json!(1));
    server
        .about("A fixture.")
        .website("https://example.com")
        .icon(icon())
        .tool(tool)
        .tool(sample)
        .resource(resource)
        .resource(template)
        .prompt(prompt)
}

#[derive(Serialize, JsonSchema)]
struct Out {
    /// With a word about it.
    value: u8,
    more: Option<serde_json::Value>,
}

async fn rich(_: NoArgs, cx: Cx) -> ToolResult<wire::CallToolResult> {
    cx.set_meta("com.example/b", json!(2))?;
    let mut result = wire::CallToolResult::new(blocks());
    let out = Out {
        value: 1,
        more: None,
    };
    result.structured_content = Some(serde_json::to_value(out)?);
    Ok(result)
}

async fn rich_sample(_: NoArgs, cx: Cx) -> ToolResult<String> {
    let mut question = CreateMessageParams::ask("Hello.", 20);
    for block in blocks() {
        // Older revisions know no other kinds in a conversation.
        if matches!(
            block,
            Content::Text(_) | Content::Image(_) | Content::Audio(_)
        ) {
            let mut message = wire::sampling::SamplingMessage::user(block);
            message.meta = Some(meta());
            question.messages.push(message);
        }
    }
    let mut hint = ModelHint::default();
    hint.name = Some("small".into());
    let mut preferences = ModelPreferences::default();
    preferences.hints = Some(vec![hint]);
    preferences.cost_priority = Some(0.5);
    preferences.speed_priority = Some(0.5);
    preferences.intelligence_priority = Some(0.5);
    question.model_preferences = Some(preferences);
    question.system_prompt = Some("Be brief.".into());
    question.include_context = Some("none".into());
    question.temperature = Some(0.5);
    question.stop_sequences = Some(vec!["end".into()]);
    question.metadata = Some(meta());
    cx.sample("all", question).await?;
    Ok("sampled".into())
}

#[derive(Deserialize, JsonSchema)]
struct Named {
    #[expect(dead_code, reason = "only its schema is looked at")]
    name: String,
}

async fn named(_: Named, _: Cx) -> Vec<ResourceContents> {
    vec![with_meta()]
}

async fn contents(_: NoArgs, _: Cx) -> Vec<ResourceContents> {
    vec![with_meta()]
}

async fn messages(_: NoArgs, _: Cx) -> Vec<PromptMessage> {
    blocks().into_iter().map(PromptMessage::user).collect()
}

fn with_meta() -> ResourceContents {
    let mut contents = ResourceContents::text("rich://one", "one").mime("text/plain");
    contents.meta = Some(meta());
    contents
}

/// One of every kind, annotated and with `_meta`.
fn blocks() -> Vec<Content> {
    let mut link = wire::Resource::new("file:///a", "a");
    link.title = Some("A".into());
    link.description = Some("The first.".into());
    link.mime_type = Some("text/plain".into());
    link.size = Some(1);
    link.icons = vec![icon()];
    let blocks = vec![
        Content::text("one"),
        Content::image(b"\x89PNG\r\n\x1a\n", "image/png"),
        Content::audio(b"RIFF", "audio/wav"),
        Content::resource(with_meta()),
        Content::link(link),
    ];
    let annotated = blocks
        .into_iter()
        .map(|block| block.annotate(annotations()));
    annotated
        .map(|mut block| {
            match &mut block {
                Content::Text(block) => block.meta = Some(meta()),
                Content::Image(block) | Content::Audio(block) => block.meta = Some(meta()),
                Content::Resource(block) => block.meta = Some(meta()),
                Content::ResourceLink(block) => block.meta = Some(meta()),
                _ => {}
            }
            block
        })
        .collect()
}

fn annotations() -> Annotations {
    let mut annotations = Annotations::default();
    annotations.audience = vec![wire::Role::User];
    annotations.priority = Some(0.5);
    annotations.last_modified = Some("2026-07-28T00:00:00Z".into());
    annotations
}

fn icon() -> Icon {
    let mut icon = Icon::new("https://example.com/icon.png");
    icon.mime_type = Some("image/png".into());
    icon.sizes = vec!["48x48".into()];
    icon.theme = Some("dark".into());
    icon
}

fn meta() -> Object {
    Object::from_iter([("com.example/a".to_owned(), json!(1))])
}
