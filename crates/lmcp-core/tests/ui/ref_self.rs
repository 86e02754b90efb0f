//! The method borrows its state.

use lmcp_core::{Cx, NoArgs, Tool, ToolSet};

struct Greeter;

impl Greeter {
    async fn hello(&self, _: NoArgs, _: Cx) -> &'static str {
        "hello"
    }
}

fn main() {
    let _ = ToolSet::new(Greeter).tool(Tool::new("hello", Greeter::hello).read_only());
}
