//! Finds out whether a command with a terminal waits for somebody to type. The kernel tells a process that may trace another
//! in which system call that one sleeps. A guard may trace its command, unless the program runs as another user. Then the
//! settings of the terminal are a sign.

use std::{fs, os::unix::fs::MetadataExt as _};

use nix::libc;
use rustix::{
    process::{Pid, getpid},
    pty::ptsname,
    termios::{LocalModes, tcgetattr},
};

use super::{
    super::{
        protocol::Waits,
        tree::{self, Process},
    },
    Guard,
};

/// `/dev/tty`: a process's own terminal, whichever that is.
const OWN_TERMINAL: u64 = 5 << 8;

impl Guard {
    /// Returns whether the command waits for input on its terminal, as far as can be told.
    pub(super) fn waits(&self) -> Option<Waits> {
        let terminal = self.terminal.as_ref()?;
        // Input that was sent and not taken yet is for the next read.
        if self.status.is_some() || !self.feed.is_empty() {
            return None;
        }
        let name = ptsname(terminal, Vec::new()).ok()?;
        let device = fs::metadata(name.to_str().ok()?).ok()?.rdev();
        let below = tree::descendants(getpid()).into_iter();
        let in_front: Vec<_> = below
            .filter_map(Process::of)
            .filter(Process::is_in_front)
            .collect();
        if in_front.iter().any(|it| reads(it.pid, device)) {
            return Some(Waits::Yes);
        }
        let modes = tcgetattr(terminal).ok()?.local_modes;
        // Keys are taken one by one, or are not shown: an editor, a prompt with history, a password.
        let wants_keys = !modes.contains(LocalModes::ICANON) || !modes.contains(LocalModes::ECHO);
        let all_asleep = !in_front.is_empty() && in_front.iter().all(Process::is_asleep);
        (wants_keys && all_asleep).then_some(Waits::Maybe)
    }
}

/// Returns whether one of the threads of a process sleeps in reading the terminal.
fn reads(pid: Pid, device: u64) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task"));
    let threads = threads.into_iter().flatten().flatten();
    let mut calls = threads.filter_map(|it| fs::read_to_string(it.path().join("syscall")).ok());
    calls.any(|call| reads_from(&call).is_some_and(|file| is_terminal(pid, file, device)))
}

/// Returns the open file that a system call reads from. `/proc/PID/syscall` holds the number of the call, then its
/// arguments.
fn reads_from(call: &str) -> Option<u64> {
    let mut words = call.split_ascii_whitespace();
    let number: libc::c_long = words.next()?.parse().ok()?;
    let is_read = number == libc::SYS_read || number == libc::SYS_readv;
    let file = words.next().filter(|_| is_read)?;
    u64::from_str_radix(file.strip_prefix("0x")?, 16).ok()
}

fn is_terminal(pid: Pid, file: u64, device: u64) -> bool {
    let opened = fs::metadata(format!("/proc/{pid}/fd/{file}"));
    opened.is_ok_and(|it| it.rdev() == device || it.rdev() == OWN_TERMINAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_call_is_told_from_others() {
        let read = format!("{} 0x3 0x7ffd 0x1 0x0 0x0 0x0 0x7ffd 0x7f", libc::SYS_read);
        assert_eq!(reads_from(&read), Some(3));
        let write = format!("{} 0x3 0x7ffd 0x1 0x0 0x0 0x0 0x7ffd 0x7f", libc::SYS_write);
        assert_eq!(reads_from(&write), None);
        assert_eq!(reads_from("running"), None);
        assert_eq!(reads_from("-1 0x7ffd 0x7f"), None);
    }
}
