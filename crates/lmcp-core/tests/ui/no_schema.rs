//! The argument type does not derive `JsonSchema`.

use lmcp_core::{Cx, Tool};
use serde::Deserialize;

#[derive(Deserialize)]
struct Add {
    a: i64,
}

async fn add(args: Add, _: Cx) -> String {
    args.a.to_string()
}

fn main() {
    let _: Tool = Tool::new("add", add).read_only();
}
