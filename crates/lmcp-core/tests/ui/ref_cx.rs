//! The handler borrows its `Cx`.

use lmcp_core::{Cx, NoArgs, Tool};

async fn hello(_: NoArgs, _: &Cx) -> &'static str {
    "hello"
}

fn main() {
    let _: Tool = Tool::new("hello", hello).read_only();
}
