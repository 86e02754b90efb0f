//! Which TCP connections from this machine are served: none that a process holds which some guard confines to less than the
//! server gives.
//!
//! For TCP the kernel tells the user and the number of the socket at the other end, not the process. So the processes that
//! have the socket open are looked for in `/proc`, but only while there is a guard that confines to less: without one, all
//! that is read is how many processes were ever started. While there is one, a connection is served only if a process was
//! found that holds it, and none of its holders is below such a guard. A socket that nobody seems to hold (closed, on its
//! way from one process to another, moved while we looked) is not served.
//!
//! A look at all processes takes milliseconds. Connections that wait share one, so that many of them cost no more than one.

use std::{
    collections::{HashMap, HashSet},
    fs, io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use lmcp_core::transport::{CheckingLocalPeer, LocalPeer};
use lmcp_wire::RpcError;
use rustix::{
    fs::{CWD, Dir, Mode, OFlags, openat, readlinkat},
    process::{Pid, getpid},
};
use tokio::{sync::Mutex as AsyncMutex, task::spawn_blocking, time::sleep};

use super::{
    peers::{self, Refusal},
    rights::Rights,
    tree::{self, Process},
};

/// A look reads no more descriptors than this, those of confined commands last: they cannot make it take for ever.
const MOST_DESCRIPTORS: usize = 1 << 18;

/// Decides about connections to a server that gives these rights.
#[derive(Debug)]
pub(crate) struct Holders {
    rights: Rights,
    latest: Mutex<Option<Arc<Look>>>,
    /// Connections are decided about in turn, so that all that wait share one look.
    turn: AsyncMutex<()>,
}

/// What there was at one time.
#[derive(Debug)]
struct Look {
    began: Instant,
    /// How many processes had ever been started when it began; `None` if the kernel does not count them.
    started: Option<u64>,
    /// The guards that confine to less than the server gives.
    guards: Vec<Guard>,
    /// Who holds which socket, by the socket's number. Nothing without guards.
    sockets: Vec<(u64, Process)>,
    /// What was found out about holders since.
    verdicts: Mutex<HashMap<Pid, Result<(), Refusal>>>,
}

#[derive(Debug)]
struct Guard {
    pid: Pid,
    /// `None` if it ended while it was looked at.
    uid: Option<u32>,
}

impl Holders {
    pub(crate) fn new(rights: Rights) -> Self {
        Self {
            rights,
            latest: Mutex::default(),
            turn: AsyncMutex::default(),
        }
    }

    /// Decides about one connection. What takes long is done on another thread.
    pub(crate) fn check(self: Arc<Self>, peer: LocalPeer) -> CheckingLocalPeer {
        Box::pin(async move {
            if self.has_no_guards() {
                return Ok(());
            }
            self.admit(peer).await.map_err(RpcError::from)
        })
    }

    /// Does no guard confine to less, and was none started since somebody looked?
    fn has_no_guards(&self) -> bool {
        let latest = self.latest();
        let Some(look) = latest.as_ref().filter(|look| look.guards.is_empty()) else {
            return false;
        };
        // A guard starts a process for its command. If that happened after the look began, the number has grown; if it
        // happened before, the guard was there to be seen.
        look.started.is_some() && look.started == count_started()
    }

    /// Refuses a peer that a narrower guard confines, or that could be one. Takes milliseconds while there is such a guard.
    async fn admit(&self, peer: LocalPeer) -> Result<(), Refusal> {
        for _ in 1..TRIES {
            match self.try_admit(&peer).await {
                // Processes came and went while they were looked at.
                Err(Refusal::NotNow) => sleep(AGAIN).await,
                decided => return decided,
            }
        }
        self.try_admit(&peer).await
    }

    async fn try_admit(&self, peer: &LocalPeer) -> Result<(), Refusal> {
        let _turn = self.turn.lock().await;
        let look = self.look_after(peer.taken()).await?;
        let could_be_below = |guard: &Guard| match (guard.uid, peer.socket()) {
            // Nobody below a guard can become another user.
            (Some(uid), Some(socket)) => uid == socket.uid,
            _ => true,
        };
        if !look.guards.iter().any(could_be_below) {
            return Ok(());
        }
        let inode = peer.socket().ok_or(Refusal::Unheld)?.inode;
        let holders: Vec<_> = look.holders(inode).collect();
        if holders.is_empty() {
            return Err(Refusal::Unheld);
        }
        for holder in holders {
            self.judge(&look, holder).await?;
        }
        Ok(())
    }

    /// A look that began after a connection was accepted, and so knows whoever made it.
    async fn look_after(&self, taken: Instant) -> Result<Arc<Look>, Refusal> {
        let latest = self.latest().clone();
        if let Some(look) = latest.filter(|look| look.began > taken) {
            return Ok(look);
        }
        let rights = self.rights.clone();
        let look = spawn_blocking(move || Look::new(&rights)).await;
        // Too many files are open, or there is no /proc.
        let look = look.map_err(io::Error::from).flatten();
        let look = Arc::new(look.map_err(|_| Refusal::NotNow)?);
        *self.latest() = Some(Arc::clone(&look));
        Ok(look)
    }

    /// May this process hold a connection? The same process is judged once in a look, however many it holds.
    async fn judge(&self, look: &Look, holder: Process) -> Result<(), Refusal> {
        if let Some(verdict) = look.verdicts().get(&holder.pid) {
            return *verdict;
        }
        let rights = self.rights.clone();
        let judged = spawn_blocking(move || {
            peers::admit_process(&rights, holder.pid)?;
            // As long as it is there, nobody else has its number.
            let now = Process::of(holder.pid).ok_or(Refusal::Ended)?;
            let is_same = now.started == holder.started;
            is_same.then_some(()).ok_or(Refusal::Ended)
        });
        let verdict = judged.await.unwrap_or(Err(Refusal::NotNow));
        if verdict != Err(Refusal::NotNow) {
            look.verdicts().insert(holder.pid, verdict);
        }
        verdict
    }

    fn latest(&self) -> MutexGuard<'_, Option<Arc<Look>>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How often it is looked again where nobody could tell, and how long after the time before.
const TRIES: usize = 5;
const AGAIN: Duration = Duration::from_millis(20);

impl Look {
    fn new(rights: &Rights) -> io::Result<Self> {
        let began = Instant::now();
        // Before the guards are looked for, see `has_no_guards`.
        let started = count_started();
        let guards = narrower_guards(rights)?;
        let mut sockets = match &*guards {
            [] => Vec::new(),
            guards => sockets(guards)?,
        };
        sockets.sort_unstable_by_key(|(inode, _)| *inode);
        Ok(Self {
            began,
            started,
            guards,
            sockets,
            verdicts: Mutex::default(),
        })
    }

    fn verdicts(&self) -> MutexGuard<'_, HashMap<Pid, Result<(), Refusal>>> {
        self.verdicts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn holders(&self, inode: u64) -> impl Iterator<Item = Process> {
        let first = self.sockets.partition_point(|(each, _)| *each < inode);
        let rest = self.sockets.iter().skip(first);
        let found = rest.take_while(move |(each, _)| *each == inode);
        found.map(|(_, holder)| *holder)
    }
}

/// The guards of this system that confine to less than these rights, but for those that confine us, too.
fn narrower_guards(rights: &Rights) -> io::Result<Vec<Guard>> {
    let mut found = Vec::new();
    for pid in tree::numbers()? {
        let command_line = match fs::read(format!("/proc/{pid}/cmdline")) {
            Ok(line) => line,
            Err(err) if is_about_the_process(&err) => continue,
            Err(err) => return Err(err),
        };
        if peers::is_narrower_guard(&command_line, rights) && !tree::is_below(getpid(), pid) {
            let uid = user(pid);
            found.push(Guard { pid, uid });
        }
    }
    Ok(found)
}

/// Who has which socket open, of the processes that we may look into. Those below a guard come last.
fn sockets(guards: &[Guard]) -> io::Result<Vec<(u64, Process)>> {
    let confined = guards.iter().flat_map(|guard| tree::descendants(guard.pid));
    let confined: HashSet<Pid> = confined.collect();
    let others = tree::numbers()?.filter(|pid| !confined.contains(pid));
    let (mut found, mut left) = (Vec::new(), MOST_DESCRIPTORS);
    for pid in others.chain(confined.iter().copied()) {
        match add_sockets(pid, &mut found, &mut left) {
            Err(err) if !is_about_the_process(&err) => return Err(err),
            _ => {}
        }
    }
    Ok(found)
}

fn add_sockets(pid: Pid, found: &mut Vec<(u64, Process)>, left: &mut usize) -> io::Result<()> {
    // First: if its start is still the same at the end, it was this process all the time.
    let Some(process) = Process::of(pid) else {
        return Ok(());
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = openat(CWD, format!("/proc/{pid}/fd"), flags, Mode::empty())?;
    let mut target = Vec::new();
    for entry in Dir::read_from(&folder)? {
        let Some(rest) = left.checked_sub(1) else {
            return Ok(());
        };
        *left = rest;
        let entry = entry?;
        // It may have been closed.
        let Ok(link) = readlinkat(&folder, entry.file_name(), target) else {
            target = Vec::new();
            continue;
        };
        target = link.into_bytes();
        found.extend(socket_number(&target).map(|inode| (inode, process)));
    }
    Ok(())
}

/// The number in `socket:[NUMBER]`.
fn socket_number(target: &[u8]) -> Option<u64> {
    let number = target.strip_prefix(b"socket:[")?.strip_suffix(b"]")?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

/// It has ended, or is not for us to look into: all others can still be looked at.
fn is_about_the_process(err: &io::Error) -> bool {
    use rustix::io::Errno;
    let about = [Errno::NOENT, Errno::SRCH, Errno::ACCESS, Errno::PERM];
    Errno::from_io_error(err).is_some_and(|err| about.contains(&err))
}

/// The user of a process. (Who owns its folder in `/proc` is another question: root, if it cannot be dumped.)
fn user(pid: Pid) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// How many processes and threads were ever started on this machine. `None`: the kernel does not count them.
fn count_started() -> Option<u64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let mut lines = stat.lines();
    let count = lines.find_map(|line| line.strip_prefix("processes "))?;
    // Some sandboxes always say 0.
    count.parse().ok().filter(|count| *count != 0)
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, process::Command};

    use rustix::fs::fstat;

    use super::*;

    #[test]
    fn the_holder_of_a_socket_is_found() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let inode = fstat(&socket).unwrap().st_ino;
        let found = sockets(&[]).unwrap();
        let holders = found.iter().filter(|(each, _)| *each == inode);
        let holders: Vec<_> = holders.map(|(_, holder)| holder.pid).collect();
        assert_eq!(holders, [getpid()]);
    }

    #[test]
    fn a_look_that_finds_no_guard_is_good_until_a_process_is_started() {
        let Some(before) = count_started() else {
            return;
        };
        let holders = Holders::new(Rights::default());
        let look = |guards| Look {
            began: Instant::now(),
            started: count_started(),
            guards,
            sockets: Vec::new(),
            verdicts: Mutex::default(),
        };
        let mut is_good = false;
        // Others start processes, too.
        for _ in 0..1000 {
            *holders.latest() = Some(Arc::new(look(Vec::new())));
            is_good |= holders.has_no_guards();
        }
        assert!(is_good);
        Command::new("true").status().unwrap();
        assert!(!holders.has_no_guards());
        assert!(count_started().unwrap() > before);
        let (pid, uid) = (getpid(), None);
        *holders.latest() = Some(Arc::new(look(vec![Guard { pid, uid }])));
        assert!(!holders.has_no_guards());
    }
}
