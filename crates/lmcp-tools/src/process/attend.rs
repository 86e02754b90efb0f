//! The server attends to the guards that it started: no command outlives its guard, and no guard that has stopped working
//! stays.
//!
//! A command that is not confined can kill or halt its own guard. A guard that was killed leaves orphans behind. The
//! server finds them by their session and, where it adopts orphans (`Settings::adopt_orphans`), among its own children.
//! The server ends a guard that was halted, or that stays after its command should have ended, together with its whole
//! tree.

use std::{
    collections::HashSet,
    io,
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::ExitStatus,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    time::Duration,
};

use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitOptions, getpid, pidfd_open,
    pidfd_send_signal, set_child_subreaper, waitid, waitpid,
};
use tokio::{
    process::{Child, Command},
    signal::unix::{SignalKind, signal},
    sync::oneshot,
    task::JoinSet,
    time::sleep,
};

use super::{
    dir,
    program::Program,
    remove::remove_tree,
    tree::{self, Process},
};

/// How long a guard may take to end its command, after the time that the command has to tidy up.
pub(super) const AFTER_KILL: Duration = Duration::from_secs(5);
/// The pause between two looks at processes that do not die.
const AGAIN: Duration = Duration::from_millis(10);
/// The number of looks. A process that is still there after the last one waits for a device, and cannot be ended.
const LOOKS: usize = 200;

/// The guards of a server, and the tasks that attend to them.
#[derive(Clone, Debug)]
pub(crate) struct Guards {
    known: Arc<Known>,
    /// Ended with the server.
    tasks: Arc<Mutex<JoinSet<()>>>,
}

#[derive(Debug)]
struct Known {
    guards: Mutex<HashSet<Pid>>,
    /// Locked for reading by callers that start a guard, and for writing by the search for orphans: a guard that has
    /// started but is not in `guards` yet must not be taken for an orphan.
    starting: RwLock<()>,
    adopts: bool,
}

/// Keeps the command running: once the leash is dropped, the command must end.
#[derive(Debug)]
pub(crate) struct Leash(oneshot::Sender<()>);

impl Leash {
    /// Makes the command a job from now on: it goes on although nobody holds a leash.
    pub(super) fn let_go(self) {
        // The receiver is gone once the guard has ended.
        let _ = self.0.send(());
    }
}

impl Guards {
    /// Returns an empty set of guards. With `adopts`, every child of this process that is no guard is an orphan of one.
    /// That does not hold for a process that began with children of its own, nor for the first process of a system or
    /// container: those adopt nothing.
    pub(super) fn new(adopts: bool) -> io::Result<Self> {
        let adopts = adopts && !getpid().is_init() && tree::descendants(getpid()).is_empty();
        if adopts {
            set_child_subreaper(Some(getpid()))?;
        }
        let known = Known {
            guards: Mutex::default(),
            starting: RwLock::default(),
            adopts,
        };
        Ok(Self {
            known: Arc::new(known),
            tasks: Arc::default(),
        })
    }

    /// Starts a guard, and attends to it from then on.
    pub(super) fn start(
        &self,
        (program, guard): (&Program, &mut Command),
        grace: Duration,
        dir: PathBuf,
    ) -> io::Result<Leash> {
        let child = {
            let starting = self.known.starting.read();
            let _held = starting.unwrap_or_else(PoisonError::into_inner);
            let child = program.start(|| guard.spawn())?;
            self.known.lock().extend(pid(&child));
            child
        };
        let (leash, held) = oneshot::channel();
        let known = Arc::clone(&self.known);
        self.hold(known.attend(child, held, grace, dir));
        Ok(Leash(leash))
    }

    /// Runs a future until it is done, or until the server is gone.
    pub(super) fn hold(&self, held: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(held);
    }
}

