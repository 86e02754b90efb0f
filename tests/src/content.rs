//! Every kind of content block, in one result.

use lmcp::{Annotations, Content, Cx, NoArgs, ResourceContents, Server, Tool, wire};
use serde_json::json;

pub(crate) fn add(server: Server) -> Server {
    let tool = Tool::new("contents", contents)
        .title("All contents")
        .about("Return one block of every kind.")
        .read_only()
        .idempotent()
        .open_world()
        .meta("com.example/kind", json!("fixture"));
    server.tool(tool)
}

async fn contents(_: NoArgs, _: Cx) -> Vec<Content> {
    let mut annotations = Annotations::default();
    annotations.audience = vec![wire::Role::User, wire::Role::Assistant];
    annotations.priority = Some(0.5);
    annotations.last_modified = Some("2026-07-28T00:00:00Z".into());
    let mut link = wire::Resource::new("file:///a/b", "b");
    link.mime_type = Some("text/plain".into());
    vec![
        Content::text("für alle\n\"zitiert\" \u{1f600}").annotate(annotations),
        Content::image(b"\x89PNG\r\n\x1a\n", "image/png"),
        Content::audio(b"RIFF", "audio/wav"),
        Content::resource(ResourceContents::text("note://1", "one").mime("text/plain")),
        Content::resource(ResourceContents::blob("note://2", &[0, 255])),
        Content::link(link),
    ]
}
