//! The tasks extension, `io.modelcontextprotocol/tasks`: a tool call that is answered with an id.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{error::RpcError, input::InputRequests};

/// The extension's id in `capabilities.extensions`.
pub const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// The state of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TaskStatus {
    /// The task runs.
    Working,
    /// The task waits for answers.
    InputRequired,
    /// The task has a result, which may report a failure of the tool.
    Completed,
    /// The task ended with a JSON-RPC error.
    Failed,
    /// The task was stopped.
    Cancelled,
}

impl TaskStatus {
    /// Whether the task has ended.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// A task, as its creation, `tasks/get` and `notifications/tasks` show it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Task {
    /// The id, which nobody can guess.
    pub task_id: String,
    /// The state of the task.
    pub status: TaskStatus,
    /// The reason of the state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_message: Option<String>,
    /// The time of creation, in ISO 8601.
    pub created_at: String,
    /// The time of the last change, in ISO 8601.
    pub last_updated_at: String,
    /// The time after its creation for which the task is kept. `None` means for ever.
    pub ttl_ms: Option<u64>,
    /// The time between two requests for the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub poll_interval_ms: Option<u64>,
    /// All open questions, while the task waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_requests: Option<InputRequests>,
    /// The result of the call, once the task is completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<RawValue>>,
    /// The error, once the task has failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<RpcError>,
}

impl Task {
    /// Makes a task that has just started.
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
