//! The processes above a process.

use rustix::process::Pid;

use crate::stat::Stat;

/// More generations than any process has.
const MOST: usize = 128;

/// Returns a process, the process that started it, and so on, as far as they are known.
pub(crate) fn above(process: Pid) -> impl Iterator<Item = Pid> {
    let parent = |process: &Pid| Stat::of(*process).ok()?.parent;
    std::iter::successors(Some(process), parent).take(MOST)
}

/// Returns the name of a process.
pub(crate) fn name(process: Pid) -> Option<String> {
    let name = std::fs::read(format!("/proc/{process}/comm")).ok()?;
    Some(String::from_utf8_lossy(&name).trim().to_owned())
}

/// Returns this process and those above it, nearest first, with the time of their start.
pub(crate) fn above_this() -> Line {
    let mut line = Line {
        processes: Vec::new(),
        is_whole: false,
    };
    let mut next = Stat::of_this_process();
    while let Ok(found) = next {
        line.processes.push(found);
        let Some(parent) = found.parent else {
            line.is_whole = true;
            break;
        };
        if line.processes.len() == MOST {
            break;
        }
        next = Stat::of(parent);
    }
    line
}

/// A process and those above it.
pub(crate) struct Line {
    pub(crate) processes: Vec<Stat>,
    /// The line reaches the first process of the namespace. Otherwise a process could not be read.
    pub(crate) is_whole: bool,
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_child_is_below_this_process() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_child(&child);
        let own = rustix::process::getpid();
        assert_eq!(above(pid).take(2).collect::<Vec<_>>(), [pid, own]);
        assert!(!above(own).any(|process| process == pid));
        child.kill().unwrap();
        child.wait().unwrap();
        let line = above_this();
        assert_eq!(line.processes.first().unwrap().process.process, own);
    }
}
