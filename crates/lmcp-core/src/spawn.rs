//! Spawned tasks with an owner. When the owner is dropped, the tasks are stopped.

use std::sync::{Mutex, PoisonError};

use tokio::task::{AbortHandle, JoinSet};

/// Tasks that are stopped when this value is dropped.
#[derive(Debug, Default)]
pub struct Tasks(Mutex<JoinSet<()>>);

impl Tasks {
    /// Spawns a future. The handle stops this task alone.
    pub fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(future)
    }

    /// The number of tasks that have not ended.
    pub fn len(&self) -> usize {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.len()
    }

    /// Whether all tasks have ended.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Stops all tasks.
    pub fn abort(&self) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .abort_all();
    }
}
