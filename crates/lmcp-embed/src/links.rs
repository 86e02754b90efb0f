//! The open connections of one child, each with the process at its other end: so that a connection ends when its process turns out to
//! belong to another child.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::Pid;
use tokio::sync::watch;

use crate::stat::{Started, Stat};

/// The connections of one child.
#[derive(Debug, Default)]
pub(crate) struct Links(Mutex<Vec<Link>>);

#[derive(Debug)]
struct Link {
    process: Started,
    /// True ends the connection. Closed when the connection has ended.
    cut: watch::Sender<bool>,
}

impl Links {
    /// Adds a connection of this process. The receiver becomes true when the connection must end.
    pub(crate) fn add(&self, process: Started) -> watch::Receiver<bool> {
        let mut links = self.lock();
        links.retain(|link| !link.cut.is_closed());
        let (cut, gone) = watch::channel(false);
        links.push(Link { process, cut });
        gone
    }

    /// Ends the connections whose processes still live, and are not those of this child. A process that has ended cannot be judged:
    /// somebody else holds its connection by now.
    pub(crate) fn end_foreign(&self, is_own: impl Fn(Pid) -> bool) {
        let now = |process: Started| Stat::of(process.process).map(|stat| stat.process);
        self.lock().retain(|link| {
            let lives = || now(link.process).is_ok_and(|now| now == link.process);
            let stays = is_own(link.process.process) || !lives();
            if !stays {
                link.cut.send_replace(true);
            }
            stays
        });
    }

    /// Ends all connections.
    pub(crate) fn end_all(&self) {
        for link in self.lock().drain(..) {
            link.cut.send_replace(true);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Link>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
