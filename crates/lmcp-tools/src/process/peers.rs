//! Which processes may use a socket of ours: none that some guard confines to less than the socket gives.
//!
//! The kernel says which process connected. A guard adopts whatever its command starts, so the guard of a confined command
//! is always among the processes above it, and its command line says what it confines to. A command cannot change that
//! line; a line that it forges can only take more away from it.

use std::{
    fs,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::MetadataExt as _,
    },
};

use lmcp_wire::RpcError;
use nix::{
    errno::Errno,
    sys::socket::{getsockopt, sockopt::PeerPidfd},
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, geteuid, getpid},
};
use serde_json::json;

use super::{helper::GUARD, rights::Rights, tree::Process};

/// More generations than anybody has who does not hide something.
const MOST_GENERATIONS: usize = 256;
/// So often the line of ancestors is read while it changes.
const MOST_TRIES: usize = 16;

/// Refuses a process that connected to a socket which gives these rights, and says why.
///
/// `None` is a process of another pid namespace that is not below ours. It is not below any guard that we could see, so it
/// is let in.
pub(crate) fn admit(
    rights: &Rights,
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
    let verdict = admit_process(rights, process);
    // As long as it is there, nobody else has its number.
    if handle.is_some_and(|handle| has_ended(&handle)) {
        return Err(Refusal::Ended);
    }
    verdict
}

/// Refuses a process that a guard confines to less than these rights. Whether it still is the process that is meant is for
/// the caller to find out, afterwards.
pub(super) fn admit_process(rights: &Rights, process: Pid) -> Result<(), Refusal> {
    let narrower = (0..MOST_TRIES).find_map(|_| narrower_guards(process, rights));
    let narrower = narrower.ok_or_else(why_unknown)?;
    if narrower.is_empty() {
        return Ok(());
    }
    // What confines this process, too, takes nothing from what it can give.
    let own = line(getpid()).unwrap_or_default();
    let is_own = |guard: &Pid| own.iter().any(|process| process.pid == *guard);
    if narrower.iter().all(is_own) {
        return Ok(());
    }
    Err(Refusal::Confined)
}

/// Why a process may not connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Confined,
    Ended,
    Unknown,
    /// No process seems to hold the connection, and a confined command might.
    Unheld,
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
                "nobody can tell which process holds this connection, and it could be one of a confined command, which this \
                 server may do more than; use a server with a token, or a unix socket",
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

/// The guards above a process that confine their commands to less than these rights. `None` if it is gone, or if something
/// changed while it was looked at.
fn narrower_guards(process: Pid, rights: &Rights) -> Option<Vec<Pid>> {
    let mut found = Vec::new();
    for process in line(process)? {
        let command_line = fs::read(format!("/proc/{}/cmdline", process.pid)).ok()?;
        if is_narrower_guard(&command_line, rights) {
            found.push(process.pid);
        }
    }
    Some(found)
}

/// Is this the command line of a guard that confines to less than these rights?
pub(super) fn is_narrower_guard(command_line: &[u8], rights: &Rights) -> bool {
    let mut words = command_line.split(|byte| *byte == 0).skip(1);
    if words.next() != Some(GUARD.as_bytes()) {
        return false;
    }
    let held = words.next().map(serde_json::from_slice::<Rights>);
    // A guard of another version that says nothing is taken for a strict one.
    held.is_none_or(|held| held.map_or(true, |held| !held.covers(rights)))
}

/// A process and those above it. `None` if it is gone, or if they changed while they were looked at.
fn line(process: Pid) -> Option<Vec<Process>> {
    let mut line = vec![Process::of(process)?];
    while let Some(child) = line.last().copied() {
        let Some(parent) = child.parent else { break };
        let found = Process::of(parent);
        let has_another = Process::of(child.pid).is_none_or(|now| now.parent != Some(parent));
        match found {
            // The parent ended, and another adopted the child.
            _ if has_another => return None,
            // Nobody is older than its parent: the number is somebody else's by now.
            Some(found) if found.started > child.started => return None,
            Some(found) => line.push(found),
            None if is_ours(parent) => return None,
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
fn is_ours(process: Pid) -> bool {
    let found = fs::metadata(format!("/proc/{process}"));
    found.is_ok_and(|found| found.uid() == geteuid().as_raw())
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
        let refused = admit(&Rights::default(), Some(process), &socket).unwrap_err();
        assert!(
            matches!(refused, Refusal::Ended | Refusal::Unknown),
            "{refused:?}"
        );
    }

    #[test]
    fn a_process_without_a_guard_is_let_in() {
        let (socket, _other) = UnixStream::pair().unwrap();
        admit(&Rights::default(), Some(getpid()), &socket).unwrap();
        admit(&Rights::default(), None, &socket).unwrap();
    }
}
