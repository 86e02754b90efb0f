//! The processes above a process.

use std::fs;

use rustix::process::Pid;

/// More generations than anybody has.
const MOST: usize = 128;

/// A process, the one that started it, and so on. Ends where nothing more is known.
pub(crate) fn above(process: Pid) -> impl Iterator<Item = Pid> {
    std::iter::successors(Some(process), |process| parent(*process)).take(MOST)
}

/// Of processes whose parent has died, the parent is whoever adopted them.
fn parent(process: Pid) -> Option<Pid> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The second field is a name in brackets that may hold anything, brackets too.
    let (_, rest) = text.rsplit_once(')')?;
    Pid::from_raw(rest.split_ascii_whitespace().nth(1)?.parse().ok()?)
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
    }

    #[test]
    fn names_with_brackets_do_not_matter() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("a) R 1 (b");
        std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
        let mut child = Command::new(&program).arg("60").spawn().unwrap();
        let parent = parent(Pid::from_child(&child));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(parent, Some(rustix::process::getpid()));
    }
}
