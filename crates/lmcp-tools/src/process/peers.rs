//! Which processes may use a socket of ours: none that some guard confines to less than the socket gives.
//!
//! The kernel says which process connected. A guard adopts whatever its command starts, so the guard of a confined command
//! is always among the processes above it, and its command line says what it confines to. A command cannot change that
//! line; a line that it forges can only take more away from it. A process whose guard is gone is known by its mark
//! (`lmcp_private::mark`).

use std::{
    collections::HashMap,
    fs,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::MetadataExt as _,
    },
    sync::{Mutex, MutexGuard, PoisonError},
};

use lmcp_private::{
    Whose,
    guards::{command_line, has_fence, is_guard},
    mark,
};
use lmcp_wire::RpcError;
use nix::{
    errno::Errno,
    sys::socket::{getsockopt, sockopt::PeerPidfd},
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, getpid},
};
use serde_json::json;

use super::{rights::Rights, tree::Process};

/// More generations than anybody has who does not hide something.
const MOST_GENERATIONS: usize = 256;
/// So often the line of ancestors is read while it changes, unless that took this many looks at a process.
const MOST_TRIES: usize = 16;
const MOST_LOOKS: usize = 2 * MOST_GENERATIONS;
/// So many confined processes are remembered.
const MOST_KNOWN: usize = 1 << 14;

/// Processes that were found below a guard which confines to less than a socket gives, by when they were started. They stay
/// below it, so one that comes again, or starts another that does, costs next to nothing.
#[derive(Debug, Default)]
pub(crate) struct Confined(Mutex<HashMap<Pid, u64>>);

/// Refuses a process that connected to a socket which gives these rights, and says why.
///
/// `None` is a process of another pid namespace that is not below ours. It is not below any guard that we could see, so it
/// is let in.
pub(crate) fn admit(
    rights: &Rights,
    known: &Confined,
    process: Option<Pid>,
    socket: impl AsFd,
) -> Result<(), Refusal> {
    let Some(process) = process else {
        return Ok(());
    };
    let handle = match getsockopt(&socket, PeerPidfd) {
        Ok(handle) => Some(handle),
        // Before Linux 6.5 there are only numbers.
        Err(Errno::ENOPROTOOPT) => None,
        Err(Errno::EMFILE | Errno::ENFILE) => return Err(Refusal::NotNow),
        Err(_) => return Err(Refusal::Ended),
    };
    let verdict = admit_process(rights, known, process);
    // As long as it is there, nobody else has its number.
    if handle.is_some_and(|handle| has_ended(&handle)) {
        return Err(Refusal::Ended);
    }
    verdict
}

/// Refuses a process that a guard confines to less than these rights. Whether it still is the process that is meant is for
/// the caller to find out, afterwards.
pub(super) fn admit_process(
    rights: &Rights,
    known: &Confined,
    process: Pid,
) -> Result<(), Refusal> {
    let mut looks = MOST_LOOKS;
    let mut judged = (0..MOST_TRIES).map(|_| judge(rights, known, process, &mut looks));
    judged
        .find_map(|judged| judged)
        .unwrap_or_else(|| Err(why_unknown()))
}

impl Confined {
    fn contains(&self, process: &Process) -> bool {
        self.lock().get(&process.pid) == Some(&process.started)
    }

    fn add(&self, processes: &[Process]) {
        let mut known = self.lock();
        if known.len() + processes.len() > MOST_KNOWN {
            known.clear();
        }
        known.extend(
            processes
                .iter()
                .map(|process| (process.pid, process.started)),
        );
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Pid, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a process may not connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Confined,
    Ended,
    Unknown,
    /// No process outside of confined commands seems to hold the connection.
    Unheld,
    /// A confined process does not show which files it has open.
    Hidden,
    /// Too many files are open to find out.
    NotNow,
}

impl From<Refusal> for RpcError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Confined => Self::invalid_request(
                "the process that connects was started by a confined command, and this server may do more than that",
            )
            // Neither what the server may do nor whose child the process is will ever change.
            .with_data(json!({ "retriable": false })),
            Refusal::Ended => Self::invalid_request(
                "the process that connected has ended, so nobody can tell what it may do",
            ),
            Refusal::Unknown => Self::invalid_request(
                "nobody can tell which processes are above the one that connects",
            ),
            Refusal::Unheld => Self::invalid_request(
                "no process holds this connection that could be told from a confined command, and this server may do more \
                 than that; use a server with a token, or a unix socket",
            ),
            Refusal::Hidden => Self::invalid_request(
                "a confined command does not show which connections it holds, and this could be one of them; use a server \
                 with a token, or a unix socket",
            ),
            Refusal::NotNow => Self::internal("too many files are open"),
        }
    }
}

/// The line of a process cannot be read: because of the process, or because nothing can be read?
fn why_unknown() -> Refusal {
    match Process::of(getpid()) {
        Some(_) => Refusal::Unknown,
        None => Refusal::NotNow,
    }
}

/// Is a process below a guard that confines to less than these rights? `None` if it is gone, or if something changed while it
/// was looked at.
fn judge(
    rights: &Rights,
    known: &Confined,
    process: Pid,
    looks: &mut usize,
) -> Option<Result<(), Refusal>> {
    let line = line(process, looks, |process| known.contains(process))?;
    let mut confined = &*line;
    if !line.last().is_some_and(|last| known.contains(last)) {
        confined = match narrower_guard(rights, &line)? {
            Above::Narrower(guard) => line.get(..guard)?,
            Above::Fence => return Some(Ok(())),
            Above::Nothing if is_marked(process)? => line.get(..1)?,
            Above::Nothing => return Some(Ok(())),
        };
    }
    known.add(confined);
    Some(Err(Refusal::Confined))
}

