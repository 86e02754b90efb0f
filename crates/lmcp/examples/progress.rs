//! Typed tools that share a value: structured results, progress, cancellation, errors a model can act on.

use std::{path::PathBuf, sync::Arc};

use lmcp::{Cx, Json, Server, Tool, ToolError, ToolResult, ToolSet};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Deserialize, JsonSchema)]
struct Count {
    /// Only files whose name ends so, for instance `.rs`.
    suffix: String,
    /// Look into this folder, relative to the root.
    #[serde(default)]
    folder: String,
}

#[derive(Serialize, JsonSchema)]
struct Counted {
    files: usize,
    lines: usize,
}

struct Project {
    root: PathBuf,
}

impl Project {
    async fn count(self: Arc<Self>, args: Count, cx: Cx) -> ToolResult<Json<Counted>> {
        let folder = self.root.join(&args.folder);
        let mut files = Vec::new();
        let mut entries = tokio::fs::read_dir(&folder).await.map_err(|err| {
            ToolError::new(format!("cannot list `{}`", folder.display()))
                .source(err)
                .hint("leave `folder` out for the root")
        })?;
        while let Some(entry) = entries.next_entry().await? {
            files.push(entry.path());
        }
        files.retain(|file| file.to_string_lossy().ends_with(&args.suffix));

        let progress = cx.progress(files.len());
        let mut lines = 0;
        for file in &files {
            // Dropped here, between two files, if the client cancels.
            lines += tokio::fs::read_to_string(file).await?.lines().count();
            progress.step(file.display().to_string());
        }
        Ok(Json(Counted {
            files: files.len(),
            lines,
        }))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let project = Project {
        root: std::env::current_dir()?,
    };
    let tools = ToolSet::new(project).tool(
        Tool::new("count_lines", Project::count)
            .title("Count lines")
            .about("Count the lines of the files in one folder. Not recursive.")
            .read_only(),
    );
    Server::new("progress", "0.1.0")
        .tools(tools)
        .serve(lmcp::stdio())
        .await?;
    Ok(())
}
