//! Decides which processes may use a socket of the server: none that some guard confines to less than the socket gives, and none
//! that runs for another caller than the one that it would count as.
//!
//! The kernel says which process connected. A guard adopts every process that its command starts, so the guard of a confined
//! command is always among the processes above such a process, and the guard's command line says what it confines to. A
//! command cannot change that line; a line that a command forges can only take more away from the command. A process whose
//! guard is gone is known by its mark (`lmcp_private::mark`). A forged line does not explain the mark: the process with that
//! line bears the mark, too, and a guard stands outside of its fence.

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
    processes::expect_own_numbers,
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

use super::{owner::Owner, rights::Rights, tree::Process};

/// The most generations above a process that are followed. Only a process that hides something has more.
const MOST_GENERATIONS: usize = 256;
/// How often the line of ancestors is read again while it changes, and how many looks at a process this may take in all.
const MOST_TRIES: usize = 16;
const MOST_LOOKS: usize = 2 * MOST_GENERATIONS;
/// The most processes that are remembered.
const MOST_KNOWN: usize = 1 << 14;

/// The rights that a socket gives to its peers, and the caller that they count as.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    rights: Rights,
    /// The caller that a peer counts as. `None`: the socket is that of this guard, for servers that know its key.
    counts_as: Option<Owner>,
}

impl Gate {
    /// Makes the gate of a server with these rights, at which a peer counts as this caller.
    pub(crate) fn of_server(rights: Rights, counts_as: Owner) -> Self {
        Self {
            rights,
            counts_as: Some(counts_as),
        }
    }

    /// Makes the gate of the guard of a command with these rights.
    pub(super) fn of_command(rights: Rights) -> Self {
        Self {
            rights,
            counts_as: None,
        }
    }

    /// Returns why processes below a guard with this command line are refused, if they are.
    pub(super) fn refusal(&self, command_line: &[u8]) -> Option<Refusal> {
        if !is_guard(command_line) {
            return None;
        }
        let mut words = command_line.split(|byte| *byte == 0).skip(2);
        let held = words.next().map(serde_json::from_slice::<Rights>);
        // A guard of another version whose rights cannot be read is taken for a strict one.
        if held.is_none_or(|held| held.map_or(true, |held| !held.covers(&self.rights))) {
            return Some(Refusal::Confined);
        }
        // Without a fence, a command can do all that its user can.
        if !has_fence(command_line) {
            return None;
        }
        // A confined command has no business with a guard, whatever its rights: it could only flood the guard, so that servers
        // do not reach it.
        let Some(caller) = self.counts_as else {
            return Some(Refusal::Confined);
        };
        let owner = Owner::read(words.next().unwrap_or_default());
        (!owner.may_be(caller)).then_some(Refusal::Others)
    }

    /// Returns whether the processes below this one are refused: the command of a guard must not control the guard.
    fn is_closed_below(&self, process: Pid) -> bool {
        self.counts_as.is_none() && process == getpid()
    }
}

/// Processes that were judged for one socket, by the time at which they were started. Nothing that a process does later changes which
/// guards are above it, so a process that connects again, or whose child connects, is judged at almost no cost.
#[derive(Debug, Default)]
pub(crate) struct Known(Mutex<HashMap<Pid, (u64, Standing)>>);

/// The place of a process below guards.
#[derive(Clone, Copy, Debug)]
enum Standing {
    /// A guard above the process is narrower than the socket, or runs the process for another caller.
    Refused(Refusal),
    /// A guard with a fence is above the process, and the socket admits what is below it. The fence explains a mark.
    Fenced,
    /// No guard with a fence is above the process.
    Free,
}

/// Refuses a process that connected to a socket if a guard confines the process to less than the socket gives, or runs it for
/// another caller.
///
/// `None` stands for a process of another pid namespace that is not below this one. No guard that this server could see is
/// above such a process, so it is let in.
pub(crate) fn admit(
    gate: &Gate,
    known: &Known,
    process: Option<Pid>,
    socket: impl AsFd,
) -> Result<(), Refusal> {
    let Some(process) = process else {
        return Ok(());
    };
    let handle = match getsockopt(&socket, PeerPidfd) {
        Ok(handle) => Some(handle),
        // Before Linux 6.5 the kernel tells only numbers of processes.
        Err(Errno::ENOPROTOOPT) => None,
        Err(Errno::EMFILE | Errno::ENFILE) => return Err(Refusal::NotNow),
        Err(_) => return Err(Refusal::Ended),
    };
    // In a flood of processes that connect and end, most have ended by now.
    if handle.as_ref().is_some_and(has_ended) {
        return Err(Refusal::Ended);
    }
    let verdict = admit_process(gate, known, process);
    // As long as the process is there, no other process has its number.
    if handle.as_ref().is_some_and(has_ended) {
        return Err(Refusal::Ended);
    }
    verdict
}

