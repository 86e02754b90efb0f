//! The orderly end of children: a signal to one process, the end of all processes, and a way to wait for it. Not the end of an
//! identity, which is in `children`.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use rustix::{
    fd::{AsFd as _, OwnedFd},
    io::Errno,
    process::{
        PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open,
        pidfd_send_signal, waitid,
    },
};
use tokio::{sync::oneshot, time::timeout};

use crate::{
    handle::HostHandle,
    host::{Host, Inner},
    member::{ChildHandle, Member},
    stat::{Started, Stat},
};

/// How long to wait for processes that were killed. The kernel ends them at once, unless they wait for a device.
const KILLED_WAIT: Duration = Duration::from_secs(5);

/// A result that comes later: a future waits for it by `.await`, and a thread without a runtime by [`Waiting::wait`]. If the
/// host closes meanwhile, the result is `T::default()`. Dropping this value stops the work.
#[derive(Debug)]
#[must_use = "the work stops when this is dropped"]
pub struct Waiting<T>(oneshot::Receiver<T>);

impl<T: Default + Send + 'static> Waiting<T> {
    fn new(host: Option<&Inner>, work: impl Future<Output = T> + Send + 'static) -> Self {
        let (mut sender, result) = oneshot::channel();
        if let Some(host) = host {
            host.spawn(async move {
                let done = tokio::select! {
                    () = sender.closed() => return,
                    done = work => done,
                };
                let _ = sender.send(done);
            });
        }
        Self(result)
    }

    /// Waits on a thread without a runtime, and blocks the thread.
    ///
    /// # Panics
    /// If called from asynchronous code, which it would block.
    pub fn wait(self) -> T {
        self.0.blocking_recv().unwrap_or_default()
    }
}

impl<T: Default> Future for Waiting<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let result = Pin::new(&mut self.0).poll(cx);
        result.map(Result::unwrap_or_default)
    }
}

impl Host {
    /// Ends the processes of all children, for a program that quits. [`Host::finish`] comes after it.
    ///
    /// - A child with a terminal of its own is hung up (SIGHUP), as if the terminal were closed. Any other child is asked to
    ///   terminate (SIGTERM). A stopped process is continued, so that it can end.
    /// - After `grace`, the children that still run are killed (SIGKILL). The result is their number.
    ///
    /// If the host waits for the process of a child ([`ChildHandle::watch`]) and the process leads a group, the signals go to
    /// the whole group. Otherwise they go to the process alone, because another group could have the number by then. The
    /// events of these children can be read when the result is there. Children without a process are left alone.
    ///
    /// ```no_run
    /// # async fn demo(host: lmcp::embed::Host) {
    /// # use std::time::Duration;
    /// let killed = host.end_children(Duration::from_secs(5)).await; // in a synchronous `main`: `.wait()`
    /// if killed > 0 {
    ///     eprintln!("{killed} children had to be killed");
    /// }
    /// host.finish(Duration::from_secs(1));
    /// # }
    /// ```
    ///
    /// # Cancellation
    /// The first signals are sent by the call itself. If the result is dropped within `grace`, nobody is killed.
    pub fn end_children(&self, grace: Duration) -> Waiting<usize> {
        self.handle().end_children(grace)
    }

    /// Waits until there are no children. The wait includes a child that has no process yet, or is made meanwhile. The events
    /// of all children can be read when the result is there.
    ///
    /// ```no_run
    /// # async fn demo(host: lmcp::embed::Host) {
    /// # use std::time::Duration;
    /// tokio::select! {
    ///     () = host.all_ended() => {}
    ///     _ = tokio::signal::ctrl_c() => drop(host.end_children(Duration::from_secs(5)).await),
    /// }
    /// host.finish(Duration::from_secs(1));
    /// # }
    /// ```
    pub fn all_ended(&self) -> Waiting<()> {
        self.handle().all_ended()
    }
}

