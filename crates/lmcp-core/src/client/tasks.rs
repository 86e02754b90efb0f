//! Waits for tasks as if they were calls.

use std::time::Duration;

use lmcp_wire::{RpcError, input::InputRequests, method::request};
use serde_json::{Value, json};
use tokio::{runtime::Handle, time::sleep};

use super::{Asked, Client, Error, read};

impl Client {
    /// Returns the result of a tool, and waits for it if the call became a task.
    pub(super) async fn finished(&self, result: Value) -> Result<Value, Error> {
        match (result["resultType"].as_str(), result["taskId"].as_str()) {
            (Some("task"), Some(id)) => self.await_task(id, &result).await,
            (Some("task"), None) => {
                Err(RpcError::internal("the server made a task without an id").into())
            }
            (None | Some("complete"), _) => Ok(result),
            (Some("input_required"), _) => Err(RpcError::invalid_request(
                "the server asks for something, and this client answers no questions",
            )
            .into()),
            (Some(kind), _) => {
                let words = format!("the server answered with a `{kind}`, which nobody knows");
                Err(RpcError::internal(words).into())
            }
        }
    }

    /// Asks for the state of a task until the task has ended, and answers its questions.
    async fn await_task(&self, id: &str, begun: &Value) -> Result<Value, Error> {
        let mut wait = interval(begun);
        let mut unless_ended = CancelTask {
            client: self,
            id: Some(id),
        };
        loop {
            sleep(wait).await;
            let mut task = self
                .request(request::TASKS_GET, json!({ "taskId": id }))
                .await?;
            let status = task["status"].as_str();
            if matches!(status, Some("completed" | "failed" | "cancelled")) {
                unless_ended.id = None;
            }
            match status {
                Some("completed") => return Ok(task["result"].take()),
                Some("failed") => {
                    let error: RpcError = read(task["error"].take())?;
                    return Err(error.into());
                }
                Some("cancelled") => {
                    return Err(RpcError::internal("the task was cancelled").into());
                }
                Some("input_required") => self.answer_task(id, &mut task).await?,
                Some("working") => {}
                _ => return Err(RpcError::internal("the task is in no state that is known").into()),
            }
            wait = interval(&task);
        }
    }

    async fn answer_task(&self, id: &str, task: &mut Value) -> Result<(), Error> {
        let Some(answer) = &self.settings.answer else {
            let words = "the task asks for something, and this client answers no questions";
            return Err(RpcError::invalid_request(words).into());
        };
        let questions: InputRequests = read(task["inputRequests"].take())?;
        let mut answers = json!({});
        for (key, question) in questions {
            let answered = answer(Asked::new(key.clone(), question)).await;
            answers[key] = answered.map_err(Error::from)?;
        }
        let params = json!({ "taskId": id, "inputResponses": answers });
        self.request(request::TASKS_UPDATE, params).await?;
        Ok(())
    }
}

fn interval(task: &Value) -> Duration {
    let wish = task["pollIntervalMs"].as_u64().unwrap_or(USUAL);
    Duration::from_millis(wish.clamp(SHORTEST, LONGEST))
}

/// Cancels a task at the server when nobody waits for it any more.
struct CancelTask<'a> {
    client: &'a Client,
    /// `None` once the task has ended.
    id: Option<&'a str>,
}

impl Drop for CancelTask<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id.filter(|_| Handle::try_current().is_ok()) else {
            return;
        };
        let (client, id) = (self.client.clone(), json!({ "taskId": id }));
        self.client.shared.cancelling.spawn(async move {
            // Nobody is left who could be told of an error.
            let _ = client.request(request::TASKS_CANCEL, id).await;
        });
    }
}

/// The time between two looks at a task, in milliseconds: the usual one if the server names none, and the bounds for the
/// server's wish.
const USUAL: u64 = 500;
const SHORTEST: u64 = 10;
const LONGEST: u64 = 60_000;