/// The guards above a process.
enum Above {
    /// The one at this place in the line confines to less than the rights, and does not confine this process as well: a guard
    /// that confines both takes nothing from what we can give.
    Narrower(usize),
    /// There is none of that kind, but one with a fence: a mark is its work.
    Fence,
    Nothing,
}

fn narrower_guard(rights: &Rights, line: &[Process]) -> Option<Above> {
    let (mut own, mut above) = (None, Above::Nothing);
    for (at, process) in line.iter().enumerate() {
        let command_line = command_line(process.pid).ok()?;
        if is_narrower_guard(&command_line, rights)
            && !own.get_or_insert_with(own_line).contains(&process.pid)
        {
            return Some(Above::Narrower(at));
        }
        if has_fence(&command_line) {
            above = Above::Fence;
        }
    }
    Some(above)
}

/// Was a process inside a fence whose guard is gone? `None` if it has ended.
fn is_marked(process: Pid) -> Option<bool> {
    if mark::is_on_us() {
        return Some(false);
    }
    mark::is_on(process).ok()?
}

/// Is this the command line of a guard that confines to less than these rights?
pub(super) fn is_narrower_guard(command_line: &[u8], rights: &Rights) -> bool {
    if !is_guard(command_line) {
        return false;
    }
    let mut words = command_line.split(|byte| *byte == 0);
    let held = words.nth(2).map(serde_json::from_slice::<Rights>);
    // A guard of another version that says nothing is taken for a strict one.
    held.is_none_or(|held| held.map_or(true, |held| !held.covers(rights)))
}

/// This process and those above it.
pub(super) fn own_line() -> Vec<Pid> {
    let mut looks = MOST_LOOKS;
    let own = line(getpid(), &mut looks, |_| false).unwrap_or_default();
    own.into_iter().map(|process| process.pid).collect()
}

/// A process and those above it, up to one that is the last to be looked at. `None` if it is gone, or if they changed while
/// they were looked at.
fn line(
    process: Pid,
    looks: &mut usize,
    is_last: impl Fn(&Process) -> bool,
) -> Option<Vec<Process>> {
    let mut line = vec![Process::of(process)?];
    while let Some(child) = line.last().copied().filter(|last| !is_last(last)) {
        *looks = looks.checked_sub(1)?;
        let Some(parent) = child.parent else { break };
        let found = Process::of(parent);
        let has_another = Process::of(child.pid).is_none_or(|now| now.parent != Some(parent));
        match found {
            // The parent ended, and another adopted the child.
            _ if has_another => return None,
            // Nobody is older than its parent: the number is somebody else's by now.
            Some(found) if found.started > child.started => return None,
            Some(found) => line.push(found),
            None if could_be_ours(parent) => return None,
            // It is there and hidden from us: somebody else's, and so is what is above. Guards run as our user.
            None => break,
        }
        if line.len() > MOST_GENERATIONS {
            return None;
        }
    }
    Some(line)
}

/// A process of our user can be read, unless too many files are open.
fn could_be_ours(process: Pid) -> bool {
    let found = fs::metadata(format!("/proc/{process}"));
    let whose = found.map(|found| lmcp_private::whose(found.uid()));
    whose.is_ok_and(|whose| matches!(whose, Whose::Ours | Whose::Unknown))
}

fn has_ended(handle: &OwnedFd) -> bool {
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // Readable when it has ended.
    poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&at_once)) != Ok(0)
}

#[cfg(test)]
mod tests {
    use std::{
        os::unix::net::{UnixListener, UnixStream},
        path::Path,
        process::Command,
    };

    use rustix::net::sockopt::socket_peercred;

    use super::*;

    #[test]
    fn a_process_that_has_ended_is_refused() {
        if !Path::new("/usr/bin/python3").exists() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let connect = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])";
        let ended = Command::new("/usr/bin/python3")
            .args(["-c", connect])
            .arg(&path)
            .status();
        assert!(ended.unwrap().success());
        let (socket, _) = listener.accept().unwrap();
        let process = socket_peercred(&socket).unwrap().pid;
        let known = Confined::default();
        let refused = admit(&Rights::default(), &known, Some(process), &socket).unwrap_err();
        assert!(
            matches!(refused, Refusal::Ended | Refusal::Unknown),
            "{refused:?}"
        );
    }

    #[test]
    fn a_process_without_a_guard_is_let_in() {
        let (socket, _other) = UnixStream::pair().unwrap();
        let known = Confined::default();
        admit(&Rights::default(), &known, Some(getpid()), &socket).unwrap();
        admit(&Rights::default(), &known, None, &socket).unwrap();
    }

    #[test]
    fn what_a_confined_process_starts_is_known_by_it() {
        let own = Process::of(getpid()).unwrap();
        let known = Confined::default();
        known.add(&[own]);
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_child(&child);
        let refused = admit_process(&Rights::default(), &known, pid);
        assert_eq!(refused, Err(Refusal::Confined));
        assert!(known.contains(&Process::of(pid).unwrap()));
        // Another process that had the number before is another process.
        let (mut former, known) = (own, Confined::default());
        former.started += 1;
        known.add(&[former]);
        assert_eq!(admit_process(&Rights::default(), &known, pid), Ok(()));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut process = Process::of(getpid()).unwrap();
        let known = Confined::default();
        for number in 1..40_000 {
            process.pid = Pid::from_raw(number).unwrap();
            known.add(&[process]);
            assert!(known.lock().len() <= MOST_KNOWN);
        }
    }
}
