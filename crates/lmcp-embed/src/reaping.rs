//! The end of processes: how the host sees it, and whether the host or the program waits for them.
//!
//! Linux keeps a process that has ended as a zombie until its parent waits for it, and gives its exit status once. A program
//! leaves that to the host by [`ChildHandle::watch`](crate::ChildHandle::watch). It stays the parent when it becomes another
//! program by `exec`, so the next host waits for such processes, too. The host never waits for other processes, because the
//! program may do so.

use std::{
    os::{
        fd::{AsFd as _, BorrowedFd},
        unix::process::ExitStatusExt as _,
    },
    process::ExitStatus,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fd::OwnedFd,
    process::{WaitId, WaitIdOptions, waitid},
};

use crate::stat::Stat;

/// Tells whether the host waits for a process after its end, or leaves that to the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiter {
    Host,
    Program,
}

impl Waiter {
    /// Returns who waits for a process that an earlier host knew. `is_left`: its program had left that to the host.
    pub(crate) fn of(process: &Stat, is_left: bool) -> Self {
        let this = Stat::of_this_process().ok();
        let this = this.map(|this| this.process.process);
        if is_left && this.is_some() && process.parent == this {
            Self::Host
        } else {
            Self::Program
        }
    }

    /// Returns how a process has ended. If the host waits for it, no zombie is left; else the program can ask again. `None`:
    /// this program has not started the process, or somebody has waited for it.
    pub(crate) fn status(self, process: BorrowedFd<'_>) -> Option<ExitStatus> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        let options = match self {
            Self::Host => options,
            Self::Program => options | WaitIdOptions::NOWAIT,
        };
        let status = waitid(WaitId::PidFd(process), options).ok().flatten()?;
        let code = status.exit_status().map(|code| (code & 0xff) << 8);
        let signal = status.terminating_signal();
        Some(ExitStatus::from_raw(code.or(signal)?))
    }
}

/// Returns whether the process of this handle has ended. A zombie has.
pub(crate) fn has_ended(process: &OwnedFd) -> bool {
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let mut asked = [PollFd::from_borrowed_fd(process.as_fd(), PollFlags::IN)];
    // The handle is readable when the process has ended.
    poll(&mut asked, Some(&at_once)) != Ok(0)
}
