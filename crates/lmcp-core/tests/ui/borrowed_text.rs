//! The arguments borrow text.

use lmcp_core::{Cx, Tool};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Hello<'a> {
    name: &'a str,
}

async fn hello(args: Hello<'_>, _: Cx) -> String {
    args.name.to_owned()
}

fn main() {
    let _: Tool = Tool::new("hello", hello).read_only();
}
