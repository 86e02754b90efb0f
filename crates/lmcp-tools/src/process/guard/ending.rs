//! Ends a command, with everything that it started.

use std::{
    io,
    time::{Duration, Instant},
};

use nix::{
    sys::{
        ptrace,
        resource::{UsageWho, getrusage},
        signal::Signal as Kind,
        time::TimeValLike as _,
    },
    unistd::Pid as Traced,
};
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
    process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process_group, wait},
};

use crate::time::{millis, now};

use super::{
    super::{
        dir, enter, passing,
        protocol::{End, Extent, Word},
        remove::remove_tree,
        tree,
    },
    DRAIN, Guard, MOST_GRACE, STILL_THERE, Stop,
};

/// The most ended processes that are collected in one turn. Where hundreds of processes fork without pause, the guard gets
/// little time, and each process that it collects makes room for one more of them.
const MOST_REAPED: usize = 64;
/// How often everything is killed in one turn.
const SWEEPS: usize = 20;
/// The longest time for asking processes to end.
const ASKING: Duration = Duration::from_millis(500);
/// The most processes left behind by a command that are named.
const MOST_LEFT: usize = 1000;

impl Guard {
    /// Handles signals sent to the guard itself: a signal to end ends everything.
    pub(super) fn on_signals(&mut self) {
        while let Ok(Some(signal)) = self.signals.read_signal() {
            let number = i32::try_from(signal.ssi_signo).unwrap_or_default();
            if let Ok(Kind::SIGTERM | Kind::SIGINT | Kind::SIGHUP) = Kind::try_from(number) {
                self.begin_stop(Duration::from_millis(self.order.grace_ms));
            }
        }
    }

    /// Returns the time at which the command must end.
    pub(super) fn time_limit(&self) -> Option<Instant> {
        let limit = self.order.timeout_ms?;
        self.started.checked_add(Duration::from_millis(limit))
    }

    pub(super) fn look_at_clock(&mut self) {
        let now = Instant::now();
        let over = self.time_limit().is_some_and(|limit| limit <= now);
        if over && self.status.is_none() && matches!(self.stop, Stop::No) {
            self.timed_out = true;
            self.begin_stop(Duration::from_millis(self.order.grace_ms));
        }
        if self.look_at <= now {
            self.look_at = now + STILL_THERE;
            // A job without its record can be found by nobody.
            if self.listener.is_some() && !dir::is_there(&self.order.dir) {
                self.begin_stop(Duration::from_millis(self.order.grace_ms));
            }
        }
        match self.stop {
            Stop::Asked(at) if at <= now => self.stop = Stop::Killing,
            Stop::No | Stop::Asked(_) | Stop::Killing => {}
        }
        if matches!(self.stop, Stop::Killing) && !self.no_children {
            self.kill_all();
        }
    }

    /// Kills everything that is left, several times: a process that forks and ends without pause is hardly ever there at a
    /// single look.
    fn kill_all(&mut self) {
        if self.status.is_none() {
            // The command has not been waited for, so the number is still its own. Most processes are in this group, and
            // killing the group takes no search.
            let _ = kill_process_group(self.pid, Signal::KILL);
        }
        for _ in 0..SWEEPS {
            if !tree::kill_children() {
                break;
            }
            self.reap();
            if self.no_children || self.more_ended {
                return;
            }
        }
        // A child that cannot end now, because it waits for a device, still has its own children.
        tree::signal_below(getpid(), Signal::KILL);
    }

    /// Asks everything to end. `look_at_clock` kills what is left after the grace.
    pub(super) fn begin_stop(&mut self, grace: Duration) {
        let grace = grace.min(MOST_GRACE);
        if !matches!(self.stop, Stop::No) {
            // A caller that asks again does not want to wait longer than its own grace.
            let sooner = Instant::now() + grace;
            if let Stop::Asked(at) = &mut self.stop {
                *at = sooner.min(*at);
            }
            return;
        }
        // CONT is sent, too: a halted process cannot end.
        tree::ask_below(getpid(), &[Signal::TERM, Signal::CONT], ASKING);
        self.stop = Stop::Asked(Instant::now() + grace);
    }

