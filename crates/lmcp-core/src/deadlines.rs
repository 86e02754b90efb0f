//! [`Deadlines`]: the deadlines of many calls, with one timer for all of them.
//!
//! A timer of the runtime costs as much as a short call: whenever a new timer is the next to fire, the runtime wakes itself.
//! Calls of one kind mostly have the same time limit, so the timer for the first of them also serves the later ones.

use std::{
    collections::BTreeMap,
    fmt,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::{Context, Poll, Waker},
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

use crate::spawn::Tasks;

/// One timer for the deadlines of many calls. Cheap to clone.
#[derive(Clone, Default)]
pub struct Deadlines(Arc<Inner>);

#[derive(Default)]
struct Inner {
    waits: Mutex<Waits>,
    /// Notified when a new deadline is earlier than the time that the timer waits for.
    earlier: Arc<Notify>,
    /// The task of the timer, while any call waits.
    timer: Tasks,
}

#[derive(Default)]
struct Waits {
    all: BTreeMap<(Instant, u64), Waker>,
    next: u64,
    /// The time at which the timer fires. `None`: there is no timer.
    armed: Option<Instant>,
}

impl Deadlines {
    /// Starts a wait of this length.
    #[must_use]
    pub fn after(&self, time: Duration) -> Deadline {
        Deadline {
            at: Instant::now().checked_add(time),
            number: None,
            deadlines: self.clone(),
        }
    }

    /// Waits for a future, for this time at most. `None`: the time was over first.
    pub async fn within<T>(&self, time: Duration, future: impl Future<Output = T>) -> Option<T> {
        let deadline = self.after(time);
        tokio::select! {
            biased;
            done = future => Some(done),
            () = deadline => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waits> {
        self.0.lock()
    }
}

impl Inner {
    /// Wakes the calls whose time is over. Returns the time of the next deadline.
    fn expire(&self) -> Option<Instant> {
        let mut waits = self.lock();
        let rest = waits.all.split_off(&(Instant::now(), u64::MAX));
        let over = std::mem::replace(&mut waits.all, rest);
        waits.armed = waits.all.keys().next().map(|(at, _)| *at);
        let next = waits.armed;
        drop(waits);
        over.into_values().for_each(Waker::wake);
        next
    }

    fn lock(&self) -> MutexGuard<'_, Waits> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Deadlines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deadlines").finish_non_exhaustive()
    }
}

/// The wait of one call: a future that ends at its time.
#[derive(Debug)]
pub struct Deadline {
    /// `None`: the time never comes.
    at: Option<Instant>,
    /// Tells deadlines of the same moment apart. Set by the first poll.
    number: Option<u64>,
    deadlines: Deadlines,
}

impl Future for Deadline {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(at) = self.at else {
            return Poll::Pending;
        };
        let deadlines = self.deadlines.clone();
        let mut waits = deadlines.lock();
        if let Some(number) = self.number {
            return match waits.all.get_mut(&(at, number)) {
                Some(waker) => {
                    waker.clone_from(cx.waker());
                    Poll::Pending
                }
                None => Poll::Ready(()),
            };
        }
        waits.next += 1;
        self.number = Some(waits.next);
        let key = (at, waits.next);
        waits.all.insert(key, cx.waker().clone());
        match waits.armed {
            None => {
                waits.armed = Some(at);
                drop(waits);
                let timer = run(Timer(Arc::downgrade(&deadlines.0)));
                deadlines.0.timer.spawn(timer);
            }
            Some(armed) if at < armed => {
                waits.armed = Some(at);
                deadlines.0.earlier.notify_one();
            }
            Some(_) => {}
        }
        Poll::Pending
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        if let (Some(at), Some(number)) = (self.at, self.number) {
            self.deadlines.lock().all.remove(&(at, number));
        }
    }
}

/// The task of the timer. If the task is dropped with its runtime, the next call that waits starts another.
struct Timer(Weak<Inner>);

impl Drop for Timer {
    fn drop(&mut self) {
        if let Some(inner) = self.0.upgrade() {
            inner.lock().armed = None;
        }
    }
}

async fn run(mut timer: Timer) {
    while let Some(inner) = timer.0.upgrade() {
        let Some(next) = inner.expire() else {
            // No call waits any more. The next call that waits starts a timer of its own, which this one must not report as gone.
            timer.0 = Weak::new();
            return;
        };
        let earlier = Arc::clone(&inner.earlier);
        // The timer keeps nothing alive while it waits.
        drop(inner);
        tokio::select! {
            () = sleep_until(next) => {}
            () = earlier.notified() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_ends_at_its_own_time_whatever_the_order() {
        let (deadlines, began) = (Deadlines::default(), Instant::now());
        let seconds = |count| {
            let deadline = deadlines.after(Duration::from_secs(count));
            async move {
                deadline.await;
                began.elapsed().as_secs()
            }
        };
        let ended = tokio::join!(seconds(30), seconds(10), seconds(20), seconds(10));
        assert_eq!(ended, (30, 10, 20, 10));
        assert_eq!(seconds(5).await, 35);
    }

    #[tokio::test(start_paused = true)]
    async fn a_future_is_waited_for_only_so_long() {
        let deadlines = Deadlines::default();
        let second = Duration::from_secs(1);
        assert_eq!(deadlines.within(second, async { 7 }).await, Some(7));
        let never = deadlines.within(second, std::future::pending::<()>());
        assert_eq!(never.await, None);
        let slow = deadlines.within(Duration::MAX, tokio::time::sleep(100 * second));
        assert_eq!(slow.await, Some(()));
        assert!(deadlines.lock().all.is_empty());
    }

    #[test]
    fn the_next_runtime_has_a_timer_of_its_own() {
        let deadlines = Deadlines::default();
        for _ in 0..2 {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = runtime.enable_time().start_paused(true).build();
            let deadlines = deadlines.clone();
            runtime.expect("there is a runtime").block_on(async {
                let mut left = tokio::task::JoinSet::new();
                left.spawn(deadlines.after(Duration::from_secs(9)));
                deadlines.after(Duration::from_secs(1)).await;
                left.detach_all();
            });
        }
    }
}
