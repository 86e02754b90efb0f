//! Threads for long steps that only calculate: they give way to all other threads, among them the one that serves all callers.
//!
//! Nothing here may start a process: it would inherit the priority.

use std::{io, panic::resume_unwind, thread};

use rustix::process::{getpriority_process, setpriority_process};

/// How much lower the priority of such a thread is. Beside a thread that serves it gets a tenth of a processor.
const LOWER: i32 = 10;

/// The stack of such a thread.
const STACK_BYTES: usize = 1 << 20;

/// Runs a step on a thread of its own that gives way to others, and waits for it.
///
/// # Errors
/// No thread can be started.
pub(crate) fn giving_way<T: Send>(step: impl FnOnce() -> T + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(STACK_BYTES);
        let running = thread.spawn_scoped(scope, || {
            give_way();
            step()
        })?;
        Ok(running
            .join()
            .unwrap_or_else(|panicked| resume_unwind(panicked)))
    })
}

/// Makes this thread give way from now on. A thread cannot take that back.
pub(crate) fn give_way() {
    // In Linux each thread has a priority of its own. Where it cannot be changed, the step only takes more from others.
    if let Ok(own) = getpriority_process(None) {
        let _ = setpriority_process(None, own + LOWER);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_gives_way_leaves_the_thread_that_waits_as_it_is() {
        let before = getpriority_process(None).unwrap();
        let lowered = giving_way(|| getpriority_process(None).unwrap()).unwrap();
        assert_eq!(lowered, (before + LOWER).min(19));
        assert_eq!(getpriority_process(None).unwrap(), before);
    }
}
