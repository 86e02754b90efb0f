//! Decides which TCP connections from this machine are served: none that is held by a process below a guard which confines to
//! less than the server gives, or which runs a named caller's command. Both are called confined here.
//!
//! For TCP the kernel tells the user and the number of the socket at the other end, not the process. So the server searches
//! `/proc` for the processes that have the socket open, but only while there is a guard that confines to less. Without one,
//! the server only reads how many processes were ever started. While there is one, a connection is served only if a process
//! was found that holds it, and none of its holders is below such a guard. A socket without a known holder (closed, on its
//! way from one process to another, moved during the search) is not served.
//!
//! Confined commands must not make this slow for others, however many processes, descriptors and connections they have. So
//! the processes outside are searched first, and a connection that none of them holds is refused without a look at the
//! descriptors of confined commands. Those are searched only for connections that a process outside holds, too. Connections
//! that wait share a search, and searches have a thread of their own (`searches.rs`).

use std::{
    collections::{HashMap, HashSet},
    fs, io,
    os::unix::fs::MetadataExt as _,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use lmcp_core::transport::{CheckingLocalPeer, LocalPeer, LocalSocket};
use lmcp_private::{
    guards::{command_line, has_fence, orphans},
    processes::{self, Search, is_about_the_process, user},
};
use lmcp_wire::RpcError;
use rustix::process::Pid;
use tokio::time::sleep;

use super::{
    peers::{self, Gate, Known, Refusal},
    searches::{Pace, Searches},
    tree::Process,
};

/// The most descriptors that a search among the processes outside reads.
const MOST_OUTSIDE: usize = 1 << 18;
/// The most descriptors that a search among confined commands reads: a tenth of a second's worth. These commands can have as
/// many as they like, and other callers wait for the search.
const MOST_INSIDE: usize = 1 << 15;

/// How often the search is repeated while it finds no decision, and the pause before each.
const TRIES: usize = 5;
const AGAIN: Duration = Duration::from_millis(20);

/// Decides about connections to a server.
#[derive(Debug)]
pub(crate) struct Holders {
    /// How many processes had ever been started at a time without a guard that confines to less. `None`: there is such a
    /// guard, or the kernel does not count.
    calm: Arc<Mutex<Option<u64>>>,
    /// Searches among the processes outside of guards.
    outside: Arc<Searches<Option<LocalSocket>, Result<Outside, Refusal>>>,
    /// Searches among the processes below guards.
    inside: Arc<Searches<LocalSocket, Result<(), Refusal>>>,
}

/// The result of a search that did not read the descriptors of confined commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outside {
    /// No confined command can hold the connection.
    Free,
    /// A process outside holds the connection. A confined one might hold it, too.
    Held,
}

/// The processes that guards confine to less, or did, and all processes.
#[derive(Debug)]
struct Look {
    /// The users of the guards, and of the processes that lost theirs. `None`: a process ended before its user was read.
    users: HashSet<Option<u32>>,
    confined: HashSet<Pid>,
    processes: Vec<Process>,
}

impl Holders {
    pub(crate) fn new(gate: Gate) -> Self {
        let calm = Arc::<Mutex<_>>::default();
        let (found_calm, gate_inside) = (Arc::clone(&calm), gate.clone());
        Self {
            calm,
            outside: Searches::new(Pace::Rested, move |sockets: Vec<_>| {
                let found = search_outside(&gate, &sockets, &found_calm);
                found.unwrap_or_default()
            }),
            inside: Searches::new(Pace::AtOnce, move |sockets: Vec<_>| {
                search_inside(&gate_inside, &sockets).unwrap_or_default()
            }),
        }
    }

    /// Decides about one connection. The slow part runs on another thread.
    pub(crate) fn check(self: Arc<Self>, peer: LocalPeer) -> CheckingLocalPeer {
        Box::pin(async move {
            if self.has_no_guards() {
                return Ok(());
            }
            self.admit(peer).await.map_err(RpcError::from)
        })
    }

    /// Returns whether no guard confines to less, and none was started since the last look.
    fn has_no_guards(&self) -> bool {
        // A guard starts a process for its command. If that happened after the look began, the count has grown. If it
        // happened before, the look has seen the guard.
        let calm = *self.calm.lock().unwrap_or_else(PoisonError::into_inner);
        calm.is_some() && calm == count_started()
    }

