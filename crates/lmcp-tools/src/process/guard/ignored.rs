//! Signals that the server was started to ignore are not ignored by commands.
//!
//! A script that starts a server in the background makes it ignore Ctrl-C, and every program that the server starts would
//! ignore it, too: a key that does nothing on the terminal of a job. A program that is started gets the default for each
//! signal that is heard, so the guard hears them all.

use std::{fs, io};

use nix::sys::signal::Signal;
use tokio::{
    runtime,
    signal::unix::{SignalKind, signal},
};

/// Those that users and shells send.
const SENT: [Signal; 10] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
    Signal::SIGTERM,
    Signal::SIGTSTP,
    Signal::SIGTTIN,
    Signal::SIGTTOU,
];

/// Hears from now on every signal that this process was started to ignore.
pub(super) fn hear() -> io::Result<()> {
    let ignored = ignored()?;
    let heard: Vec<_> = SENT
        .into_iter()
        .map(|signal| signal as i32)
        .filter(|number| ignored & (1 << (number - 1)) != 0)
        .collect();
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
