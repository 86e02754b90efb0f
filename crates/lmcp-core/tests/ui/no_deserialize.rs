//! The argument type does not derive `Deserialize`.

use lmcp_core::{Cx, Tool};
use schemars::JsonSchema;

#[derive(JsonSchema)]
struct Add {
    a: i64,
}

async fn add(args: Add, _: Cx) -> String {
    args.a.to_string()
}

fn main() {
    let _: Tool = Tool::new("add", add).read_only();
}
