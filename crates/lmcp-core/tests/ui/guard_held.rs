//! The method holds a guard across an `.await`.

use std::sync::{Arc, Mutex};

use lmcp_core::{Cx, NoArgs, Tool, ToolSet};

struct Counter(Mutex<u64>);

impl Counter {
    async fn next(self: Arc<Self>, _: NoArgs, cx: Cx) -> String {
        let mut count = self.0.lock().unwrap();
        cx.cancelled().await;
        *count += 1;
        count.to_string()
    }
}

fn main() {
    let counter = Counter(Mutex::default());
    let _ = ToolSet::new(counter).tool(Tool::new("next", Counter::next).writes());
}
