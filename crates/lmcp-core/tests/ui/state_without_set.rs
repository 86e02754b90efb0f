//! A tool with state is given to the server instead of a `ToolSet`.

use std::sync::Arc;

use lmcp_core::{Cx, NoArgs, Server, Tool};

struct Counter;

async fn next(_: Arc<Counter>, _: NoArgs, _: Cx) -> &'static str {
    "1"
}

fn main() {
    let _ = Server::new("s", "1").tool(Tool::new("next", next).writes());
}
