//! The time until which everything must be done, and the error that names the step that took too
//! long.

use std::time::Duration;

use lmcp_core::{ToolError, ToolResult};
use tokio::time::{Instant, timeout_at};

/// A point in time, and the number of seconds it came from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    at: Instant,
    seconds: u64,
}

impl Deadline {
    pub(crate) fn after(seconds: u64) -> Self {
        Self {
            at: Instant::now() + Duration::from_secs(seconds),
            seconds,
        }
    }

    /// Returns the same deadline, or one after so much time if that is later: to make use of data
    /// that has already come.
    pub(crate) fn at_least(self, time: Duration) -> Self {
        Self {
            at: self.at.max(Instant::now() + time),
            ..self
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        Instant::now() >= self.at
    }

    /// Does a step, unless time runs out.
    pub(crate) async fn limit<T>(
        &self,
        step: &str,
        work: impl Future<Output = T>,
    ) -> ToolResult<T> {
        let done = timeout_at(self.at, work).await;
        done.map_err(|_| self.over(step))
    }

    /// Returns the error that time ran out during this step.
    pub(super) fn over(&self, step: &str) -> ToolError {
        ToolError::new(format!("timed out after {} s, {step}", self.seconds))
            .hint("try again, or allow more time")
    }

    pub(super) fn at(&self) -> Instant {
        self.at
    }
}
