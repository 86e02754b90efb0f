//! The command that `lmcp run` waits for.

use std::{
    io,
    process::{self, Command},
};

use lmcp_wiring::Wiring;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, getpid, kill_process, waitid,
};
use tokio::task::JoinHandle;

use crate::{child::STEP, report::Failure, signals::PassedOn, this_program::this_program};

/// A running command.
pub(super) struct Agent {
    process: Pid,
    signals: PassedOn,
    ended: JoinHandle<io::Result<Option<WaitIdStatus>>>,
}

/// The reason why the wait for the command ends.
pub(super) enum News {
    /// The command has ended, with this code.
    Ended(u8),
    /// This program must become its newest version.
    Upgrade,
}

impl Agent {
    /// Starts a command through a step that ties its life to this program's.
    pub(super) fn start(
        wiring: &Wiring,
        spawn: impl FnOnce(&mut Command) -> io::Result<process::Child>,
    ) -> Result<Self, Failure> {
        let started = || {
            let signals = PassedOn::listen()?;
            let mut command = Command::new(this_program()?);
            command
                .arg(STEP)
                .arg(getpid().to_string())
                .arg("--")
                .args(&wiring.argv)
                .envs(&wiring.env);
            Ok(Self::of(Pid::from_child(&spawn(&mut command)?), signals))
        };
        started().map_err(|err: io::Error| Failure::new("cannot start the command", err))
    }

    /// Takes over a command that this process started as another version of this program.
    pub(super) fn running(process: i32) -> Result<Self, Failure> {
        let process = Pid::from_raw(process);
        let process = process.ok_or_else(|| Failure::misuse("this is not a process"))?;
        let signals = PassedOn::listen();
        let signals = signals.map_err(|err| Failure::new("cannot wait for signals", err))?;
        Ok(Self::of(process, signals))
    }

    fn of(process: Pid, signals: PassedOn) -> Self {
        // The status can be read again: this process may become another program before the status was used.
        let peek = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let ended = move || Ok(waitid(WaitId::Pid(process), peek)?);
        Self {
            process,
            signals,
            ended: tokio::task::spawn_blocking(ended),
        }
    }

    pub(super) fn process(&self) -> Pid {
        self.process
    }

    /// Passes on signals until there is other news.
    pub(super) async fn next(&mut self) -> Result<News, Failure> {
        loop {
            tokio::select! {
                ended = &mut self.ended => {
                    let ended = ended.map_err(io::Error::other).flatten();
                    let status = ended.map_err(|err| Failure::new("cannot wait for the command", err))?;
                    return Ok(News::Ended(status.map_or(u8::MAX, |status| self.code(&status))));
                }
                signal = self.signals.next() => match signal {
                    Signal::USR2 => return Ok(News::Upgrade),
                    signal => drop(kill_process(self.process, signal)),
                },
            }
        }
    }

    /// Returns the exit code of this program for the end of the command, and reaps the command.
    fn code(&self, status: &WaitIdStatus) -> u8 {
        let _ = waitid(WaitId::Pid(self.process), WaitIdOptions::EXITED);
        let by_signal = || 128 + status.terminating_signal().unwrap_or_default();
        let code = status.exit_status().unwrap_or_else(by_signal);
        u8::try_from(code).unwrap_or(u8::MAX)
    }
}
