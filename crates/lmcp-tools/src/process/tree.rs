//! Finds every process below another one. A guard adopts the processes that its command leaves behind, so none escapes from
//! its tree.

use std::{
    fs, io,
    time::{Duration, Instant},
};

use lmcp_private::processes;
pub(super) use lmcp_private::processes::Process;
use rustix::process::{
    Pid, PidfdFlags, Signal, getpgid, getpgrp, getpid, kill_process, kill_process_group,
    pidfd_open, pidfd_send_signal,
};

/// Returns all descendants of a process that have not ended, parents first.
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

/// Sends a signal to every descendant of a process. Returns how many there were.
pub(super) fn signal_below(top: Pid, signal: Signal) -> usize {
    let found = descendants(top);
    for pid in &found {
        signal_if(*pid, signal, |pid| is_below(pid, top));
    }
    found.len()
}

/// Sends some signals, one after the other, to the descendants of a process that can be reached within this time.
pub(super) fn ask_below(top: Pid, signals: &[Signal], time: Duration) {
    let until = Instant::now() + time;
    // The youngest come first: in a flood of processes the older ones have mostly ended.
    let mut left = children(top);
    while let Some(pid) = left.pop().filter(|_| Instant::now() < until) {
        signals_if(pid, signals, |pid| is_below(pid, top));
        left.extend(children(pid));
    }
}

/// Kills the children of this process, and everything in their process groups. Returns whether there were any, including
/// children that have ended and were not waited for.
///
/// The caller waits for no child meanwhile, so each number still belongs to the child, and one call ends it. That is quick
/// enough for processes that fork and end without pause: a child of such a process is in the same group, and the kernel ends
/// a group as a whole, so no fork escapes. Where each process has a group of its own, the youngest are the ones that still
/// run, so they come first.
pub(super) fn kill_children() -> bool {
    let (found, own) = (children(getpid()), getpgrp());
    let mut ended = None;
    for pid in found.iter().rev() {
        let group = getpgid(Some(*pid)).ok().filter(|group| *group != own);
        if group.is_some() && group != ended {
            ended = group;
            let _ = group.map(|group| kill_process_group(group, Signal::KILL));
        }
        let _ = kill_process(*pid, Signal::KILL);
    }
    !found.is_empty()
}

/// Sends a signal to a process if `is_it` confirms its identity.
pub(super) fn signal_if(pid: Pid, signal: Signal, is_it: impl FnOnce(Pid) -> bool) {
    signals_if(pid, &[signal], is_it);
}

fn signals_if(pid: Pid, signals: &[Signal], is_it: impl FnOnce(Pid) -> bool) {
    // The descriptor stays with the process it was opened for. The process is checked after that, so that a number which
    // went to another process meanwhile is never signalled.
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else {
        return;
    };
    if is_it(pid) {
        for signal in signals {
            // The process may have ended just now.
            let _ = pidfd_send_signal(&process, *signal);
        }
    }
}

/// Returns whether a process is below another.
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

/// Returns the processes of this system that this process can see.
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
            // The kernel has no such lists: every process is asked for its parent.
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
