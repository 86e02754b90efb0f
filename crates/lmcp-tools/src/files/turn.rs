//! Calls that change files wait here, while others change these files.
//!
//! A step that finds one of its files in use ends, and is run again. So a call that waits has no thread and none of its
//! files: it keeps nobody else waiting, and a call that is cancelled waits no longer. Another call of this server
//! hands the file over when it is done. A program that locks the file tells nobody, so the step looks again and again.

use std::{
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use lmcp_core::{Cx, ToolResult};
use tokio::time::{Instant, sleep};

use super::{
    atomic::Failed,
    locks::{Alone, Key, Locks},
};
use crate::memory::{Memory, blocking_within};

/// How far a call has come in its wait.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    /// The file that another call has handed over, for the next run of the step.
    own: Mutex<Option<Alone>>,
    /// When the call waits no longer for programs that lock its files. Set when the first of them is met.
    until: OnceLock<Instant>,
}

impl Turn {
    /// Takes files that no other call of this server is to write meanwhile.
    ///
    /// # Errors
    /// `Taken` if another call writes one of them.
    pub(crate) fn take<'a>(
        &self,
        locks: &Locks,
        keys: impl IntoIterator<Item = &'a Key>,
    ) -> Result<Vec<Alone>, Failed> {
        locks.take(keys, self.hand_over(None))
    }

    /// Returns whether the call is to wait longer for a locked file. If not, it changes the file all the same: a lock that
    /// is never released stops no write.
    pub(super) fn is_patient(&self) -> bool {
        Instant::now() < *self.until.get_or_init(|| Instant::now() + LONGEST_WAIT)
    }

    fn hand_over(&self, file: Option<Alone>) -> Option<Alone> {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut own, file)
    }

    #[cfg(test)]
    pub(super) fn impatient() -> Self {
        Self {
            until: Instant::now().into(),
            ..Self::default()
        }
    }
}

/// Runs a step that changes files on another thread, again and again until none of them is in use. The step takes its
/// files before it changes anything.
///
/// # Errors
/// As for [`blocking_within`].
pub(crate) async fn in_turn<T: Send + 'static>(
    cx: &Cx,
    step: impl Fn(&mut Memory, &Turn) -> Result<T, Failed> + Send + Sync + 'static,
) -> ToolResult<T> {
    let step = Arc::new((step, Turn::default()));
    let mut pause = SHORTEST_PAUSE;
    loop {
        let running = Arc::clone(&step);
        let done = blocking_within(cx, move |memory| {
            let (step, turn) = &*running;
            match step(memory, turn) {
                Err(Failed::Told(err)) => Err(err),
                done => Ok(done),
            }
        });
        match done.await? {
            Ok(done) => return Ok(done),
            Err(Failed::Taken(writers)) => {
                step.1.hand_over(Some(writers.lock_owned().await));
            }
            Err(Failed::Told(_) | Failed::Changed | Failed::Locked) => {
                sleep(pause).await;
                pause = LONGEST_PAUSE.min(2 * pause);
            }
        }
    }
}

/// This server holds a file only as long as the disk needs, and so does every program that means well.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// The first pause before a step looks again at a locked file. Each further pause is twice as long, up to the longest.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);

/// With longer pauses, a call would often miss the moments in which busy programs let go of a file.
const LONGEST_PAUSE: Duration = Duration::from_millis(20);
