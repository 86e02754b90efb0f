//! Processes and sockets on unix, and a watcher that ends a started process when this program is gone, even if it was killed
//! without a warning.
//!
//! The watcher is a shell that waits for the end of its standard input. Only this program holds the other end, and the
//! kernel closes it when this program ends. The shell then kills the process group. This costs one small process, and needs
//! neither a signal handler nor `prctl` between fork and exec.

use std::{
    io,
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    process,
};

use super::input::Input;

/// The two halves of a connection on a unix socket.
pub(super) type Socket = (OwnedReadHalf, OwnedWriteHalf);

/// Connects to a unix socket. If its queue is full because of a flood, waits for a place.
pub(super) async fn connect(path: &Path) -> io::Result<Socket> {
    let stream = match UnixStream::connect(path).await {
        #[cfg(target_os = "linux")]
        Err(err) if err.kind() == io::ErrorKind::WouldBlock => in_turn(path).await?,
        connected => connected?,
    };
    Ok(stream.into_split())
}

#[cfg(target_os = "linux")]
async fn in_turn(path: &Path) -> io::Result<UnixStream> {
    let address = rustix::net::SocketAddrUnix::new(path)?;
    let connecting =
        move || lmcp_private::connect_in_turn(&address, crate::limits::FULL_QUEUE_WAIT);
    let connected = tokio::task::spawn_blocking(connecting).await;
    let stream = std::os::unix::net::UnixStream::from(connected.map_err(io::Error::other)??);
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

/// Checks that this user or root serves a socket, before a secret is sent there.
///
/// # Errors
/// Another user serves it, in words that follow the name of the socket.
pub(super) fn expect_own_server(socket: &OwnedReadHalf) -> Result<(), String> {
    let stream: &UnixStream = socket.as_ref();
    let server = stream
        .peer_cred()
        .map_err(|err| format!("does not tell who serves it: {err}"))?;
    let user = server.uid();
    match lmcp_private::is_ours_or_roots(user) {
        true => Ok(()),
        false => Err(format!(
            "is served by user {user}, who is not to see the token"
        )),
    }
}

/// Returns the standard input of a child process, to be written to.
pub(super) fn input_of(pipe: process::ChildStdin) -> io::Result<Input> {
    Input::new(pipe)
}

/// Starts a command as a process group of its own, which a [`Leash`] can end.
pub(super) fn start_apart(command: &mut process::Command) -> io::Result<process::Child> {
    command.process_group(0).spawn()
}

/// Returns the signal that ended a process.
pub(super) fn signal_of(status: ExitStatus) -> Option<i32> {
    status.signal()
}

/// Holds a process group. Dropping it ends the group.
pub(super) struct Leash {
    group: Option<Pid>,
    watcher: Child,
}

impl Leash {
    /// Takes the group of a process, by its number.
    pub(super) fn new(group: Option<u32>) -> io::Result<Self> {
        let group = group.and_then(|group| Pid::from_raw(i32::try_from(group).ok()?));
        let number = group.map_or(0, |group| group.as_raw_nonzero().get());
        let watcher = Command::new("/bin/sh")
            .args(["-c", WATCH, "lmcp-leash", &number.to_string()])
            .current_dir("/")
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // The interrupt of a terminal goes to a whole group, and the watcher must outlive it.
            .process_group(0)
            .spawn()?;
        Ok(Self { group, watcher })
    }

    /// Asks the group to end.
    pub(super) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // The group may have ended already.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        // The watcher is killed before its input is closed: otherwise it would signal the group, whose number may belong to
        // other processes by then.
        let _ = self.watcher.kill();
        let _ = self.watcher.wait();
    }
}

const WATCH: &str = r#"read -r line; [ "$1" -gt 1 ] && kill -s KILL -- "-$1""#;
