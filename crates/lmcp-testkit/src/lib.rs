//! Helpers for the tests of several crates: messages, servers that end with their test, handlers that are watched, folders.
//!
//! Other crates use this crate as a dev-dependency, for their integration tests only: in unit tests, the types of a crate are
//! different ones. Helpers for one crate stay in its `support.rs`.

mod far;
mod folder;
mod messages;
mod serving;
mod watch;

use std::time::Duration;

use lmcp_core::{Client, Limits};
use serde_json::Value;

pub use far::Far;
pub use folder::Folder;
pub use messages::{call, request};
pub use serving::{Serving, Stop};
pub use watch::{Guards, Held, Watcher, hanging, hanging_after, watched};

/// Stops a test that would hang. The time is no threshold: nothing takes a tenth of it.
///
/// # Panics
/// The future is not done within a minute.
pub async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), future)
        .await
        .expect("nothing hangs")
}

/// Returns the default limits with one change.
pub fn limits(change: impl FnOnce(&mut Limits)) -> Limits {
    let mut limits = Limits::default();
    change(&mut limits);
    limits
}

/// Calls a tool, and returns the text of its result.
///
/// # Panics
/// The call fails, or its result is no text.
pub async fn text(client: &Client, tool: &str, arguments: Value) -> String {
    let result = soon(client.call_tool(tool, arguments)).await;
    let result = result.expect("the call is answered with a result");
    let text = result.content.first().and_then(|content| content.as_text());
    text.expect("the result is text").to_owned()
}
