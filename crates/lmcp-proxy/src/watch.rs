//! A thread that tells a runtime when it is worth asking about stdin and stdout again.
//!
//! They cannot be made to belong to the runtime: whether they block is a property they share with other processes, and
//! files cannot be waited for at all. So somebody else waits for them, and nothing is read or written here.

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

/// That stdout is still read.
pub(crate) const ALIVE: u8 = 1;
/// That there is something on stdin.
pub(crate) const INPUT: u8 = 2;
/// That stdout takes something.
pub(crate) const OUTPUT: u8 = 4;

pub(crate) struct Watch {
    shared: Arc<Shared>,
    /// Closed with this, which ends the thread.
    wake: PipeWriter,
}

struct Shared {
    /// What is waited for. Nothing, from when something came until it is asked for again.
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
            // It holds next to nothing.
            .stack_size(64 << 10)
            .spawn(move || for_thread.watch(asked))?;
        Ok(Self { shared, wake })
    }

    /// Waits until some of this may have become true.
    pub(crate) async fn changed(&self, wanted: u8) {
        if self.shared.wanted.swap(wanted, Ordering::AcqRel) != wanted {
            // It fails only where there is no thread, and then nobody waits for it either.
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
                // A signal came between, which changes nothing.
                continue;
            }
            for (found, polled) in found.iter_mut().zip(&all) {
                *found = polled.revents();
            }
            drop(all);
            let [woken, rest @ ..] = found;
            if woken.contains(PollFlags::IN) {
                // What is wanted now, the next turn sees.
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
