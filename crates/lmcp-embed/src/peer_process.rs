//! The process that connected. A later process with the same number is not taken for it.

use std::time::Duration;

use lmcp_core::transport::Peer;
use nix::sys::socket::{getsockopt, sockopt::PeerPidfd};
use rustix::{
    fd::OwnedFd,
    param::clock_ticks_per_second,
    process::Pid,
    time::{ClockId, clock_gettime},
};

use crate::{reaping, stat::Stat};

/// A process, and the means to check that it is still the one that connected.
#[derive(Debug)]
pub(crate) struct PeerProcess {
    pub(crate) process: Pid,
    by: By,
}

#[derive(Debug)]
enum By {
    /// The kernel's own handle (Linux 6.5).
    Handle(OwnedFd),
    /// The time when the connection was accepted, in ticks since the start of the system: a process that started later is
    /// another one.
    Age(u64),
}

impl PeerProcess {
    /// Pins the process. `None`: it is gone already, or it cannot be identified.
    pub(crate) fn new(peer: &Peer) -> Option<Self> {
        let process = Pid::from_raw(peer.process().pid?)?;
        let by = match getsockopt(&peer.socket(), PeerPidfd) {
            Ok(handle) => By::Handle(handle),
            Err(nix::errno::Errno::ENOPROTOOPT) => By::Age(ticks_now(peer.age())),
            Err(_) => return None,
        };
        Some(Self { process, by })
    }

    /// Returns whether the process is still alive. If so, its number is still its own.
    pub(crate) fn is_alive(&self) -> bool {
        match &self.by {
            By::Handle(handle) => !reaping::has_ended(handle),
            By::Age(pinned) => start_ticks(self.process).is_some_and(|start| start <= *pinned),
        }
    }
}

/// Returns the value of the process clock at that time before now.
fn ticks_now(ago: Duration) -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let now = Duration::try_from(now).unwrap_or_default();
    let then = now.saturating_sub(ago);
    let ticks = u128::from(clock_ticks_per_second());
    u64::try_from(then.as_nanos() * ticks / 1_000_000_000).unwrap_or(u64::MAX)
}

/// Returns the start time of a process.
fn start_ticks(process: Pid) -> Option<u64> {
    Stat::of(process).ok().map(|stat| stat.process.at)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn by_age_a_younger_process_is_another_one() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let process = Pid::from_child(&child);
        let started = start_ticks(process).unwrap();
        assert!(started <= ticks_now(Duration::ZERO));
        assert!(started > ticks_now(Duration::from_secs(3600)));
        let pinned = |ticks| PeerProcess {
            process,
            by: By::Age(ticks),
        };
        assert!(pinned(started).is_alive());
        assert!(!pinned(started - 1).is_alive());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!pinned(started).is_alive());
    }
}
