//! Every process below this one. The guard adopts what its command leaves behind, so nothing can slip out.

use std::fs;

use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};

/// All descendants of this process, parents first; none that has ended.
pub(super) fn descendants() -> Vec<Pid> {
    let mut found = children(getpid());
    let mut next = 0;
    while let Some(pid) = found.get(next) {
        let more = children(*pid);
        found.extend(more);
        next += 1;
    }
    found.retain(|pid| !has_ended(*pid));
    found
}

/// Sends a signal to every descendant.
pub(super) fn signal(signal: Signal) {
    for pid in descendants() {
        // The descriptor stays with the process it was opened for; only then is it looked at once more, so that a
        // number which meanwhile went to a stranger is never hit.
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else {
            continue;
        };
        if is_below_us(pid) {
            // It may have ended just now.
            let _ = pidfd_send_signal(&process, signal);
        }
    }
}

/// Is it one of ours?
pub(super) fn is_below_us(pid: Pid) -> bool {
    let (us, mut at) = (getpid(), pid);
    loop {
        match parent(at) {
            Some(parent) if parent == us => return true,
            Some(parent) => at = parent,
            None => return false,
        }
    }
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
            Ok(list) => found.extend(list.split_ascii_whitespace().filter_map(number)),
            // A kernel without these lists: every process is asked for its parent.
            Err(err) if err.kind() == std::io::ErrorKind::NotFound && has_no_lists() => {
                return children_by_parent(pid);
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

fn children_by_parent(pid: Pid) -> Vec<Pid> {
    let Ok(all) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let all = all
        .flatten()
        .filter_map(|entry| number(entry.file_name().to_str()?));
    all.filter(|other| parent(*other) == Some(pid)).collect()
}

fn parent(pid: Pid) -> Option<Pid> {
    status(pid)?.1
}

fn has_ended(pid: Pid) -> bool {
    status(pid).is_none_or(|(state, _)| matches!(state, 'Z' | 'X'))
}

/// State and parent. The name in between may hold anything, so they are looked for behind its last bracket.
fn status(pid: Pid) -> Option<(char, Option<Pid>)> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(stat.get(end + 1..)?).ok()?;
    let mut words = rest.split_ascii_whitespace();
    let state = words.next()?.chars().next()?;
    Some((state, words.next().and_then(number)))
}

fn number(text: &str) -> Option<Pid> {
    Pid::from_raw(text.parse().ok()?)
}
