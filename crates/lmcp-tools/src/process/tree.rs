//! Every process below another one. A guard adopts what its command leaves behind, so nothing slips out of its tree.

use std::{
    collections::{HashMap, HashSet},
    fs, io,
};

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

/// Of some processes those that are below others, by what each of them says of its parent.
pub(super) fn below(processes: &[Process], tops: &[Pid]) -> HashSet<Pid> {
    let mut children: HashMap<Pid, Vec<Pid>> = HashMap::new();
    for process in processes {
        if let Some(parent) = process.parent {
            children.entry(parent).or_default().push(process.pid);
        }
    }
    let mut found = HashSet::new();
    let mut next = tops.to_vec();
    while let Some(pid) = next.pop() {
        for child in children.get(&pid).into_iter().flatten() {
            if found.insert(*child) {
                next.push(*child);
            }
        }
    }
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
    let numbers = numbers().into_iter().flatten();
    numbers.filter_map(Process::of)
}

/// Their numbers.
pub(super) fn numbers() -> io::Result<impl Iterator<Item = Pid>> {
    let entries = fs::read_dir("/proc")?.flatten();
    Ok(entries.filter_map(|entry| number(entry.file_name().to_str()?)))
}

/// The threads of a process.
pub(super) fn threads(process: Pid) -> io::Result<Vec<Pid>> {
    let entries = fs::read_dir(format!("/proc/{process}/task"))?.flatten();
    Ok(entries
        .filter_map(|entry| number(entry.file_name().to_str()?))
        .collect())
}

/// A process as the kernel lists it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Process {
    pub(super) pid: Pid,
    pub(super) parent: Option<Pid>,
    pub(super) session: Option<Pid>,
    group: Option<Pid>,
    /// The group that its terminal gives its keys to.
    front: Option<Pid>,
    /// When it was started, in ticks since the system was.
    pub(super) started: u64,
    state: char,
}

impl Process {
    pub(super) fn of(pid: Pid) -> Option<Self> {
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        // The name in front may hold anything, so the rest is looked for behind its last bracket.
        let end = stat.iter().rposition(|byte| *byte == b')')?;
        let rest = std::str::from_utf8(stat.get(end + 1..)?).ok()?;
        let mut words = rest.split_ascii_whitespace();
        let state = words.next()?.chars().next()?;
        let parent = words.next().and_then(number);
        let group = words.next().and_then(number);
        let session = words.next().and_then(number);
        // Between the two is the number of its terminal.
        let front = words.nth(1).and_then(number);
        let started = words.nth(13)?.parse().ok()?;
        Some(Self {
            pid,
            parent,
            session,
            group,
            front,
            started,
            state,
        })
    }

    /// It gets what is typed on its terminal.
    pub(super) fn is_in_front(&self) -> bool {
        self.group.is_some() && self.group == self.front
    }

    /// It waits for something.
    pub(super) fn is_asleep(&self) -> bool {
        self.state == 'S'
    }

    /// It waits for its parent to take note, and does nothing any more.
    pub(super) fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
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

/// Of a process without a terminal, the group in front of it is -1.
fn number(text: &str) -> Option<Pid> {
    let number = text.parse().ok().filter(|number| *number > 0)?;
    Pid::from_raw(number)
}
