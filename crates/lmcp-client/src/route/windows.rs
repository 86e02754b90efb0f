//! Processes and sockets on Windows.
//!
//! A process that is started here ends with its connection. Processes that it started run on, and so does the process itself
//! if this program is ended by force: to end them all, Windows needs a job object, which only `unsafe` code can make.

use std::{io, path::Path, process::ExitStatus};

use tokio::{
    io::{Empty, Sink},
    process,
};

/// The two halves of a connection on a unix socket. There is none.
pub(super) type Socket = (Empty, Sink);

/// Fails, because there are no unix sockets here.
#[expect(clippy::unused_async, reason = "elsewhere it waits")]
pub(super) async fn connect(_: &Path) -> io::Result<Socket> {
    let words = "this system has no unix sockets; use a URL or a command";
    Err(io::Error::new(io::ErrorKind::Unsupported, words))
}

/// Checks nothing: no socket gets this far.
#[expect(clippy::unnecessary_wraps, reason = "elsewhere it can fail")]
pub(super) fn expect_own_server(_: &Empty) -> Result<(), String> {
    Ok(())
}

/// Returns the standard input of a child process, to be written to.
#[expect(clippy::unnecessary_wraps, reason = "elsewhere it can fail")]
pub(super) fn input_of(pipe: process::ChildStdin) -> io::Result<process::ChildStdin> {
    Ok(pipe)
}

/// Starts a command.
pub(super) fn start_apart(command: &mut process::Command) -> io::Result<process::Child> {
    command.spawn()
}

/// Returns no signal, because there are none.
pub(super) fn signal_of(_: ExitStatus) -> Option<i32> {
    None
}

/// Holds nothing: `kill_on_drop` ends the process itself.
pub(super) struct Leash;

impl Leash {
    #[expect(clippy::unnecessary_wraps, reason = "elsewhere it can fail")]
    pub(super) fn new(_: Option<u32>) -> io::Result<Self> {
        Ok(Self)
    }

    /// Does nothing: a process without a window cannot be asked to end. Its input was closed before, and it is killed next.
    #[expect(clippy::unused_self, reason = "elsewhere it holds something")]
    pub(super) fn terminate(&self) {}
}
