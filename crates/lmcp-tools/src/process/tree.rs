//! Every process below another one. A guard adopts what its command leaves behind, so nothing slips out of its tree.

use std::{fs, io};

use lmcp_private::processes;
pub(super) use lmcp_private::processes::Process;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// All descendants of a process, parents first; none that has ended.
pub(super) fn descendants(top: Pid) -> Vec<Pid> {
    let mut found = children(top);
    let mut next = 0;
    while let Some(pid) = found.get(next) {
        let more = children(*pid);
        found.extend(more);
        next += 1;
    }
    found.retain(|pid| !Process::of(*pid).is_none_or(|process| process.has_ended()));
    found
}

/// Sends a signal to every descendant of a process. Gives how many there were.
pub(super) fn signal_below(top: Pid, signal: Signal) -> usize {
    let found = descendants(top);
    for pid in &found {
        signal_if(*pid, signal, |pid| is_below(pid, top));
    }
    found.len()
}

/// Sends a signal to a process that still is what it is taken for.
pub(super) fn signal_if(pid: Pid, signal: Signal, is_it: impl FnOnce(Pid) -> bool) {
    // The descriptor stays with the process it was opened for; only then is it looked at once more, so that a number which
    // meanwhile went to a stranger is never hit.
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else {
        return;
    };
    if is_it(pid) {
        // It may have ended just now.
        let _ = pidfd_send_signal(&process, signal);
    }
}

/// Is a process below another?
pub(super) fn is_below(pid: Pid, top: Pid) -> bool {
    let mut at = pid;
    loop {
        match Process::of(at).and_then(|process| process.parent) {
            Some(parent) if parent == top => return true,
            Some(parent) => at = parent,
            None => return false,
        }
    }
}

/// The processes of this system that we can see.
pub(super) fn all() -> impl Iterator<Item = Process> {
    let numbers = processes::numbers().into_iter().flatten();
    numbers.filter_map(Process::of)
}

fn children(pid: Pid) -> Vec<Pid> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let lists = threads
        .flatten()
        .map(|thread| fs::read_to_string(thread.path().join("children")));
    let mut found = Vec::new();
    for list in lists {
        match list {
            Ok(list) => found.extend(list.split_ascii_whitespace().filter_map(processes::number)),
            // A kernel without these lists: every process is asked for its parent.
            Err(err) if err.kind() == io::ErrorKind::NotFound && has_no_lists() => {
                let children = all().filter(|process| process.parent == Some(pid));
                return children.map(|process| process.pid).collect();
            }
            // The thread has ended.
            Err(_) => {}
        }
    }
    found
}

fn has_no_lists() -> bool {
    fs::metadata("/proc/thread-self/children").is_err()
}
