//! The handler holds an `Rc` across an `.await`.

use std::rc::Rc;

use lmcp_core::{Cx, NoArgs, Tool};

async fn hello(_: NoArgs, cx: Cx) -> String {
    let name = Rc::new("you");
    cx.cancelled().await;
    format!("hello {name}")
}

fn main() {
    let _: Tool = Tool::new("hello", hello).read_only();
}
