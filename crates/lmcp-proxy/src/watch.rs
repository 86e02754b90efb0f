//! A thread that tells a runtime when to poll stdin and stdout again.
//!
//! They cannot be registered with the runtime: it would make them non-blocking, also for the other processes that share
//! them, and it cannot wait for files at all. So a thread waits for them, and reads and writes nothing itself.

use std::{
    io::{self, PipeReader, PipeWriter, Read as _, Write as _},
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    thread,
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    stdio::{stdin, stdout},
};
use tokio::sync::Notify;

/// Stdout still has a reader.
pub(crate) const ALIVE: u8 = 1;
/// Stdin has bytes.
pub(crate) const INPUT: u8 = 2;
/// Stdout takes bytes.
pub(crate) const OUTPUT: u8 = 4;

pub(crate) struct Watch {
    shared: Arc<Shared>,
    /// Closed when this is dropped, which ends the thread.
    wake: PipeWriter,
}

struct Shared {
    /// The events to wait for. Zero from an event until the next request.
    wanted: AtomicU8,
    came: Notify,
}

impl Watch {
    pub(crate) fn new() -> io::Result<Self> {
        let (asked, wake) = io::pipe()?;
        let shared = Arc::new(Shared {
            wanted: AtomicU8::new(0),
            came: Notify::new(),
        });
        let for_thread = Arc::clone(&shared);
        thread::Builder::new()
            .name("lmcp-watch".into())
            // The thread needs hardly any stack.
            .stack_size(64 << 10)
            .spawn(move || for_thread.watch(asked))?;
        Ok(Self { shared, wake })
    }

    /// Waits until one of these events may have happened.
    pub(crate) async fn changed(&self, wanted: u8) {
        if self.shared.wanted.swap(wanted, Ordering::AcqRel) != wanted {
            // The write fails only if the thread has ended, and then nobody waits for it either.
            let _ = (&self.wake).write(&[0]);
        }
        self.shared.came.notified().await;
    }
}

impl Shared {
    fn watch(&self, mut asked: PipeReader) {
        loop {
            let wanted = self.wanted.load(Ordering::Acquire);
            let mut found = [PollFlags::empty(); 3];
            let mut all = vec![PollFd::new(&asked, PollFlags::IN)];
            if wanted & (ALIVE | OUTPUT) != 0 {
                let writes = wanted & OUTPUT != 0;
                let what = if writes {
                    PollFlags::OUT
                } else {
                    PollFlags::empty()
                };
                all.push(PollFd::from_borrowed_fd(stdout(), what));
            }
            if wanted & INPUT != 0 {
                all.push(PollFd::from_borrowed_fd(stdin(), PollFlags::IN));
            }
            if poll(&mut all, None).is_err() {
                // A signal interrupted the wait. That changes nothing.
                continue;
            }
            for (found, polled) in found.iter_mut().zip(&all) {
                *found = polled.revents();
            }
            drop(all);
            let [woken, rest @ ..] = found;
            if woken.contains(PollFlags::IN) {
                // The next turn reads the new value of `wanted`.
                let _ = asked.read(&mut [0; 64]);
            } else if !woken.is_empty() {
                return;
            }
            if rest.iter().any(|found| !found.is_empty()) {
                let _ =
                    self.wanted
                        .compare_exchange(wanted, 0, Ordering::AcqRel, Ordering::Acquire);
                self.came.notify_one();
            }
        }
    }
}
