//! The compiler says what a handler takes.

use lmcp_core::{NoArgs, debug_handler};

async fn hello(_: NoArgs) -> String {
    "hello".into()
}

fn main() {
    debug_handler(hello);
}
