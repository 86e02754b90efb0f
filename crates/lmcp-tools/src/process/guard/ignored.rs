//! Signals that the server was started to ignore are not ignored by commands.
//!
//! A script that starts a server in the background makes it ignore Ctrl-C, and every program that the server starts would
//! ignore it, too: a key that does nothing on the terminal of a job. A program that is started gets the default for each
//! signal that is heard, so the guard hears them all.

use std::{fs, io, ops::RangeInclusive};

use nix::sys::signal::Signal;
use rustix::process::{Resource, getrlimit};
use tokio::{
    runtime,
    signal::unix::{SignalKind, signal},
};

/// Those that no program can hear, and SIGPIPE, which Rust ignores and gives back to the programs that it starts.
const LEFT_OUT: [Signal; 6] = [
    Signal::SIGILL,
    Signal::SIGFPE,
    Signal::SIGKILL,
    Signal::SIGSEGV,
    Signal::SIGPIPE,
    Signal::SIGSTOP,
];

/// The numbers that C libraries use themselves.
const OF_LIBRARIES: RangeInclusive<i32> = 32..=34;

/// Hears from now on every signal that this process was started to ignore. SIGCHLD is one of them: where it is ignored, nobody
/// learns how a command ended.
///
/// Hears of files that become too large, too, where there is a limit on that: the guard can block that signal, but not while it
/// starts the command, which would inherit it blocked.
pub(super) fn hear() -> io::Result<()> {
    let ignored = ignored()?;
    let is_limited = getrlimit(Resource::Fsize).current.is_some();
    let is_heard = |number: &i32| {
        let is_left_out = LEFT_OUT.iter().any(|signal| *signal as i32 == *number);
        let is_ignored = ignored & (1 << (number - 1)) != 0;
        is_ignored && !is_left_out && !OF_LIBRARIES.contains(number)
            || is_limited && *number == Signal::SIGXFSZ as i32
    };
    let heard: Vec<_> = (1..=64).filter(is_heard).collect();
    if heard.is_empty() {
        return Ok(());
    }
    // The handlers stay when this is gone. Nothing else in a guard is asynchronous.
    let runtime = runtime::Builder::new_current_thread().enable_io().build()?;
    let _inside = runtime.enter();
    for number in heard {
        drop(signal(SignalKind::from_raw(number))?);
    }
    Ok(())
}

/// A bit for each signal that this process ignores, the lowest for number 1.
fn ignored() -> io::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.ok_or(io::ErrorKind::InvalidData)?;
    u64::from_str_radix(mask.trim(), 16).map_err(io::Error::other)
}
