//! A guard that was halted goes on by itself.
//!
//! A command can halt its guard at any moment, and its server, which would notice, may end at the same moment. A timer of
//! the kernel runs on in a process that is halted, and the signal that it sends is the one that makes a process go on.

use std::time::Duration;

use nix::{
    sys::{
        signal::{SigEvent, SigevNotify, Signal},
        timer::{Expiration, Timer, TimerSetTimeFlags},
    },
    time::ClockId,
};

/// The longest that a guard is halted.
const LONGEST: Duration = Duration::from_secs(5);

/// Wakes this process from time to time, for as long as it is kept. `None` where the system has no such timers: there
/// only a server ends what a halted guard guards.
///
/// The signal must be blocked: what a process ignores is no reason for the kernel to wind a timer again.
pub(super) fn stay_awake() -> Option<Timer> {
    let signal = SigevNotify::SigevSignal {
        signal: Signal::SIGCONT,
        si_value: 0,
    };
    let mut timer = Timer::new(ClockId::CLOCK_MONOTONIC, SigEvent::new(signal)).ok()?;
    let again = Expiration::Interval(LONGEST.into());
    timer.set(again, TimerSetTimeFlags::empty()).ok()?;
    Some(timer)
}
