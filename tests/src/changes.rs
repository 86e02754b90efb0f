//! Tools that change what the server offers, so that listeners have something to hear.

use lmcp::{Cx, NoArgs, Prompt, Resource, Server, Tool, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;

pub(crate) fn add(server: Server) -> Server {
    server
        .tool(
            Tool::new("change", change)
                .about("Add to one of the lists.")
                .writes(),
        )
        .tool(
            Tool::new("touch", touch)
                .about("Say that a resource has new contents.")
                .writes(),
        )
        .tool(
            Tool::new("close", close)
                .about("End all subscriptions and tasks.")
                .destructive(),
        )
}

#[derive(Deserialize, JsonSchema)]
struct Change {
    list: List,
    name: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum List {
    Tools,
    Prompts,
    Resources,
}

async fn change(args: Change, cx: Cx) -> ToolResult<&'static str> {
    let (server, name) = (cx.server(), args.name);
    match args.list {
        List::Tools => server.add_tool(Tool::new(name, nothing).about("Nothing.").read_only())?,
        List::Prompts => server.add_prompt(Prompt::new(name, nothing))?,
        List::Resources => {
            server.add_resource(Resource::text(format!("added://{name}"), name, ""))?;
        }
    }
    Ok("changed")
}

async fn nothing(_: NoArgs, _: Cx) -> &'static str {
    ""
}

#[derive(Deserialize, JsonSchema)]
struct Touch {
    uri: String,
}

async fn touch(args: Touch, cx: Cx) -> &'static str {
    cx.server().resource_updated(&args.uri);
    "touched"
}

async fn close(_: NoArgs, cx: Cx) -> &'static str {
    cx.server().close();
    "closed"
}