    /// Collects processes that have ended: a bounded number, so that processes which end without pause do not keep the guard
    /// from its other work.
    pub(super) fn reap(&mut self) {
        self.more_ended = false;
        for _ in 0..MOST_REAPED {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if status.stopped() => go_on(pid, status),
                Ok(Some((pid, status))) if pid == self.pid => self.status = Some(status),
                Ok(Some(_)) => {}
                Err(Errno::CHILD) => {
                    self.no_children = true;
                    return;
                }
                Err(Errno::INTR) => {}
                Ok(None) | Err(_) => return,
            }
        }
        self.more_ended = true;
    }

    /// Reports how the command ended, once it has ended and its output has been read.
    pub(super) fn settle(&mut self) {
        let Some(status) = self.status.filter(|_| self.end.is_none()) else {
            return;
        };
        // If everything is being ended, the command has ended once everything has.
        if !matches!(self.stop, Stop::No) && !self.no_children {
            return;
        }
        // All output of the command itself is in the pipes by now. Other processes that hold the pipes may still write.
        self.read_outputs();
        let until = *self.drained_at.get_or_insert(Instant::now() + DRAIN);
        let more_may_come = !self.outputs.is_empty() && !self.no_children;
        if more_may_come && Instant::now() < until {
            return;
        }
        let end = self.end_now(&End {
            exit_code: status.exit_status(),
            signal: status.terminating_signal(),
            not_run: self.step.as_ref().and_then(enter::why_not_run),
            timed_out: self.timed_out,
            stopped: !matches!(self.stop, Stop::No) && !self.timed_out,
            duration_ms: millis(self.started.elapsed()),
            ended_at: now(),
            ..End::default()
        });
        if self.listener.is_some() {
            // If this fails, the next server finds the job lost, but the present one still gets the end.
            let _ = self.write_end(&end);
        }
        self.told = self.spool.bytes();
        self.say(&Word::Ended(end.clone()));
        self.end = Some(end);
    }

    /// Returns the end, updated with what has changed since.
    pub(super) fn end_now(&self, end: &End) -> End {
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN).ok();
        let cpu = usage.map(|usage| usage.user_time() + usage.system_time());
        let peak = usage.map(|usage| usage.max_rss());
        let left = tree::descendants(getpid());
        End {
            cpu_ms: cpu.map_or(0, |time| {
                u64::try_from(time.num_milliseconds()).unwrap_or_default()
            }),
            // Linux counts the memory in kilobytes.
            peak_memory_bytes: peak.map_or(0, |kib| u64::try_from(kib).unwrap_or_default() * 1024),
            left_running: left
                .into_iter()
                .take(MOST_LEFT)
                .map(Pid::as_raw_pid)
                .collect(),
            bytes: self.spool.bytes(),
            extent: self.spool.extent(),
            lost: self.spool.lost(),
            not_recorded: self.spool.why_not_recorded().map(Into::into),
            ..end.clone()
        }
    }

    /// Records the end for readers that come when this process, and its files in memory, are gone.
    pub(super) fn write_end(&self, end: &End) -> io::Result<()> {
        let (lost, dropped) = self.spool.on_disk();
        let end = End {
            lost,
            extent: Extent {
                dropped,
                memory: None,
            },
            ..end.clone()
        };
        dir::write_whole(&self.order.dir, dir::END, &serde_json::to_vec(&end)?)
    }

    /// Returns whether the server still needs the record of a command that is not kept.
    pub(super) fn is_being_read(&self) -> bool {
        self.listener.is_none() && self.peers.iter().any(|peer| peer.is_owner)
    }

    /// Removes the scratch files of the command; of a command that is not kept, everything. The guard does this because the
    /// server may be gone, and has other callers to serve.
    pub(super) fn tidy_up(&mut self) {
        // Callers that wait for the end need not wait for the removal.
        let _ = flock(self.spool.output(), FlockOperation::Unlock);
        self.peers.clear();
        self.listener = None;
        let dir = &self.order.dir;
        // A passing job, which nobody could find again, leaves nothing once its server is gone.
        let is_over = self.order.passing && self.orphaned;
        // The command may have changed the mode of the folder so that it cannot be read.
        let _ = dir::put_right(dir);
        if dir::is_there(&dir.join(dir::KEPT)) && !is_over {
            let _ = remove_tree(&dir.join(dir::SCRATCH));
            return;
        }
        // The next server finds and removes the rest.
        let _ = remove_tree(dir);
        if let Some(all) = dir.parent().filter(|_| self.order.passing) {
            passing::remove_if_over(all);
        }
    }

    /// Records, once nothing is left, that the processes left behind are gone, too.
    pub(super) fn say_goodbye(&mut self) {
        self.read_outputs();
        let Some(end) = self.end.take() else {
            return;
        };
        if self.listener.is_some() && !end.left_running.is_empty() {
            let _ = self.write_end(&self.end_now(&end));
        }
    }
}

/// Lets a process go on that has stopped although nobody asked for stops: it has made this process its tracer
/// (`PTRACE_TRACEME`), and stops for each signal.
fn go_on(process: Pid, status: WaitStatus) {
    let signal = status.stopping_signal().map(Kind::try_from);
    // For a tracer alone, the kernel makes this signal out of an `exec`. Without one it would end the process.
    let signal = signal
        .and_then(Result::ok)
        .filter(|it| *it != Kind::SIGTRAP);
    // It may have been killed meanwhile.
    let _ = ptrace::detach(Traced::from_raw(process.as_raw_pid()), signal);
}