    /// Refuses a peer that is, or could be, below a guard that confines to less.
    async fn admit(&self, peer: LocalPeer) -> Result<(), Refusal> {
        for _ in 1..TRIES {
            match self.try_admit(&peer).await {
                // Processes came and went during the search. A process that is about to end hides its files, too.
                Err(Refusal::NotNow | Refusal::Hidden) => sleep(AGAIN).await,
                decided => return decided,
            }
        }
        self.try_admit(&peer).await
    }

    async fn try_admit(&self, peer: &LocalPeer) -> Result<(), Refusal> {
        let socket = peer.socket();
        // The search failed: too many files are open, or there is no /proc.
        let outside = self
            .outside
            .ask(socket)
            .await
            .ok_or_else(peers::why_unread)?;
        match (outside?, socket) {
            (Outside::Free, _) => Ok(()),
            (Outside::Held, Some(socket)) => {
                let inside = self.inside.ask(socket).await;
                inside.unwrap_or_else(|| Err(peers::why_unread()))
            }
            (Outside::Held, None) => Err(Refusal::Unheld),
        }
    }
}

/// Searches for these sockets among the processes that are below no guard which confines to less.
fn search_outside(
    gate: &Gate,
    sockets: &[Option<LocalSocket>],
    calm: &Mutex<Option<u64>>,
) -> io::Result<Vec<Result<Outside, Refusal>>> {
    // The count must be read before the search for guards: see `has_no_guards`.
    let started = count_started();
    let look = look_for_confined(gate)?;
    *calm.lock().unwrap_or_else(PoisonError::into_inner) =
        started.filter(|_| look.users.is_empty());
    let could_be_below = |socket: &Option<LocalSocket>| match socket {
        // No process below a guard can become another user.
        Some(socket) => look.users.contains(&Some(socket.uid)) || look.users.contains(&None),
        None => !look.users.is_empty(),
    };
    let wanted = sockets.iter().filter(|socket| could_be_below(socket));
    let wanted: Vec<_> = wanted.flatten().copied().collect();
    let holders = match &*wanted {
        [] => HashMap::new(),
        wanted => find_outside(wanted, &look)?,
    };
    let mut verdicts = HashMap::new();
    let mut decide = |socket: &Option<LocalSocket>| {
        if !could_be_below(socket) {
            return Ok(Outside::Free);
        }
        let socket = socket.as_ref().ok_or(Refusal::Unheld)?;
        let holders = holders.get(&socket.inode).filter(|it| !it.is_empty());
        for holder in holders.ok_or(Refusal::Unheld)? {
            let verdict = verdicts.entry(holder.pid);
            (*verdict.or_insert_with(|| judge(gate, *holder)))?;
        }
        Ok(Outside::Held)
    };
    Ok(sockets.iter().map(&mut decide).collect())
}

/// Searches for these sockets among the processes below guards which confine to less.
fn search_inside(gate: &Gate, sockets: &[LocalSocket]) -> io::Result<Vec<Result<(), Refusal>>> {
    let look = look_for_confined(gate)?;
    let confined = look
        .processes
        .iter()
        .filter(|it| look.confined.contains(&it.pid));
    let inodes = sockets.iter().map(|socket| socket.inode);
    let mut search = Search::of(inodes, MOST_INSIDE);
    let hidden = search.through_all_threads(confined)?;
    // Commands of other users do not show their files, but cannot hold a socket of this user.
    let hidden: HashSet<_> = hidden.into_iter().filter_map(user).collect();
    let verdict = |socket: &LocalSocket| match search.found.get(&socket.inode) {
        Some(holders) if !holders.is_empty() => Err(Refusal::Confined),
        _ if hidden.contains(&socket.uid) => Err(Refusal::Hidden),
        _ => Ok(()),
    };
    Ok(sockets.iter().map(verdict).collect())
}

