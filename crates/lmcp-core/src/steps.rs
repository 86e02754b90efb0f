//! Threads for steps that block, shared out between callers.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

/// The places for steps that block. Cheap to clone.
///
/// A caller that runs no step gets any place that is free. A caller that runs one gets another only while a third of all places
/// stays free for others. So a caller that starts many long steps waits for its own steps.
#[derive(Clone)]
pub(crate) struct Steps(Arc<Shared>);

struct Shared {
    places: usize,
    running: Mutex<RunningSteps>,
    freed: Notify,
}

#[derive(Default)]
struct RunningSteps {
    all: usize,
    by_owner: HashMap<Box<str>, usize>,
}

/// One place. Dropping it frees the place.
pub(crate) struct StepPlace {
    steps: Steps,
    owner: Box<str>,
}

impl Steps {
    pub(crate) fn new(places: usize) -> Self {
        Self(Arc::new(Shared {
            places: places.max(1),
            running: Mutex::default(),
            freed: Notify::new(),
        }))
    }

    /// Waits for a place.
    pub(crate) async fn enter(&self, owner: &str) -> StepPlace {
        loop {
            let freed = self.0.freed.notified();
            tokio::pin!(freed);
            // From here on, no freed place is missed.
            freed.as_mut().enable();
            if let Some(place) = self.try_enter(owner) {
                return place;
            }
            freed.await;
        }
    }

    fn try_enter(&self, owner: &str) -> Option<StepPlace> {
        let places = self.0.places;
        let mut running = self.lock();
        let mine = running.by_owner.get(owner).copied().unwrap_or(0);
        let free = places.saturating_sub(running.all);
        let needed = if mine == 0 { 1 } else { 1 + places / 3 };
        if free < needed {
            return None;
        }
        running.all += 1;
        *running.by_owner.entry(owner.into()).or_default() += 1;
        Some(StepPlace {
            steps: self.clone(),
            owner: owner.into(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, RunningSteps> {
        self.0
            .running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for StepPlace {
    fn drop(&mut self) {
        let mut running = self.steps.lock();
        running.all -= 1;
        if let Some(mine) = running.by_owner.get_mut(&self.owner) {
            *mine -= 1;
            if *mine == 0 {
                running.by_owner.remove(&self.owner);
            }
        }
        drop(running);
        self.steps.0.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_caller_leaves_a_third_to_others_and_each_of_those_gets_one() {
        let steps = Steps::new(12);
        let many = |owner| std::iter::from_fn(|| steps.try_enter(owner)).collect::<Vec<_>>();
        let ann = many("ann");
        assert_eq!(ann.len(), 8);
        let others = ["bob", "cy", "dee", "eve"].map(many);
        assert!(others.iter().all(|places| places.len() == 1));
        assert_eq!(many("fay").len(), 0);
        drop(ann);
        assert_eq!(many("fay").len(), 4);
        assert_eq!(steps.lock().by_owner.len(), 4);
    }

    #[tokio::test]
    async fn a_step_that_waits_runs_when_a_place_is_given_back() {
        let steps = Steps::new(1);
        let place = steps.enter("ann").await;
        let give_back = async {
            tokio::task::yield_now().await;
            drop(place);
        };
        let (bob, ()) = tokio::join!(steps.enter("bob"), give_back);
        assert_eq!(&*bob.owner, "bob");
    }
}