impl Known {
    /// Waits for the end of a guard, and ends the guard itself if it was halted or is overdue.
    async fn attend(
        self: Arc<Self>,
        mut guard: Child,
        leash: oneshot::Receiver<()>,
        grace: Duration,
        dir: PathBuf,
    ) {
        let Some(pid) = pid(&guard) else { return };
        let ended = tokio::select! {
            ended = guard.wait() => ended,
            () = halted(pid) => end_tree(pid, &mut guard).await,
            () = overdue(leash, grace) => end_tree(pid, &mut guard).await,
        };
        self.lock().remove(&pid);
        if ended.is_ok_and(|status| status.signal().is_some()) {
            self.end_orphans(pid).await;
            // Removing may take long, so it is done on a blocking thread.
            let _ = tokio::task::spawn_blocking(move || tidy_up(&dir)).await;
        }
    }

    /// Ends the processes that a killed guard left behind.
    async fn end_orphans(self: &Arc<Self>, guard: Pid) {
        for _ in 0..LOOKS {
            let known = Arc::clone(self);
            let found = tokio::task::spawn_blocking(move || known.kill_orphans(guard)).await;
            // As long as one of the orphans is there, the kernel gives the session's number to no other process.
            if !found.is_ok_and(|found| found > 0) {
                return;
            }
            sleep(AGAIN).await;
        }
    }

    /// Kills the orphans of a guard, and the processes below them. Returns how many orphans there were.
    fn kill_orphans(&self, guard: Pid) -> usize {
        let starting = self.starting.write();
        let _held = starting.unwrap_or_else(PoisonError::into_inner);
        let is_orphan = |process: &Process| {
            let adopted = self.adopts && process.parent == Some(getpid());
            process.session == Some(guard) || adopted && !self.lock().contains(&process.pid)
        };
        let orphans: Vec<_> = tree::all().filter(is_orphan).collect();
        for orphan in &orphans {
            tree::signal_below(orphan.pid, Signal::KILL);
            tree::signal_if(orphan.pid, Signal::KILL, |pid| {
                Process::of(pid).is_some_and(|process| is_orphan(&process))
            });
            if orphan.has_ended() && orphan.parent == Some(getpid()) {
                // No other code collects the exit status of this child.
                let _ = waitpid(Some(orphan.pid), WaitOptions::NOHANG);
            }
        }
        orphans.len()
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<Pid>> {
        self.guards.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes the files that the guard could not remove: the scratch files of a job, or the whole folder of a command that
/// is not kept.
fn tidy_up(dir: &Path) {
    // The command may have changed the mode of the folder so that it cannot be read.
    let _ = dir::put_right(dir);
    let is_kept = dir::is_there(&dir.join(dir::KEPT));
    let doomed = if is_kept {
        dir.join(dir::SCRATCH)
    } else {
        dir.to_owned()
    };
    // The next server finds and removes the rest.
    let _ = remove_tree(&doomed);
}

/// Ends everything below a guard that does not do so itself, then the guard.
async fn end_tree(pid: Pid, guard: &mut Child) -> io::Result<ExitStatus> {
    kill_tree(pid).await;
    guard.wait().await
}

/// Does the same for a guard that another process started. The caller has made sure that the number is the guard's.
pub(super) async fn kill_tree(guard: Pid) {
    let Ok(handle) = pidfd_open(guard, PidfdFlags::empty()) else {
        return;
    };
    for _ in 0..LOOKS {
        // The guard is still there, so everything it adopted is below it.
        let found = tokio::task::spawn_blocking(move || tree::signal_below(guard, Signal::KILL));
        if !found.await.is_ok_and(|found| found > 0) {
            break;
        }
        sleep(AGAIN).await;
    }
    let _ = pidfd_send_signal(&handle, Signal::KILL);
}

/// Waits until a child of this process is halted.
async fn halted(child: Pid) {
    let Ok(mut changes) = signal(SignalKind::child()) else {
        return std::future::pending().await;
    };
    loop {
        let look = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if let Ok(Some(_)) = waitid(WaitId::Pid(child), look) {
            return;
        }
        changes.recv().await;
    }
}

/// Waits until a command whose caller is gone should have ended. Never returns if the command was made a job.
async fn overdue(leash: oneshot::Receiver<()>, grace: Duration) {
    match leash.await {
        Ok(()) => std::future::pending().await,
        Err(_) => sleep(grace + AFTER_KILL).await,
    }
}

fn pid(child: &Child) -> Option<Pid> {
    Pid::from_raw(i32::try_from(child.id()?).ok()?)
}
