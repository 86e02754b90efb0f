//! The questions of one request: the answers so far, the open questions, and whether people think about one now.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use lmcp_wire::{
    RpcError,
    input::{InputRequests, InputRequiredResult, InputResponses},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::{
    limits::Limits,
    request::{Request, decode},
    seal::Sealer,
};

/// The state of a request's questions.
#[derive(Default)]
pub(crate) struct Asking {
    known: Mutex<Known>,
    /// Set once the work is a task: its questions go to the task store's clients.
    task: Mutex<Option<TaskLink>>,
    /// The number of times that the handler now waits for people, in a session. This time does not count as the handler's.
    thinking: AtomicUsize,
    /// Set when a question was answered: the handler's time then starts again.
    answered: AtomicBool,
}

/// The task a request has become.
#[derive(Clone)]
pub(crate) struct TaskLink {
    pub(crate) id: String,
    /// Sends a signal with every answer.
    pub(crate) answered: watch::Sender<()>,
}

#[derive(Default)]
pub(crate) struct Known {
    /// The answers of all rounds so far.
    pub(crate) answers: InputResponses,
    /// The questions of this round.
    pub(crate) open: InputRequests,
    /// The value given to `Cx::remember`.
    pub(crate) memory: Option<Value>,
    round: u32,
}

/// The state that the client carries from one round to the next.
#[derive(Serialize, Deserialize)]
pub(crate) struct Carried {
    answers: InputResponses,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    memory: Option<Value>,
    round: u32,
}

impl Asking {
    /// Reads the answers that a retry brings, and the state that they belong to.
    pub(crate) fn resume(request: &Request, sealer: &Sealer) -> Result<Self, RpcError> {
        let mut known = Known::default();
        if let Some(carried) = sealer.open_of::<Carried>(request)? {
            known.answers = carried.answers;
            known.memory = carried.memory;
            known.round = carried.round;
        }
        if let Some(responses) = request.input_responses() {
            let responses: InputResponses = decode(responses)
                .map_err(|_| RpcError::invalid_params("`inputResponses` must be an object"))?;
            known.answers.extend(responses);
        }
        Ok(Self {
            known: Mutex::new(known),
            ..Self::default()
        })
    }

    /// Whether the handler waits for people, and does no work.
    pub(crate) fn is_thinking(&self) -> bool {
        self.thinking.load(Ordering::Acquire) > 0
    }

    /// Whether a question was answered since the last call of this function.
    pub(crate) fn take_answered(&self) -> bool {
        self.answered.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn is_task(&self) -> bool {
        self.task().is_some()
    }

    /// Turns the request into a task: from now on answers arrive while the handler waits.
    pub(crate) fn become_task(&self, id: &str) {
        let link = TaskLink {
            id: id.into(),
            answered: watch::Sender::new(()),
        };
        *self.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(link);
    }

    /// The questions that a task waits for.
    pub(crate) fn open_questions(&self) -> InputRequests {
        self.lock().open.clone()
    }

    /// Stores answers for a task. Answers to questions that are not open are ignored.
    pub(crate) fn answer(&self, responses: InputResponses) {
        let mut known = self.lock();
        for (key, response) in responses {
            if known.open.remove(&key).is_some() {
                known.answers.insert(key, response);
            }
        }
        drop(known);
        if let Some(task) = self.task() {
            task.answered.send_replace(());
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn task(&self) -> Option<TaskLink> {
        self.task
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Makes the answer that puts the open questions to the client.
    pub(crate) fn required(
        &self,
        limits: &Limits,
        seal: impl FnOnce(&Carried) -> Result<String, RpcError>,
    ) -> Result<InputRequiredResult, RpcError> {
        let mut known = self.lock();
        if known.open.is_empty() {
            return Err(RpcError::internal(
                "the handler asked for input without a question",
            ));
        }
        if known.round >= limits.ask_rounds {
            let rounds = limits.ask_rounds;
            let error = RpcError::internal(format!("still questions after {rounds} rounds"));
            return Err(error.with_data(json!({ "limit": "ask_rounds", "value": rounds })));
        }
        let carried = Carried {
            answers: std::mem::take(&mut known.answers),
            memory: known.memory.take(),
            round: known.round + 1,
        };
        let state = seal(&carried)?;
        let open = std::mem::take(&mut known.open);
        Ok(InputRequiredResult::new(open, state))
    }
}

/// Marks that the client is being asked, until this value is dropped.
pub(crate) struct Thinking<'a>(&'a Asking);

impl<'a> Thinking<'a> {
    pub(crate) fn begin(asking: &'a Asking) -> Self {
        asking.thinking.fetch_add(1, Ordering::AcqRel);
        Self(asking)
    }
}

impl Drop for Thinking<'_> {
    fn drop(&mut self) {
        self.0.answered.store(true, Ordering::Release);
        self.0.thinking.fetch_sub(1, Ordering::AcqRel);
    }
}
