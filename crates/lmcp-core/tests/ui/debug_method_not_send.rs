//! The same of a method that takes its state first.

use std::{rc::Rc, sync::Arc};

use lmcp_core::{Cx, NoArgs, debug_handler};

struct Greeter;

impl Greeter {
    async fn hello(self: Arc<Self>, _: NoArgs, cx: Cx) -> String {
        let name = Rc::new("you");
        cx.cancelled().await;
        format!("hello {name}")
    }
}

fn main() {
    debug_handler(Greeter::hello);
}
