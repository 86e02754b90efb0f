//! A hub over services in the same process: what clients see of many servers, and of servers that misbehave.

mod changes;
mod eras;
mod groups;
mod import;
mod marks;
mod names;
mod owners;
mod pins;
#[path = "../../../lmcp-upstream/tests/probe/server.rs"]
mod probe;
mod routing;
mod sessions;
mod start;
mod stopped;
mod trouble;

use std::{sync::Arc, time::Duration};

use lmcp_core::{
    Client, Completing, Cx, Endpoint, Handle, NoArgs, Prompt, Resource, Server, Tool, ToolResult,
};
use lmcp_hub::Hub;
use lmcp_wire::{Content, Resource as Link};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Note {
    name: String,
}

async fn read(note: Note, _: Cx) -> String {
    format!("about {}", note.name)
}

async fn names(typed: Completing, _: Cx) -> Vec<String> {
    vec![format!("{}den", typed.value)]
}

async fn link(_: NoArgs, _: Cx) -> Vec<Content> {
    vec![Content::link(Link::new("note://garden", "garden"))]
}

async fn count(_: NoArgs, cx: Cx) -> &'static str {
    let progress = cx.progress(3);
    for step in 1..=3 {
        progress.set(step, "counting");
    }
    "three"
}

async fn sleep(_: NoArgs, cx: Cx) -> &'static str {
    cx.progress(2).set(1, "asleep");
    tokio::time::sleep(Duration::from_secs(10)).await;
    "slept"
}

async fn ask(_: NoArgs, cx: Cx) -> ToolResult<String> {
    #[derive(Deserialize, JsonSchema)]
    struct Form {
        name: String,
    }
    let form: Form = cx.ask("name", "Who?").await?;
    Ok(form.name)
}

/// A server with every kind of item.
fn notes() -> Handle {
    let template = Resource::template("note://{name}", "note", read).complete("name", names);
    Server::new("notes", "1.0.0")
        .instructions("Notes about the garden.")
        .tool(Tool::new("link", link).read_only())
        .tool(Tool::new("count", count).read_only())
        .tool(Tool::new("ask", ask).read_only())
        .tool(Tool::new("sleep", sleep).read_only())
        .resource(Resource::text("note://about", "about", "two notes"))
        .resource(template)
        .prompt(Prompt::new("sum", read).complete("name", names))
        .start()
        .expect("the server is sound")
}

/// Returns a hub over these servers, and a client of the hub.
fn hub(servers: &[(&str, Handle)]) -> (Hub, Client) {
    let hub = Hub::new("hub", "1.0.0");
    for (name, server) in servers {
        hub.mount(name, Arc::new(server.clone()));
    }
    let client = Endpoint::new(hub.clone()).client();
    (hub, client)
}