impl HostHandle {
    /// Ends the processes of all children: [`Host::end_children`].
    pub fn end_children(&self, grace: Duration) -> Waiting<usize> {
        let mut running = self.children();
        running.retain(|child| child.process().is_some());
        for child in &running {
            // The process may have ended, or belong to another user now.
            let _ = child.member.ask_to_end();
        }
        Waiting::new(self.inner().as_deref(), end(running, grace))
    }

    /// Waits until there are no children: [`Host::all_ended`].
    pub fn all_ended(&self) -> Waiting<()> {
        let inner = self.inner();
        let children = inner.as_ref().map(|inner| Arc::clone(&inner.children));
        Waiting::new(inner.as_deref(), async move {
            while let Some(first) = children.as_ref().and_then(|known| known.all().pop()) {
                told(&first).await;
            }
        })
    }
}

/// Waits until these have ended, and kills those that have not after `grace`. Returns how many were killed.
async fn end(running: Vec<ChildHandle>, grace: Duration) -> usize {
    if timeout(grace, all_told(&running)).await.is_ok() {
        return 0;
    }
    let still = running.into_iter().filter(|child| !child.has_ended());
    let killed: Vec<_> = still
        .filter(|child| child.member.signal_group(Signal::KILL).is_ok())
        .collect();
    let _ = timeout(KILLED_WAIT, all_told(&killed)).await;
    killed.len()
}

async fn all_told(children: &[ChildHandle]) {
    for child in children {
        told(child).await;
    }
}

/// Waits until a child has ended and its last event was sent.
async fn told(child: &ChildHandle) {
    let mut gone = child.member.gone.subscribe();
    let _ = gone.wait_for(|gone| *gone).await;
}

impl ChildHandle {
    /// Sends a signal to the process of the child, and to no other process, even if the process ends meanwhile and another one
    /// gets its number. [`Host::end_children`] ends all children.
    ///
    /// ```no_run
    /// # use lmcp::embed::{ChildHandle, Signal};
    /// # fn demo(child: &ChildHandle) -> std::io::Result<()> {
    /// child.signal(Signal::TERM)
    /// # }
    /// ```
    ///
    /// # Errors
    /// The child has no process, its process has ended, or the process belongs to another user.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        let process = self.member.process().ok_or(Errno::SRCH)?;
        Ok(pidfd_send_signal(open(process)?, signal)?)
    }
}

impl Member {
    /// Hangs up a child with a terminal of its own, and asks any other to terminate.
    fn ask_to_end(&self) -> io::Result<()> {
        let process = self.process().ok_or(Errno::SRCH)?;
        let signal = match Stat::of(process.process)?.leads_terminal {
            true => Signal::HUP,
            false => Signal::TERM,
        };
        self.signal_group(signal)?;
        self.signal_group(Signal::CONT)
    }

    /// Sends a signal to the group that the process leads, if the number of the group is surely still its own, and else to
    /// the process.
    fn signal_group(&self, signal: Signal) -> io::Result<()> {
        let process = self.process().ok_or(Errno::SRCH)?;
        let handle = open(process)?;
        // While this is locked, the host does not wait for the process. The program does not either if it has left that to the
        // host, so the number of the process, and of its group, stays its own.
        let _unreaped = self.watched();
        let is_own = self.is_left_to_host() && is_unreaped(&handle);
        let group = Stat::of(process.process)?.group;
        if is_own && group == Some(process.process) {
            kill_process_group(process.process, signal)?;
        } else {
            pidfd_send_signal(&handle, signal)?;
        }
        Ok(())
    }
}

/// Opens a process, if it has not been waited for.
fn open(process: Started) -> io::Result<OwnedFd> {
    let handle = pidfd_open(process.process, PidfdFlags::empty())?;
    // The process is opened before the look at it, so that the checked process is the opened one.
    match Stat::of(process.process) {
        Ok(found) if found.process == process => Ok(handle),
        Ok(_) | Err(_) => Err(Errno::SRCH.into()),
    }
}

/// Returns whether this program started a process that nobody has waited for.
fn is_unreaped(process: &OwnedFd) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    waitid(WaitId::PidFd(process.as_fd()), options).is_ok()
}
