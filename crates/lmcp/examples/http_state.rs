//! An HTTP server with state: tools that change what others see, a middleware, and a clean end on ctrl-c.
//! `cargo run -p lmcp --example http_state -- 8080`

use std::{
    net::Ipv4Addr,
    sync::{Mutex, PoisonError},
};

use lmcp::{Cx, Json, NoArgs, Resource, Server, Tool, ToolResult, http};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Default)]
struct List(Mutex<Vec<String>>);

impl List {
    fn items(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Deserialize, JsonSchema)]
struct Add {
    /// What to buy.
    item: String,
}

#[derive(Serialize, JsonSchema)]
struct Items {
    items: Vec<String>,
}

async fn add(args: Add, cx: Cx) -> ToolResult<String> {
    let list = cx.state::<List>()?;
    list.items().push(args.item.clone());
    // The clients that watch the resource are told.
    cx.server().resource_updated("list://shopping");
    Ok(format!("added {}", args.item))
}

async fn show(_: NoArgs, cx: Cx) -> ToolResult<Json<Items>> {
    Ok(Json(Items {
        items: cx.state::<List>()?.items().clone(),
    }))
}

async fn text(_: NoArgs, cx: Cx) -> ToolResult<String> {
    Ok(cx.state::<List>()?.items().join("\n"))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port = std::env::args()
        .nth(1)
        .map_or(Ok(8080), |port| port.parse())?;
    let server = Server::new("shopping", "0.1.0")
        .state(List::default())
        .layer(|request, next| {
            tracing::info!(method = request.method(), caller = ?request.caller(), "request");
            next.call(request)
        })
        .tool(
            Tool::new("add", add)
                .about("Put something on the shopping list.")
                .writes(),
        )
        .tool(
            Tool::new("show", show)
                .about("Show the shopping list.")
                .read_only(),
        )
        .resource(Resource::new("list://shopping", "shopping", text).mime("text/plain"));
    let stop = async {
        let _ = tokio::signal::ctrl_c().await;
    };
    server
        .serve(http::bind((Ipv4Addr::LOCALHOST, port)).await?.until(stop))
        .await?;
    Ok(())
}
