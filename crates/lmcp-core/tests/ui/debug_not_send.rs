//! The compiler names what the handler holds across an `.await`.

use std::rc::Rc;

use lmcp_core::{Cx, NoArgs, debug_handler};

async fn hello(_: NoArgs, cx: Cx) -> String {
    let name = Rc::new("you");
    cx.cancelled().await;
    format!("hello {name}")
}

fn main() {
    debug_handler(hello);
}
