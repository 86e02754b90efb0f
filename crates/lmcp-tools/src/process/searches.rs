//! Searches that take a while, for many callers: one search runs at a time, on a thread of its own, for all callers that had
//! asked before it began.
//!
//! A caller waits for the running search and the next one, however many callers there are. A search leaves out callers that
//! have gone. The thread ends when no caller is left.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use tokio::sync::oneshot;

/// Searches of one kind.
pub(super) struct Searches<Q, A> {
    search: Box<dyn Fn(Vec<Q>) -> Vec<A> + Send + Sync>,
    pace: Pace,
    state: Mutex<State<Q, A>>,
}

/// The pause between two searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    AtOnce,
    /// Rests as long as the search took. So a caller that asks without end takes half of a processor at most.
    Rested,
}

struct State<Q, A> {
    asked: Vec<(Q, oneshot::Sender<A>)>,
    /// Whether a thread runs that will answer the questions.
    runs: bool,
    /// The earliest time of the next search.
    next: Option<Instant>,
}

impl<Q: Send + 'static, A: Send + 'static> Searches<Q, A> {
    /// Makes the searches. `search` returns as many answers as there are questions, in their order; no answers mean that it
    /// failed.
    pub(super) fn new(
        pace: Pace,
        search: impl Fn(Vec<Q>) -> Vec<A> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            search: Box::new(search),
            pace,
            state: Mutex::new(State {
                asked: Vec::new(),
                runs: false,
                next: None,
            }),
        })
    }

    /// Returns the answer of the next search. `None`: the search failed, or no thread could be started.
    pub(super) async fn ask(self: &Arc<Self>, question: Q) -> Option<A> {
        let (answer, answered) = oneshot::channel();
        let is_first = {
            let mut state = self.lock();
            state.asked.push((question, answer));
            !std::mem::replace(&mut state.runs, true)
        };
        if is_first {
            let work = Work {
                searches: Arc::clone(self),
                is_done: false,
            };
            // If no thread can be started, the work is dropped, and with it the questions.
            let _ = thread::Builder::new()
                .name("search".into())
                .spawn(move || work.run());
        }
        answered.await.ok()
    }

    fn lock(&self) -> MutexGuard<'_, State<Q, A>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The work of the thread. Dropping it early, because no thread could be started or a search panicked, drops the questions,
/// so that no caller waits in vain.
struct Work<Q: Send + 'static, A: Send + 'static> {
    searches: Arc<Searches<Q, A>>,
    is_done: bool,
}

impl<Q: Send + 'static, A: Send + 'static> Work<Q, A> {
    fn run(mut self) {
        loop {
            self.rest();
            let mut asked = std::mem::take(&mut self.searches.lock().asked);
            asked.retain(|(_, answer)| !answer.is_closed());
            let (questions, answers): (Vec<_>, Vec<_>) = asked.into_iter().unzip();
            if questions.is_empty() {
                let mut state = self.searches.lock();
                if state.asked.is_empty() {
                    state.runs = false;
                    self.is_done = true;
                    return;
                }
                continue;
            }
            let began = Instant::now();
            let found = (self.searches.search)(questions);
            if self.searches.pace == Pace::Rested {
                let ended = Instant::now();
                self.searches.lock().next = ended.checked_add(ended - began);
            }
            for (answer, found) in answers.into_iter().zip(found) {
                // The caller may have gone.
                let _ = answer.send(found);
            }
        }
    }

    fn rest(&self) {
        let next = self.searches.lock().next;
        let rest = next.map_or(Duration::ZERO, |next| {
            next.saturating_duration_since(Instant::now())
        });
        #[expect(clippy::disallowed_methods, reason = "nobody else is on this thread")]
        thread::sleep(rest);
    }
}

impl<Q: Send + 'static, A: Send + 'static> Drop for Work<Q, A> {
    fn drop(&mut self) {
        if !self.is_done {
            let mut state = self.searches.lock();
            state.runs = false;
            state.asked.clear();
        }
    }
}

impl<Q, A> fmt::Debug for Searches<Q, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Searches").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tokio::task::JoinSet;

    use super::*;

    #[tokio::test]
    async fn all_who_wait_share_the_next_search_and_who_has_gone_is_not_searched_for() {
        // Each search reports its questions, and goes on when the test lets it.
        let (seen, sees) = mpsc::channel();
        let (go, goes) = mpsc::channel();
        let goes = Mutex::new(goes);
        let searches = Searches::new(Pace::AtOnce, move |questions: Vec<u32>| {
            seen.send(questions.clone()).unwrap();
            goes.lock().unwrap().recv().unwrap();
            questions.iter().map(|question| question + 100).collect()
        });
        let ask = |question| {
            let searches = Arc::clone(&searches);
            async move { searches.ask(question).await }
        };
        let mut waiting = JoinSet::new();
        waiting.spawn(ask(1));
        tokio::task::yield_now().await;
        assert_eq!(sees.recv().unwrap(), [1]);
        // The first search runs. These callers come and go, as connections of a flood do.
        let mut gone = JoinSet::new();
        for question in 10..60 {
            gone.spawn(ask(question));
        }
        tokio::task::yield_now().await;
        gone.shutdown().await;
        waiting.spawn(ask(2));
        waiting.spawn(ask(3));
        tokio::task::yield_now().await;
        go.send(()).unwrap();
        assert_eq!(sees.recv().unwrap(), [2, 3]);
        go.send(()).unwrap();
        let mut answers = waiting.join_all().await;
        answers.sort_unstable();
        assert_eq!(answers, [Some(101), Some(102), Some(103)]);
        // Later a thread can be started again.
        go.send(()).unwrap();
        assert_eq!(ask(4).await, Some(104));
        assert_eq!(sees.recv().unwrap(), [4]);
        assert!(sees.try_recv().is_err());
    }

    #[tokio::test]
    async fn a_search_that_fails_leaves_nobody_waiting() {
        let searches = Searches::<u32, u32>::new(Pace::Rested, |questions| {
            assert_ne!(questions, [1], "as asked for");
            Vec::new()
        });
        assert_eq!(searches.ask(1).await, None);
        assert_eq!(searches.ask(2).await, None);
    }
}
