//! The handler returns a number instead of text or `Json`.

use lmcp_core::{Cx, NoArgs, Tool};

async fn answer(_: NoArgs, _: Cx) -> u32 {
    42
}

fn main() {
    let _: Tool = Tool::new("answer", answer).read_only();
}
