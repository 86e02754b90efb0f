//! Work that may wait for a disk, on a thread that does not serve.

use lmcp_core::{Cx, ToolError, ToolResult};

/// Runs a step of a call on another thread. Callers share these threads; a step that takes long checks
/// `Cx::is_cancelled`.
pub(crate) async fn blocking<T: Send + 'static>(
    cx: &Cx,
    step: impl FnOnce() -> ToolResult<T> + Send + 'static,
) -> ToolResult<T> {
    cx.blocking(step).await?
}

/// Runs a short step of the server's own on another thread. It does not wait for steps of callers.
pub(crate) async fn housekeeping<T: Send + 'static>(
    step: impl FnOnce() -> ToolResult<T> + Send + 'static,
) -> ToolResult<T> {
    match tokio::task::spawn_blocking(step).await {
        Ok(result) => result,
        Err(_) => Err(ToolError::new("the tool failed inside the server")),
    }
}
