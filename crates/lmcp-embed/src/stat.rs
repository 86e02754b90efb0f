//! Reads `/proc/PID/stat`, and identifies a process so that no later process has the same identity.

use std::{fs, io};

use rustix::process::Pid;

/// The parts of the line that are needed here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) process: Started,
    /// If the parent has died, the process that adopted this one. `None` for the first process of a namespace.
    pub(crate) parent: Option<Pid>,
    /// The group that the process belongs to. `None`: a group of another namespace.
    pub(crate) group: Option<Pid>,
    /// The process leads a session that has a terminal.
    pub(crate) leads_terminal: bool,
    /// The process has ended, and its parent has not waited for it yet.
    is_zombie: bool,
}

/// A process number with the start time of the process: numbers are used again, the pair is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Started {
    pub(crate) process: Pid,
    /// The start time in clock ticks since the system was started.
    pub(crate) at: u64,
}

/// Returns the number of a process in the type that the standard library has for it.
pub(crate) fn number(process: Option<i32>) -> Option<u32> {
    u32::try_from(process?).ok()
}

impl Stat {
    pub(crate) fn of(process: Pid) -> io::Result<Self> {
        Self::read(&process.to_string())
    }

    /// Returns this process, under the number that it has in this `/proc`, which may be that of another namespace.
    pub(crate) fn of_this_process() -> io::Result<Self> {
        Self::read("self")
    }

    fn read(process: &str) -> io::Result<Self> {
        let text = fs::read_to_string(format!("/proc/{process}/stat"))?;
        Self::parse(&text).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    fn parse(text: &str) -> Option<Self> {
        let (number, _) = text.split_once(' ')?;
        // The second field is a name in brackets that may contain any character, also brackets.
        let (_, rest) = text.rsplit_once(')')?;
        let mut fields = rest.split_ascii_whitespace();
        let state = fields.next()?;
        let parent = fields.next()?.parse().ok()?;
        let group = fields.next()?.parse().ok()?;
        let (session, terminal) = (fields.next()?, fields.next()?);
        // This is field 22 of the line.
        let at = fields.nth(14)?.parse().ok()?;
        Some(Self {
            process: Started {
                process: Pid::from_raw(number.parse().ok()?)?,
                at,
            },
            parent: Pid::from_raw(parent),
            group: Pid::from_raw(group),
            leads_terminal: session == number && terminal != "0",
            is_zombie: matches!(state, "Z" | "X"),
        })
    }
}

impl Started {
    /// Returns whether the process has certainly ended. If no process can be read at all, nothing is certain.
    pub(crate) fn has_ended(self) -> bool {
        match Stat::of(self.process) {
            Ok(found) => found.process != self || found.is_zombie,
            Err(_) => Stat::of_this_process().is_ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_spaces_does_not_matter() {
        let line = "42 (a) R 1 (b) S 7 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 9001 0 0\n";
        let stat = Stat::parse(line).unwrap();
        assert_eq!(stat.process.process.as_raw_pid(), 42);
        assert_eq!(stat.parent.map(Pid::as_raw_pid), Some(7));
        assert_eq!(stat.process.at, 9001);
        assert_eq!(stat.group.map(Pid::as_raw_pid), Some(42));
        assert!(!stat.leads_terminal);
        assert!(!stat.is_zombie);
    }

    #[test]
    fn the_leader_of_a_session_with_a_terminal_is_told_from_its_members() {
        let line = |session: u32, terminal: u32| {
            let line =
                format!("42 (a) S 7 42 {session} {terminal} 42 0 1 0 0 0 0 0 0 0 20 0 1 0 9001");
            Stat::parse(&line).unwrap().leads_terminal
        };
        assert!(line(42, 34817));
        assert!(!line(7, 34817) && !line(42, 0));
    }

    #[test]
    fn a_process_that_has_ended_is_known_to_have_even_before_anybody_asks_how() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let started = Stat::of(Pid::from_child(&child)).unwrap().process;
        assert!(!started.has_ended());
        let another = Started {
            at: started.at - 1,
            ..started
        };
        assert!(another.has_ended());
        child.kill().unwrap();
        while !started.has_ended() {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(started.has_ended());
    }
}
