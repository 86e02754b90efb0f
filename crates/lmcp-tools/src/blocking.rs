//! Work that may wait for a disk, off the thread that serves.

use lmcp_core::{ToolError, ToolResult};

/// Runs a step on another thread. A step that takes long looks at `Cx::is_cancelled`.
pub(crate) async fn blocking<T: Send + 'static>(
    step: impl FnOnce() -> ToolResult<T> + Send + 'static,
) -> ToolResult<T> {
    match tokio::task::spawn_blocking(step).await {
        Ok(result) => result,
        Err(_) => Err(ToolError::new("the tool failed inside the server")),
    }
}