/// Does the same for a process without its connection. The caller must check afterwards that the number still
/// belongs to the process that was meant.
pub(super) fn admit_process(gate: &Gate, known: &Known, process: Pid) -> Result<(), Refusal> {
    let mut looks = MOST_LOOKS;
    let mut judged = (0..MOST_TRIES).map(|_| judge(gate, known, process, &mut looks));
    judged
        .find_map(|judged| judged)
        .unwrap_or_else(|| Err(why_unknown()))
}

impl Known {
    fn standing(&self, process: &Process) -> Option<Standing> {
        let known = self.lock();
        let (started, standing) = known.get(&process.pid)?;
        (*started == process.started).then_some(*standing)
    }

    fn add(&self, processes: &[Process], standing: Standing) {
        let mut known = self.lock();
        if known.len() + processes.len() > MOST_KNOWN {
            known.clear();
        }
        known.extend(
            processes
                .iter()
                .map(|process| (process.pid, (process.started, standing))),
        );
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Pid, (u64, Standing)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a process may not connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Confined,
    /// A guard runs the process for another caller.
    Others,
    Ended,
    Unknown,
    /// No process outside of confined commands seems to hold the connection.
    Unheld,
    /// A confined process does not show which files it has open.
    Hidden,
    /// Too many files are open to find out.
    NotNow,
    /// `/proc` does not show the processes that connect.
    NoNumbers,
}

impl From<Refusal> for RpcError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Confined => Self::invalid_request(
                "the process that connects was started by a confined command, and this server may do more than that",
            )
            // Neither the rights of the server nor the ancestors of the process will ever change.
            .with_data(json!({ "retriable": false })),
            Refusal::Others => Self::invalid_request(
                "the process that connects was started by a confined command of another caller, and would count as somebody \
                 else here",
            )
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
            Refusal::NoNumbers => Self::invalid_request(
                "nobody can tell which process connects, because the server has no /proc, or that of another pid namespace; \
                 mount one of its own",
            ),
        }
    }
}

/// Returns why the line of a process cannot be read: because of the process, or because nothing can be read.
fn why_unknown() -> Refusal {
    match Process::of(getpid()) {
        Some(_) => Refusal::Unknown,
        None => why_unread(),
    }
}

/// Returns why no process can be read.
pub(super) fn why_unread() -> Refusal {
    match expect_own_numbers() {
        Ok(()) => Refusal::NotNow,
        Err(_) => Refusal::NoNumbers,
    }
}

/// Decides whether a process is below a guard for which it is refused. Returns `None` if the process is
/// gone, or if something changed during the look.
fn judge(
    gate: &Gate,
    known: &Known,
    process: Pid,
    looks: &mut usize,
) -> Option<Result<(), Refusal>> {
    let line = line(process, looks, |process| known.standing(process).is_some())?;
    let above = line.last().and_then(|last| known.standing(last));
    let unknown = match above {
        Some(_) => line.get(..line.len() - 1)?,
        None => &*line,
    };
    let (judged, standing) = match (above, guards_above(gate, unknown)?) {
        (Some(Standing::Refused(refusal)), _) => (unknown, Standing::Refused(refusal)),
        (_, Above::Refused(guard, refusal)) => (unknown.get(..guard)?, Standing::Refused(refusal)),
        (Some(Standing::Fenced), Above::Nothing) => (unknown, Standing::Fenced),
        (Some(Standing::Fenced), Above::Fence { lowest, .. }) => {
            (unknown.get(..lowest)?, Standing::Fenced)
        }
        (Some(Standing::Free) | None, Above::Fence { lowest, topmost }) => {
            match is_marked(process)? && is_marked_still(&topmost)? {
                true => (line.get(..1)?, Standing::Refused(Refusal::Confined)),
                false => (unknown.get(..lowest)?, Standing::Fenced),
            }
        }
        (Some(Standing::Free) | None, Above::Nothing) => match is_marked(process)? {
            true => (line.get(..1)?, Standing::Refused(Refusal::Confined)),
            false => (unknown, Standing::Free),
        },
    };
    known.add(judged, standing);
    Some(match standing {
        Standing::Refused(refusal) => Err(refusal),
        Standing::Fenced | Standing::Free => Ok(()),
    })
}

