//! A set of tools is given to `Server::tool`.

use std::sync::Arc;

use lmcp_core::{Cx, NoArgs, Server, Tool, ToolSet};

struct Counter;

async fn next(_: Arc<Counter>, _: NoArgs, _: Cx) -> &'static str {
    "1"
}

fn main() {
    let set = ToolSet::new(Counter).tool(Tool::new("next", next).writes());
    let _ = Server::new("s", "1").tool(set);
}
