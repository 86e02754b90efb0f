//! Tools that answer at once, one for each kind of content.

use lmcp::{Content, Cx, NoArgs, ResourceContents, Server, Tool, ToolError, ToolResult};

use crate::media;

pub(crate) fn add(server: Server) -> Server {
    server
        .tool(
            Tool::new("test_simple_text", simple_text)
                .about("Returns one text.")
                .read_only(),
        )
        .tool(
            Tool::new("test_image_content", image)
                .about("Returns one picture.")
                .read_only(),
        )
        .tool(
            Tool::new("test_audio_content", audio)
                .about("Returns one sound.")
                .read_only(),
        )
        .tool(
            Tool::new("test_embedded_resource", embedded)
                .about("Returns the contents of one resource.")
                .read_only(),
        )
        .tool(
            Tool::new("test_multiple_content_types", mixed)
                .about("Returns a text, a picture and the contents of a resource.")
                .read_only(),
        )
        .tool(
            Tool::new("test_error_handling", fails)
                .about("Always fails.")
                .read_only(),
        )
}

async fn simple_text(_: NoArgs, _: Cx) -> &'static str {
    "This is a simple text response for testing."
}

async fn image(_: NoArgs, _: Cx) -> Content {
    media::picture()
}

async fn audio(_: NoArgs, _: Cx) -> Content {
    media::sound()
}

async fn embedded(_: NoArgs, _: Cx) -> Content {
    let contents = ResourceContents::text(
        "test://embedded-resource",
        "This is an embedded resource content.",
    );
    Content::resource(contents.mime("text/plain"))
}

async fn mixed(_: NoArgs, _: Cx) -> Vec<Content> {
    let json = ResourceContents::text(
        "test://mixed-content-resource",
        r#"{"test":"data","value":123}"#,
    );
    vec![
        Content::text("Multiple content types test:"),
        media::picture(),
        Content::resource(json.mime("application/json")),
    ]
}

async fn fails(_: NoArgs, _: Cx) -> ToolResult<String> {
    Err(ToolError::new(
        "this tool intentionally returns an error for testing",
    ))
}
