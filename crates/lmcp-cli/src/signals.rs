//! The signals that ask a program to stop: the first is a request, the second an order.

use std::{future::poll_fn, io, task::Poll};

use nix::sys::signal::{SigSet, Signal as Kind};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::report::Failure;

/// Handles SIGCHLD and SIGXFSZ, even if this process was started to ignore them. Call it inside of a runtime, before the
/// first process is started.
///
/// If SIGCHLD is ignored, the kernel does not report how a child ended. SIGXFSZ would end a server whose caller writes a
/// file that is too large; with a handler, only that write fails. Programs that are started have the default for both.
pub(crate) fn take_back() -> io::Result<()> {
    for kind in [
        rustix::process::Signal::CHILD,
        rustix::process::Signal::XFSZ,
    ] {
        drop(signal(SignalKind::from_raw(kind.as_raw()))?);
    }
    Ok(())
}

/// Handles SIGCHLD in a program without a runtime.
pub(crate) fn hear_of_children() -> io::Result<()> {
    if !is_ignored(rustix::process::Signal::CHILD) {
        return Ok(());
    }
    for_good(|| signal(SignalKind::child()).map(drop))
}

/// Handles the signals that [`PassedOn`] hears. The program that this process was before has [held them back](HeldBack), and they come
/// as soon as they are let through.
pub(crate) fn hear_what_was_held_back() -> io::Result<()> {
    for_good(|| PassedOn::listen().map(drop))
}

/// Makes handlers outside of a runtime. They stay.
fn for_good(make: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_io().build()?;
    let _inside = runtime.enter();
    make()
}

/// The signals that stop the program, from now on.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// Absent if the signal is ignored, as under `nohup`.
    hang_up: Option<Signal>,
}

impl Signals {
    pub(crate) fn listen() -> Result<Self, Failure> {
        let open = |kind| signal(kind).map_err(|err| Failure::new("cannot wait for signals", err));
        Ok(Self {
            interrupt: open(SignalKind::interrupt())?,
            terminate: open(SignalKind::terminate())?,
            hang_up: (!is_ignored(rustix::process::Signal::HUP))
                .then(|| open(SignalKind::hangup()))
                .transpose()?,
        })
    }

    /// Returns the next signal.
    pub(crate) async fn next(&mut self) -> SignalKind {
        tokio::select! {
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.terminate.recv() => SignalKind::terminate(),
            _ = next_of(self.hang_up.as_mut()) => SignalKind::hangup(),
        }
    }
}

async fn next_of(signal: Option<&mut Signal>) -> Option<()> {
    match signal {
        Some(signal) => signal.recv().await,
        None => std::future::pending().await,
    }
}

/// Returns the failure for an end by a signal, with the exit code that shells use.
pub(crate) fn stopped_by(kind: SignalKind) -> Failure {
    let name = if kind == SignalKind::interrupt() {
        "SIGINT"
    } else if kind == SignalKind::hangup() {
        "SIGHUP"
    } else {
        "SIGTERM"
    };
    let code = 128 + kind.as_raw_value();
    Failure::of(format!("stopped at once by {name}")).code(u8::try_from(code).unwrap_or(u8::MAX))
}

/// Signals for a command that this program waits for.
pub(crate) struct PassedOn {
    heard: Vec<(Signal, rustix::process::Signal)>,
    /// The terminal sends these signals to the command, too, so they are not passed on, and do not end this program.
    _of_the_terminal: Vec<Signal>,
}

impl PassedOn {
    /// Listens for the signals. An ignored signal stays ignored, also for the command, because `nohup` means both.
    pub(crate) fn listen() -> io::Result<Self> {
        use rustix::process::Signal as Kind;
        let is_heard = |kind: &Kind| !is_ignored(*kind);
        let open = |kind: Kind| signal(SignalKind::from_raw(kind.as_raw()));
        let passed_on = [Kind::TERM, Kind::HUP, Kind::USR1, Kind::USR2];
        let heard = passed_on.into_iter().filter(is_heard);
        let terminal = [Kind::INT, Kind::QUIT].into_iter().filter(is_heard);
        Ok(Self {
            heard: heard
                .map(|kind| Ok((open(kind)?, kind)))
                .collect::<io::Result<_>>()?,
            _of_the_terminal: terminal.map(open).collect::<io::Result<_>>()?,
        })
    }

    /// Returns the next signal.
    pub(crate) async fn next(&mut self) -> rustix::process::Signal {
        poll_fn(|cx| {
            let mut heard = self.heard.iter_mut();
            let came =
                heard.find_map(|(signal, kind)| signal.poll_recv(cx).is_ready().then_some(*kind));
            came.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

/// Holds back the signals that [`PassedOn`] hears, until this is dropped. If this process becomes another program meanwhile, the signals
/// wait for that program: at its start, before it listens, they would end it.
pub(crate) struct HeldBack(SigSet);

impl HeldBack {
    pub(crate) fn new() -> io::Result<Self> {
        let held = passed_on();
        held.thread_block()?;
        Ok(Self(held))
    }
}

impl Drop for HeldBack {
    fn drop(&mut self) {
        let _ = self.0.thread_unblock();
    }
}

fn passed_on() -> SigSet {
    [
        Kind::SIGTERM,
        Kind::SIGHUP,
        Kind::SIGUSR1,
        Kind::SIGUSR2,
        Kind::SIGINT,
        Kind::SIGQUIT,
    ]
    .into_iter()
    .collect()
}

/// Returns whether this process was started to ignore a signal.
fn is_ignored(kind: rustix::process::Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.unwrap_or_default() & (1 << (kind.as_raw() - 1)) != 0
}