/// The guards above a process.
enum Above {
    /// The process is refused for the guard at this place in the line, and that guard is not above this server as well: a
    /// guard above both takes nothing from what the server can give.
    Refused(usize, Refusal),
    /// There is no such guard, but there are guards with a fence: the lowest is at this place in the line, and no guard above the topmost
    /// has a fence. The mark of the process comes from the topmost fence if that guard stands outside of it, and bears no mark itself.
    /// A process behind a fence can start a program with the command line of a guard, but not without the mark.
    Fence {
        lowest: usize,
        topmost: Process,
    },
    Nothing,
}

fn guards_above(gate: &Gate, line: &[Process]) -> Option<Above> {
    let (mut own, mut above) = (None, Above::Nothing);
    for (at, process) in line.iter().enumerate() {
        if gate.is_closed_below(process.pid) {
            return Some(Above::Refused(at, Refusal::Confined));
        }
        let command_line = command_line(process.pid).ok()?;
        if let Some(refusal) = gate.refusal(&command_line)
            && !own.get_or_insert_with(own_line).contains(&process.pid)
        {
            return Some(Above::Refused(at, refusal));
        }
        if has_fence(&command_line) {
            let lowest = match above {
                Above::Fence { lowest, .. } => lowest,
                Above::Refused(..) | Above::Nothing => at,
            };
            let topmost = *process;
            above = Above::Fence { lowest, topmost };
        }
    }
    Some(above)
}

/// Returns whether a process was inside a fence whose guard is gone. `None` if the process has ended.
fn is_marked(process: Pid) -> Option<bool> {
    if mark::is_on_us() {
        return Some(false);
    }
    mark::is_on(process).ok()?
}

/// Returns whether a process bears the mark, and is the same process all the time. `None` if it has ended.
fn is_marked_still(process: &Process) -> Option<bool> {
    let is_marked = is_marked(process.pid)?;
    (Process::of(process.pid)?.started == process.started).then_some(is_marked)
}

/// Returns this process and those above it.
pub(super) fn own_line() -> Vec<Pid> {
    let mut looks = MOST_LOOKS;
    let own = line(getpid(), &mut looks, |_| false).unwrap_or_default();
    own.into_iter().map(|process| process.pid).collect()
}

/// Returns a process and those above it, up to the first for which `is_last` is true. `None` if a process is gone, or if the
/// line changed during the look.
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
            // The parent ended, and another process adopted the child.
            _ if has_another => return None,
            // No child is older than its parent: the number belongs to another process by now.
            Some(found) if found.started > child.started => return None,
            Some(found) => line.push(found),
            None if could_be_ours(parent) => return None,
            // The process is there but hidden from the server, so it belongs to another user, as do those above it. Guards
            // run as the server's user.
            None => break,
        }
        if line.len() > MOST_GENERATIONS {
            return None;
        }
    }
    Some(line)
}

