//! Tasks: requests that were answered with a handle and go on.
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
    /// Absent once it has ended: a task that is kept for its result keeps nothing else.
    call: Option<Arc<Call>>,
    /// The memory of its result.
    _counted: Option<Reservation>,
    /// As it was when it last began, asked or ended; open questions are added when it is shown.
    task: Task,
    born: Instant,
    /// Dropping it stops the work.
    stop: Option<oneshot::Sender<()>>,
}

impl TaskStore {
    /// Takes over a request's work. It can be asked for before this returns.
    pub(crate) fn adopt(&self, call: &Arc<Call>, work: Work) -> Result<Task, RpcError> {
        let limits = &call.engine.limits;
        let mut entries = self.lock();
        let owner = call.request.caller().owner();
        make_room(&mut entries, &call.request.caller().payer(), limits)?;
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

    /// Could another task of this caller be taken?
    pub(crate) fn expect_room(&self, caller: &Caller, limits: &Limits) -> Result<(), RpcError> {
        make_room(&mut self.lock(), &caller.payer(), limits)
    }

    /// It asks, or was answered.
    pub(crate) fn touch(&self, id: &str, engine: &Engine) {
        if let Some(entry) = self.lock().get_mut(id) {
            entry.task.last_updated_at = clock::now();
        }
        engine.listeners.task_changed(id);
    }

    /// The task as it stands.
    pub(crate) fn get(&self, id: &str, owner: &str) -> Result<Task, RpcError> {
        let entries = self.lock();
        let entry = entries
            .get(id)
            .filter(|entry| entry.owner == owner && !entry.is_over());
        entry.map(Entry::show).ok_or_else(|| unknown(id))
    }

    /// Hands answers to a task. Those to questions nobody asks are ignored.
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

    /// Stops a task. One that has ended stays as it is.
    pub(crate) fn cancel(&self, id: &str, owner: &str, engine: &Engine) -> Result<(), RpcError> {
        if let Some(call) = self.call(id, owner)? {
            call.cancel();
        }
        if self.end(id, |task| task.status = TaskStatus::Cancelled) {
            engine.listeners.task_changed(id);
        }
        Ok(())
    }

    /// Those of these tasks that belong to a caller.
    pub(crate) fn owned(&self, ids: Vec<String>, owner: &str) -> Vec<String> {
        let entries = self.lock();
        ids.into_iter()
            .filter(|id| entries.get(id).is_some_and(|entry| entry.owner == owner))
            .collect()
    }

    /// Stops and forgets one.
    fn forget(&self, id: &str) {
        let entry = self.lock().remove(id);
        if let Some(call) = entry.and_then(|entry| entry.call) {
            call.cancel();
        }
    }

    /// Stops and forgets all.
    pub(crate) fn clear(&self) {
        let entries = std::mem::take(&mut *self.lock());
        let running = entries.values().filter_map(|entry| entry.call.as_ref());
        running.for_each(|call| call.cancel());
    }

    /// The call of a task; none where it has ended.
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
        if let Some((call, result)) = entry.call.take().zip(entry.task.result.as_ref()) {
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
        let call = self.call.as_ref();
        let open = call.map(|call| call.asking.open_questions());
        if let Some(open) = open.filter(|open| !open.is_empty() && !task.status.is_terminal()) {
            task.status = TaskStatus::InputRequired;
            task.input_requests = Some(open);
        }
        task
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
        // Nobody can ask for it any more.
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

/// Forgets tasks whose time is over. The others must stay readable: if they leave no room for one more of this owner, it
/// is refused.
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
