//! The tasks extension, `io.modelcontextprotocol/tasks`: a tool call that is answered with a handle.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{error::RpcError, input::InputRequests};

/// The extension's id in `capabilities.extensions`.
pub const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// Where a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TaskStatus {
    /// It runs.
    Working,
    /// The task waits for answers.
    InputRequired,
    /// It has a result, which may tell of a failure.
    Completed,
    /// It ended in a JSON-RPC error.
    Failed,
    /// It was stopped.
    Cancelled,
}

impl TaskStatus {
    /// Nothing will change any more.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// A task, as its creation, `tasks/get` and `notifications/tasks` show it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Task {
    /// Unguessable.
    pub task_id: String,
    /// Where it stands.
    pub status: TaskStatus,
    /// Why it stands there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_message: Option<String>,
    /// ISO 8601.
    pub created_at: String,
    /// ISO 8601.
    pub last_updated_at: String,
    /// How long it can be asked for after its creation; null is for ever.
    pub ttl_ms: Option<u64>,
    /// How often to ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub poll_interval_ms: Option<u64>,
    /// All open questions, while it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_requests: Option<InputRequests>,
    /// The result of the call, once the task is completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<RawValue>>,
    /// The error, once failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<RpcError>,
}

impl Task {
    /// A task that has just begun.
    pub fn working(task_id: String, now: String) -> Self {
        Self {
            task_id,
            status: TaskStatus::Working,
            status_message: None,
            created_at: now.clone(),
            last_updated_at: now,
            ttl_ms: None,
            poll_interval_ms: None,
            input_requests: None,
            result: None,
            error: None,
        }
    }
}