/// Searches for the processes below guards for which the server refuses them, and for those whose guard is gone. Guards above the
/// server do not count.
fn look_for_confined(gate: &Gate) -> io::Result<Look> {
    let (mut narrower, mut fences, mut processes) = (Vec::new(), Vec::new(), Vec::new());
    let own = peers::own_line();
    for pid in processes::numbers()? {
        processes.extend(Process::of(pid));
        let command_line = match command_line(pid) {
            Ok(line) => line,
            Err(err) if is_about_the_process(&err) => continue,
            Err(err) => return Err(err),
        };
        if has_fence(&command_line) {
            fences.push(pid);
        }
        if gate.refusal(&command_line).is_some() && !own.contains(&pid) {
            narrower.push(pid);
        }
    }
    let orphans = orphans(&processes, &fences)?;
    let users = narrower.iter().chain(&orphans).map(|pid| user(*pid));
    let (users, mut confined) = (users.collect(), processes::below(&processes, &narrower));
    confined.extend(orphans);
    Ok(Look {
        users,
        confined,
        processes,
    })
}

/// Finds the holders of these sockets among the processes that no guard confines and that the server may read.
fn find_outside(wanted: &[LocalSocket], look: &Look) -> io::Result<HashMap<u64, Vec<Process>>> {
    let is_outside = |process: &&Process| !look.confined.contains(&process.pid);
    let outside = look.processes.iter().filter(is_outside);
    // Sockets mostly stay with the user that made them. Processes of other users may have a great many open files, so they
    // are searched only if that does not help.
    let users: HashSet<_> = wanted.iter().map(|socket| socket.uid).collect();
    let is_users = |process: &&Process| {
        let found = fs::metadata(format!("/proc/{}", process.pid));
        found.is_ok_and(|found| users.contains(&found.uid()))
    };
    let (first, then): (Vec<_>, Vec<_>) = outside.partition(is_users);
    let mut search = Search::of(wanted.iter().map(|socket| socket.inode), MOST_OUTSIDE);
    search.through(first.into_iter())?;
    if search.found.values().any(Vec::is_empty) {
        search.through(then.into_iter())?;
    }
    Ok(search.found)
}

/// Refuses a process that may not hold a connection.
fn judge(gate: &Gate, holder: Process) -> Result<(), Refusal> {
    peers::admit_process(gate, &Known::default(), holder.pid)?;
    // As long as the process is there, no other process has its number.
    let now = Process::of(holder.pid).ok_or(Refusal::Ended)?;
    let is_same = now.started == holder.started;
    is_same.then_some(()).ok_or(Refusal::Ended)
}

/// Returns how many processes and threads were ever started on this machine. `None`: the kernel does not count them.
fn count_started() -> Option<u64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let mut lines = stat.lines();
    let count = lines.find_map(|line| line.strip_prefix("processes "))?;
    // Some sandboxes always report 0.
    count.parse().ok().filter(|count| *count != 0)
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, process::Command};

    use rustix::{
        fs::fstat,
        process::{geteuid, getpid},
    };

    use super::{
        super::{owner::Owner, rights::Rights, tree},
        *,
    };

    #[test]
    fn the_holder_of_a_socket_is_found() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let inode = fstat(&socket).unwrap().st_ino;
        let mut look = Look {
            users: HashSet::new(),
            confined: HashSet::new(),
            processes: tree::all().collect(),
        };
        for uid in [geteuid().as_raw(), 64_999] {
            let wanted = [LocalSocket::new(uid, inode)];
            let found = find_outside(&wanted, &look).unwrap();
            let holders: Vec<_> = found[&inode].iter().map(|holder| holder.pid).collect();
            assert_eq!(holders, [getpid()]);
        }
        // The search outside does not find a confined process; only the other search does.
        look.confined.insert(getpid());
        let wanted = [LocalSocket::new(0, inode)];
        let found = find_outside(&wanted, &look).unwrap();
        assert!(found[&inode].is_empty());
    }

    #[test]
    fn that_there_was_no_guard_is_good_until_a_process_is_started() {
        let Some(before) = count_started() else {
            return;
        };
        let holders = Holders::new(Gate::of_server(Rights::default(), Owner::Anyone));
        assert!(!holders.has_no_guards());
        let mut is_good = false;
        // Other programs start processes, too.
        for _ in 0..1000 {
            *holders.calm.lock().unwrap() = count_started();
            is_good |= holders.has_no_guards();
        }
        assert!(is_good);
        Command::new("true").status().unwrap();
        assert!(!holders.has_no_guards());
        assert!(count_started().unwrap() > before);
    }
}
