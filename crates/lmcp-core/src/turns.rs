//! Turns of callers on the thread that serves all of them: a caller that has used the thread for long waits until the others had
//! their turns, whatever the number of its connections.
//!
//! A round is the time in which every task that is ready gets a turn. A caller may use the thread for [`TURN_TIME`] in a round; what
//! it uses beyond that counts for the next rounds. Rounds pass only while a caller waits, so a caller that is alone waits for nobody.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::{sync::Mutex, task::yield_now};

use crate::limits::TURN_TIME;

/// The number of the round, shared by all callers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rounds(Arc<AtomicU64>);

/// The turns of one caller.
#[derive(Debug)]
pub(crate) struct Turn {
    rounds: Rounds,
    /// The round in which the time was last reckoned.
    reckoned: AtomicU64,
    /// The nanoseconds that the caller has used, without those of earlier rounds.
    used: AtomicU64,
    /// Of all requests of the caller that wait, one watches the rounds.
    first: Mutex<()>,
}

impl Turn {
    pub(crate) fn new(rounds: &Rounds) -> Self {
        Self {
            rounds: rounds.clone(),
            reckoned: AtomicU64::new(rounds.now()),
            used: AtomicU64::new(0),
            first: Mutex::default(),
        }
    }

    /// Whether the caller has time left in this round.
    pub(crate) fn has_time(&self) -> bool {
        let round = self.rounds.now();
        let passed = round.saturating_sub(self.reckoned.swap(round, Ordering::Relaxed));
        if passed > 0 {
            let forgiven = passed.saturating_mul(nanos(TURN_TIME));
            let used = self.used.load(Ordering::Relaxed);
            self.used
                .store(used.saturating_sub(forgiven), Ordering::Relaxed);
        }
        self.used.load(Ordering::Relaxed) < nanos(TURN_TIME)
    }

    /// Waits until the caller has time.
    ///
    /// # Cancellation
    /// Nothing is lost.
    pub(crate) async fn come(&self) {
        let _first = self.first.lock().await;
        while !self.has_time() {
            let round = self.rounds.now();
            yield_now().await;
            self.rounds.pass(round);
        }
    }

    /// Runs a step for the caller, and counts its time.
    pub(crate) fn take<T>(&self, step: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let done = step();
        self.used(began.elapsed());
        done
    }

    fn used(&self, time: Duration) {
        self.used.fetch_add(nanos(time), Ordering::Relaxed);
    }
}

impl Rounds {
    fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Begins the next round, unless another caller that waited in this one has done so.
    fn pass(&self, round: u64) {
        let order = Ordering::Relaxed;
        let _ = self.0.compare_exchange(round, round + 1, order, order);
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::spawn::Tasks;

    #[tokio::test]
    async fn a_caller_alone_waits_for_nobody() {
        let turn = Turn::new(&Rounds::default());
        turn.used(TURN_TIME * 1000);
        turn.come().await;
        assert!(turn.has_time());
    }

    #[tokio::test]
    async fn however_many_requests_a_caller_has_another_is_served_between_them() {
        let rounds = Rounds::default();
        let busy = Arc::new(Turn::new(&rounds));
        let served = Arc::new(AtomicUsize::new(0));
        let tasks = Tasks::default();
        for _ in 0..600 {
            let (busy, served) = (Arc::clone(&busy), Arc::clone(&served));
            tasks.spawn(async move {
                busy.come().await;
                busy.used(TURN_TIME);
                served.fetch_add(1, Ordering::Relaxed);
            });
        }
        let other = Turn::new(&rounds);
        let mut most = 0;
        for _ in 0..100 {
            let before = served.load(Ordering::Relaxed);
            yield_now().await;
            other.come().await;
            most = most.max(served.load(Ordering::Relaxed) - before);
        }
        assert!(
            served.load(Ordering::Relaxed) > 50,
            "the busy caller goes on"
        );
        assert!(most <= 2, "{most} requests of the busy caller in a row");
    }
}
