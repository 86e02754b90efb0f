//! A tool that shows pictures to the model, with a line of text beside them.

use std::path::Path;

use lmcp::{Content, Cx, Server, Tool, ToolError, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Show {
    /// The file: PNG, JPEG, GIF or WebP.
    path: String,
}

async fn show(args: Show, cx: Cx) -> ToolResult<Vec<Content>> {
    let mime = match Path::new(&args.path)
        .extension()
        .and_then(|end| end.to_str())
    {
        Some("png") => "image/png",
        Some("jpg" | "jpeg") => "image/jpeg",
        Some("gif") => "image/gif",
        Some("webp") => "image/webp",
        _ => {
            let error =
                ToolError::new(format!("`{}` is no picture that models can see", args.path));
            return Err(error.hint("give a file that ends with .png, .jpg, .gif or .webp"));
        }
    };
    let path = args.path.clone();
    let bytes = cx.blocking(move || std::fs::read(path)).await??;
    let caption = format!("{}, {} bytes", args.path, bytes.len());
    Ok(vec![Content::text(caption), Content::image(&bytes, mime)])
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lmcp::Error> {
    Server::new("pictures", "0.1.0")
        .tool(
            Tool::new("show", show)
                .about("Show a picture file. Returns the picture and its size.")
                .read_only(),
        )
        .serve(lmcp::stdio())
        .await
}
