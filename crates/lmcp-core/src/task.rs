//! Tasks: requests that were answered with an id, and whose work goes on.
//!
//! The store owns the work. A task belongs to the caller that started it, and is forgotten some time after it ended.

use std::{
    collections::BTreeMap,
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use lmcp_wire::{
    RpcError,
    input::InputResponses,
    task::{Task, TaskStatus},
};
use tokio::{sync::oneshot, time::Instant};

use crate::{
    budget::{Reservation, expect_share},
    call::{Call, Work, poll_fenced},
    caller::Caller,
    clock,
    limits::Limits,
    random,
    resource::millis,
    server::Engine,
};

/// All tasks of a server.
#[derive(Default)]
pub(crate) struct TaskStore(Mutex<BTreeMap<String, Entry>>);

struct Entry {
    owner: String,
    /// `None` once the task has ended: of an ended task, only the result is kept.
    call: Option<Arc<Call>>,
    /// The memory of the result.
    _counted: Option<Reservation>,
    /// The task as it was when it last started, asked or ended. Open questions are added when the task is shown.
    task: Task,
    born: Instant,
    /// Dropping this stops the work.
    stop: Option<oneshot::Sender<()>>,
}

impl TaskStore {
    /// Takes over a request's work. It can be asked for before this returns. Gives the work back where others have taken the last place
    /// since there was room.
    pub(crate) fn adopt(&self, call: &Arc<Call>, work: Work) -> Result<Task, Work> {
        let limits = &call.engine.limits;
        let mut entries = self.lock();
        let owner = call.request.caller().owner();
        if make_room(&mut entries, &call.request.caller().payer(), limits).is_err() {
            return Err(work);
        }
        let id = random::hex::<16>();
        let mut task = Task::working(id.clone(), clock::now());
        task.ttl_ms = Some(millis(limits.task_wait));
        task.poll_interval_ms = Some(millis(limits.task_poll));
        call.asking.become_task(&id);
        let (stop, stopped) = oneshot::channel();
        let call = Arc::clone(call);
        let entry = Entry {
            owner: owner.into_owned(),
            call: Some(Arc::clone(&call)),
            _counted: None,
            task: task.clone(),
            born: Instant::now(),
            stop: Some(stop),
        };
        entries.insert(id.clone(), entry);
        drop(entries);
        let engine = Arc::clone(&call.engine);
        engine.spawned.spawn(drive(id, call, work, stopped));
        Ok(task)
    }

    /// Checks that this caller may have another task.
    pub(crate) fn expect_room(&self, caller: &Caller, limits: &Limits) -> Result<(), RpcError> {
        make_room(&mut self.lock(), &caller.payer(), limits)
    }

    /// Notes the time of a question or an answer, and announces the change.
    pub(crate) fn touch(&self, id: &str, engine: &Engine) {
        if let Some(entry) = self.lock().get_mut(id) {
            entry.task.last_updated_at = clock::now();
        }
        engine.listeners.task_changed(id);
    }

    /// Returns the present state of a task.
    pub(crate) fn get(&self, id: &str, owner: &str) -> Result<Task, RpcError> {
        let entries = self.lock();
        let entry = entries
            .get(id)
            .filter(|entry| entry.owner == owner && !entry.is_over());
        entry.map(Entry::show).ok_or_else(|| unknown(id))
    }

    /// Hands answers to a task. Answers to questions that are not open are ignored.
    pub(crate) fn answer(
        &self,
        id: &str,
        owner: &str,
        responses: InputResponses,
        engine: &Engine,
    ) -> Result<(), RpcError> {
        if let Some(call) = self.call(id, owner)? {
            call.asking.answer(responses);
            self.touch(id, engine);
        }
        Ok(())
    }

    /// Stops a task. A task that has ended stays as it is.
    pub(crate) fn cancel(&self, id: &str, owner: &str, engine: &Engine) -> Result<(), RpcError> {
        if let Some(call) = self.call(id, owner)? {
            call.cancel();
        }
        if self.end(id, |task| task.status = TaskStatus::Cancelled) {
            engine.listeners.task_changed(id);
        }
        Ok(())
    }

    /// Returns the ids of those tasks that belong to this owner.
    pub(crate) fn owned(&self, ids: Vec<String>, owner: &str) -> Vec<String> {
        let entries = self.lock();
        ids.into_iter()
            .filter(|id| entries.get(id).is_some_and(|entry| entry.owner == owner))
            .collect()
    }

    /// Stops and forgets a task.
    fn forget(&self, id: &str) {
        let entry = self.lock().remove(id);
        if let Some(call) = entry.and_then(|entry| entry.call) {
            call.cancel();
        }
    }

    /// Stops and forgets all tasks.
    pub(crate) fn clear(&self) {
        let entries = std::mem::take(&mut *self.lock());
        let running = entries.values().filter_map(|entry| entry.call.as_ref());
        running.for_each(|call| call.cancel());
    }

    /// Returns the call of a task. `None`: the task has ended.
    fn call(&self, id: &str, owner: &str) -> Result<Option<Arc<Call>>, RpcError> {
        let entries = self.lock();
        let entry = entries.get(id).filter(|entry| entry.owner == owner);
        entry
            .map(|entry| entry.call.clone())
            .ok_or_else(|| unknown(id))
    }

    /// Ends a task, unless it has ended before.
    fn end(&self, id: &str, change: impl FnOnce(&mut Task)) -> bool {
        let mut entries = self.lock();
        let Some(entry) = entries
            .get_mut(id)
            .filter(|entry| !entry.task.status.is_terminal())
        else {
            return false;
        };
        change(&mut entry.task);
        entry.task.last_updated_at = clock::now();
        entry.stop = None;
        let Some(call) = entry.call.take() else {
            return true;
        };
        entry.task.ttl_ms = Some(entry.kept_from_now(&call.engine.limits));
        if let Some(result) = &entry.task.result {
            let account = call.engine.budget.account(Caller::payer_of(&entry.owner));
            entry._counted = Some(account.take(result.get().len()));
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn show(&self) -> Task {
        let mut task = self.task.clone();
        let Some(call) = &self.call else {
            return task;
        };
        // Spec, tasks: a client may give up a task when this time has passed since its creation, and it may change.
        task.ttl_ms = Some(self.kept_from_now(&call.engine.limits));
        let open = call.asking.open_questions();
        if !open.is_empty() {
            task.status = TaskStatus::InputRequired;
            task.input_requests = Some(open);
        }
        task
    }

    /// How long it is kept if it ends now: milliseconds since its creation. That grows as it runs, so that nobody was ever told of a time
    /// at which its result may be gone; and in steps, so that it seldom changes. After its end it is kept for one step at least.
    fn kept_from_now(&self, limits: &Limits) -> u64 {
        let wait = millis(limits.task_wait);
        let step = wait.div_ceil(2).max(1);
        let steps = millis(self.born.elapsed()) / step;
        wait.saturating_add(steps.saturating_mul(step))
    }

    /// Ended, and its time has passed.
    fn is_over(&self) -> bool {
        let kept = self
            .task
            .ttl_ms
            .map_or(Duration::MAX, Duration::from_millis);
        self.task.status.is_terminal() && self.born.elapsed() > kept
    }
}

/// Runs a task to its end, or until it is stopped.
async fn drive(id: String, call: Arc<Call>, mut work: Work, mut stopped: oneshot::Receiver<()>) {
    let caller = call.request.caller().clone();
    let result = tokio::select! {
        biased;
        _ = &mut stopped => return,
        // The caller is gone for good, so nobody can ask for the task any more.
        () = caller.gone() => return call.engine.tasks.forget(&id),
        result = poll_fn(|cx| poll_fenced(&mut work, &call, cx)) => result,
    };
    let settled = call.settle(result);
    let engine = &call.engine;
    let ended = engine.tasks.end(&id, |task| match settled {
        Ok(outcome) => {
            task.status = TaskStatus::Completed;
            task.result = (engine.forms.task_result)(outcome);
        }
        Err(error) => {
            task.status = TaskStatus::Failed;
            task.status_message = Some(error.message.clone().into_owned());
            task.error = Some(error);
        }
    });
    if ended {
        engine.listeners.task_changed(&id);
    }
}

/// Forgets ended tasks whose time is over. The other tasks are kept. If they leave no room for another task of this payer, that
/// task is refused.
fn make_room(
    entries: &mut BTreeMap<String, Entry>,
    payer: &str,
    limits: &Limits,
) -> Result<(), RpcError> {
    entries.retain(|_, entry| !entry.is_over());
    let mine = entries
        .values()
        .filter(|entry| Caller::payer_of(&entry.owner) == payer);
    expect_share("tasks", mine.count(), entries.len(), limits.tasks)
}

pub(crate) fn unknown(id: &str) -> RpcError {
    RpcError::invalid_params(format!("there is no task `{id}`"))
}
