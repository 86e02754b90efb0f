//! The tool of a set does not say what it does to the world.

use lmcp_core::{Cx, NoArgs, Tool, ToolSet};

async fn hello(_: NoArgs, _: Cx) -> &'static str {
    "hello"
}

fn main() {
    let _ = ToolSet::new(()).tool(Tool::new("hello", hello));
}
