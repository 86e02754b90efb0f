//! Commands do not ignore the signals that the server ignored from its start.
//!
//! A script that starts a server in the background makes it ignore Ctrl-C, and every program that the server starts would
//! ignore it, too: the key would do nothing on the terminal of a job. A new program gets the default action for each signal
//! that has a handler, so the guard sets a handler for all of them.

use std::{fs, io, ops::RangeInclusive};

use nix::sys::signal::Signal;
use rustix::process::{Resource, getrlimit};
use tokio::{
    runtime,
    signal::unix::{SignalKind, signal},
};

/// The signals that no handler can be set for, and SIGPIPE, which Rust ignores and resets in the programs that it starts.
const LEFT_OUT: [Signal; 6] = [
    Signal::SIGILL,
    Signal::SIGFPE,
    Signal::SIGKILL,
    Signal::SIGSEGV,
    Signal::SIGPIPE,
    Signal::SIGSTOP,
];

/// The signals that C libraries use themselves.
const OF_LIBRARIES: RangeInclusive<i32> = 32..=34;

/// Sets a handler for every signal that this process ignored from its start. SIGCHLD may be one of them: while it is
/// ignored, the guard cannot learn how a command ended.
///
/// Where there is a limit on the size of files, this also sets a handler for SIGXFSZ. The guard can block that signal, but
/// not while it starts the command, which would inherit the block.
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
    // The handlers stay when the runtime is dropped. Nothing else in a guard is asynchronous.
    let runtime = runtime::Builder::new_current_thread().enable_io().build()?;
    let _inside = runtime.enter();
    for number in heard {
        drop(signal(SignalKind::from_raw(number))?);
    }
    Ok(())
}

/// Returns a bit for each signal that this process ignores, the lowest for number 1.
fn ignored() -> io::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.ok_or(io::ErrorKind::InvalidData)?;
    u64::from_str_radix(mask.trim(), 16).map_err(io::Error::other)
}
