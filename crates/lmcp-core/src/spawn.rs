//! Spawned tasks with an owner: when the owner goes, they go.

use std::sync::{Mutex, PoisonError};

use tokio::task::{AbortHandle, JoinSet};

/// Tasks that end with whoever holds this.
#[derive(Debug, Default)]
pub struct Tasks(Mutex<JoinSet<()>>);

impl Tasks {
    /// Runs a future beside the caller's. It can be stopped alone, too.
    pub fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(future)
    }

    /// How many have not ended.
    pub fn len(&self) -> usize {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.len()
    }

    /// Have all ended?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Stops them all.
    pub fn abort(&self) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .abort_all();
    }
}
