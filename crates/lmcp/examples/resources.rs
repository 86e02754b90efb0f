//! Resources, a URI template and prompts, with completions.

use std::{collections::BTreeMap, sync::Arc};

use lmcp::{Completing, Cx, Prompt, Resource, Server, ToolError, ToolResult, ToolSet};
use schemars::JsonSchema;
use serde::Deserialize;

struct Notes(BTreeMap<&'static str, &'static str>);

#[derive(Deserialize)]
struct Named {
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Summary {
    /// The note to summarise.
    note: String,
    /// In how many words; 50 if absent.
    words: Option<u32>,
}

impl Notes {
    async fn read(self: Arc<Self>, note: Named, _cx: Cx) -> ToolResult<String> {
        self.0
            .get(&*note.name)
            .map(|text| (*text).to_owned())
            .ok_or_else(ToolError::not_found)
    }

    async fn summary(self: Arc<Self>, args: Summary, _cx: Cx) -> ToolResult<String> {
        let text = self
            .0
            .get(&*args.note)
            .ok_or_else(|| ToolError::new(format!("there is no note `{}`", args.note)))?;
        Ok(format!(
            "Summarise in {} words:\n\n{text}",
            args.words.unwrap_or(50)
        ))
    }

    async fn names(self: Arc<Self>, typed: Completing, _cx: Cx) -> Vec<String> {
        self.0
            .keys()
            .filter(|name| name.starts_with(&typed.value))
            .map(|name| (*name).to_owned())
            .collect()
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lmcp::Error> {
    let notes = Notes([("garden", "Water the roses."), ("gate", "Paint it green.")].into());
    let set = ToolSet::new(notes)
        .resource(
            Resource::template("note://{name}", "note", Notes::read)
                .about("One note.")
                .mime("text/plain")
                .complete("name", Notes::names),
        )
        .prompt(
            Prompt::new("summary", Notes::summary)
                .about("Summarise a note.")
                .complete("note", Notes::names),
        );
    Server::new("notes", "0.1.0")
        .resource(
            Resource::text("note://about", "about", "Two notes live here.").about("What this is."),
        )
        .tools(set)
        .serve(lmcp::stdio())
        .await
}
