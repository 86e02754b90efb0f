//! The handler takes no `Cx`.

use lmcp_core::{NoArgs, Tool};

async fn hello(_: NoArgs) -> &'static str {
    "hello"
}

fn main() {
    let _: Tool = Tool::new("hello", hello).read_only();
}
