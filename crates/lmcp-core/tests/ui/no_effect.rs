//! The tool does not say what it does to the world.

use lmcp_core::{Cx, NoArgs, Server, Tool};

async fn hello(_: NoArgs, _: Cx) -> &'static str {
    "hello"
}

fn main() {
    let _ = Server::new("s", "1").tool(Tool::new("hello", hello).about("Say hello."));
}
