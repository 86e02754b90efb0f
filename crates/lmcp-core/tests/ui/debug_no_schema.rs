//! The compiler names the trait that the arguments of a method lack.

use std::sync::Arc;

use lmcp_core::{Cx, debug_handler};

struct Greeter;

#[derive(serde::Deserialize)]
struct Name {}

impl Greeter {
    async fn hello(self: Arc<Self>, _: Name, _: Cx) -> String {
        "hello".into()
    }
}

fn main() {
    debug_handler(Greeter::hello);
}
