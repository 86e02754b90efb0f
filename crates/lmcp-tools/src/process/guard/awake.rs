//! A guard that was halted goes on by itself.
//!
//! A command can halt its guard at any moment, and the server, which would notice, may end at the same moment. A timer of
//! the kernel runs on in a halted process, and it sends the signal that makes a process go on.

use std::time::Duration;

use nix::{
    sys::{
        signal::{SigEvent, SigevNotify, Signal},
        timer::{Expiration, Timer, TimerSetTimeFlags},
    },
    time::ClockId,
};

/// The longest time that a guard stays halted.
const LONGEST: Duration = Duration::from_secs(5);

/// Wakes this process from time to time, until the timer is dropped. `None` where the system has no such timers: there
/// only a server ends the command of a halted guard.
///
/// The signal must be blocked: the kernel does not restart a timer whose signal the process ignores.
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