/// Returns whether a process may belong to the server's user. Such a process can be read, unless too many files are open.
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
    // The handle of a process is readable once the process has ended.
    poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&at_once)) != Ok(0)
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead as _, BufReader},
        os::unix::net::{UnixListener, UnixStream},
        path::Path,
        process::{Child, Command, Stdio},
    };

    use lmcp_private::guards::{GUARD, orphans};
    use rustix::{
        net::sockopt::socket_peercred,
        process::{Signal, kill_process},
    };

    use super::{super::tree, *};

    /// The rights of a server with a fence.
    const FENCE: &str = r#"{"fence":{"write":[],"read":[]}}"#;

    fn gate() -> Gate {
        Gate::of_server(Rights::default(), Owner::User)
    }

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
        let known = Known::default();
        let refused = admit(&gate(), &known, Some(process), &socket).unwrap_err();
        assert!(
            matches!(refused, Refusal::Ended | Refusal::Unknown),
            "{refused:?}"
        );
    }

    /// A shell below a chain of others, each of which waits for the next, and the number of the lowest.
    fn chain(generations: usize) -> (Child, Pid) {
        let script = "if [ $1 -gt 0 ]; then sh -c \"$2\" sh $(($1 - 1)) \"$2\"; else echo $$; read line; fi; :";
        let mut top = Command::new("sh")
            .args(["-c", script, "sh", &generations.to_string(), script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let said = top.stdout.take().unwrap();
        BufReader::new(said).read_line(&mut line).unwrap();
        (top, Pid::from_raw(line.trim().parse().unwrap()).unwrap())
    }

    #[test]
    fn a_process_that_is_known_is_judged_with_one_look_and_its_child_with_two() {
        let (mut top, lowest) = chain(40);
        let known = Known::default();
        let looks_at = |process| {
            let mut looks = MOST_LOOKS;
            judge(&gate(), &known, process, &mut looks)
                .unwrap()
                .unwrap();
            MOST_LOOKS - looks
        };
        assert!(looks_at(lowest) > 40);
        assert_eq!(looks_at(lowest), 0);
        let parent = Process::of(lowest).unwrap().parent.unwrap();
        assert_eq!(looks_at(parent), 0);
        drop(top.stdin.take());
        top.wait().unwrap();
    }

    #[test]
    fn a_process_without_a_guard_is_let_in() {
        let (socket, _other) = UnixStream::pair().unwrap();
        let known = Known::default();
        admit(&gate(), &known, Some(getpid()), &socket).unwrap();
        admit(&gate(), &known, None, &socket).unwrap();
    }

    #[test]
    fn what_a_confined_process_starts_is_known_by_it() {
        let own = Process::of(getpid()).unwrap();
        let known = Known::default();
        known.add(&[own], Standing::Refused(Refusal::Confined));
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_child(&child);
        let refused = admit_process(&gate(), &known, pid);
        assert_eq!(refused, Err(Refusal::Confined));
        assert!(known.standing(&Process::of(pid).unwrap()).is_some());
        // A process that had the same number earlier is not this one.
        let (mut former, known) = (own, Known::default());
        former.started += 1;
        known.add(&[former], Standing::Refused(Refusal::Confined));
        assert_eq!(admit_process(&gate(), &known, pid), Ok(()));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Starts a program with the command line of a guard, and a process below it: each behind the mark or not. Returns the
    /// program and the process.
    fn guarded(folder: &Path, guard: bool, below: bool) -> (Child, Pid) {
        let mark = |is_marked| match is_marked {
            true => "echo 0x133 >/proc/self/coredump_filter;",
            false => "",
        };
        let script = format!(
            "sh -c '{} echo up; exec sleep 60' & echo $!; wait",
            mark(below)
        );
        fs::write(folder.join(GUARD), script).unwrap();
        let start = format!("{} exec sh {GUARD} '{FENCE}' user", mark(guard));
        let mut guard = Command::new("sh")
            .args(["-c", &start])
            .current_dir(folder)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(guard.stdout.take().unwrap());
        let (mut number, mut up) = (String::new(), String::new());
        said.read_line(&mut number).unwrap();
        said.read_line(&mut up).unwrap();
        let numbers = format!("{number}{up}");
        let number = numbers.lines().find(|line| *line != "up").unwrap();
        (guard, Pid::from_raw(number.parse().unwrap()).unwrap())
    }

    #[test]
    fn a_fence_comes_from_a_guard_outside_of_it() {
        let rights = serde_json::from_str(FENCE).unwrap();
        let gate = Gate::of_server(rights, Owner::User);
        for (is_guard_marked, is_marked, wanted) in [
            (false, false, Ok(())),
            (false, true, Ok(())),
            // A process behind a fence started this one, which is no guard.
            (true, true, Err(Refusal::Confined)),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let (mut guard, below) = guarded(folder.path(), is_guard_marked, is_marked);
            let admitted = admit_process(&gate, &Known::default(), below);
            let processes: Vec<_> = tree::all().collect();
            let orphans = orphans(&processes, &[Pid::from_child(&guard)]).unwrap();
            kill_process(below, Signal::KILL).unwrap();
            guard.kill().unwrap();
            guard.wait().unwrap();
            assert_eq!(admitted, wanted, "{is_guard_marked} {is_marked}");
            assert_eq!(orphans.contains(&below), wanted.is_err());
        }
    }

    #[test]
    fn a_guard_serves_no_command_whatever_its_rights() {
        let rights: Rights = serde_json::from_str(FENCE).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (mut guard, below) = guarded(folder.path(), false, true);
        let of_server = Gate::of_server(rights.clone(), Owner::User);
        let of_command = Gate::of_command(rights);
        let admitted =
            [of_server, of_command].map(|gate| admit_process(&gate, &Known::default(), below));
        kill_process(below, Signal::KILL).unwrap();
        guard.kill().unwrap();
        guard.wait().unwrap();
        assert_eq!(admitted, [Ok(()), Err(Refusal::Confined)]);
        // Nor does a guard serve what is below itself.
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_child(&child);
        let own = Gate::of_command(Rights::default());
        let admitted = admit_process(&own, &Known::default(), pid);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(admitted, Err(Refusal::Confined));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut process = Process::of(getpid()).unwrap();
        let known = Known::default();
        for number in 1..40_000 {
            process.pid = Pid::from_raw(number).unwrap();
            known.add(&[process], Standing::Refused(Refusal::Confined));
            assert!(known.lock().len() <= MOST_KNOWN);
        }
    }
}
