//! Resources: plain, binary, broken, and families of them.

use std::time::Duration;

use lmcp::{
    Annotations, Completing, Cx, NoArgs, Resource, ResourceContents, Server, ToolError, ToolResult,
};
use serde::Deserialize;

use crate::asking::Name;

pub(crate) fn add(server: Server) -> Server {
    let mut annotations = Annotations::default();
    annotations.priority = Some(1.0);
    let text = Resource::text("text://static", "static", "This never changes.")
        .title("Static text")
        .about("A text.")
        .size(19)
        .annotations(annotations)
        .cache_public(Duration::from_secs(60));
    let item = Resource::template("item://{id}/data", "item", item)
        .about("An item by its number.")
        .mime("application/json")
        .cache_private(Duration::from_secs(5))
        .complete("id", ids);
    server
        .resource(text)
        .resource(Resource::new("binary://static", "binary", binary).mime("image/png"))
        .resource(Resource::new("several://all", "several", several))
        .resource(Resource::new("broken://always", "broken", broken))
        .resource(Resource::new("asks://name", "asks", asks))
        .resource(item)
        .resource(Resource::template("file:///{+path}", "file", file))
        .resource(Resource::template(
            "search://items{?q,limit}",
            "search",
            search,
        ))
}

async fn binary(_: NoArgs, _: Cx) -> Vec<u8> {
    vec![0x89, b'P', b'N', b'G', 0, 255]
}

async fn several(_: NoArgs, _: Cx) -> Vec<ResourceContents> {
    vec![
        ResourceContents::text("several://1", "one").mime("text/plain"),
        ResourceContents::blob("several://2", b"two"),
    ]
}

async fn broken(_: NoArgs, _: Cx) -> ToolResult<String> {
    Err(ToolError::new("the disk is on fire"))
}

async fn asks(_: NoArgs, cx: Cx) -> ToolResult<String> {
    let answer: Name = cx.ask("name", "Who reads?").await?;
    Ok(format!("for {} only", answer.name))
}

#[derive(Deserialize)]
struct Item {
    id: u16,
}

/// There are items up to 99, and numbers only.
async fn item(item: Item, _: Cx) -> ToolResult<String> {
    if item.id > 99 {
        return Err(ToolError::not_found());
    }
    Ok(format!("{{\"id\":{}}}", item.id))
}

async fn ids(completing: Completing, _: Cx) -> Vec<String> {
    let ids = (0..100).map(|id: u8| id.to_string());
    ids.filter(|id| id.starts_with(&completing.value)).collect()
}

#[derive(Deserialize)]
struct File {
    path: String,
}

async fn file(file: File, _: Cx) -> String {
    format!("path {}", file.path)
}

#[derive(Deserialize)]
struct Search {
    q: Option<String>,
    limit: Option<u8>,
}

async fn search(search: Search, _: Cx) -> String {
    format!("q {:?}, limit {:?}", search.q, search.limit)
}
