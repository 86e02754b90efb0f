//! Threads for steps that block, shared out between callers.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

/// The places for steps that block. Cheap to clone.
///
/// A caller that runs a step gets another place only while a third of all places stays free for others. So a caller that starts many
/// long steps waits for its own steps. A caller that runs no step gets a place even if all are taken, until [`BESIDE`] times the places
/// are in use: a step may take very long.
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

/// The number of threads in use at which a caller that runs no step has to wait, as a multiple of the places.
const BESIDE: usize = 4;

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
        let most = match mine {
            0 => places * BESIDE,
            _ => places - places / 3,
        };
        if running.all >= most {
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
        drop(ann);
        assert_eq!(many("fay").len(), 4);
        assert_eq!(steps.lock().by_owner.len(), 4);
    }

    #[test]
    fn a_caller_that_runs_none_gets_a_place_though_several_took_all() {
        let steps = Steps::new(12);
        let mut taken: Vec<_> = (0..12).filter_map(|_| steps.try_enter("ann")).collect();
        let owners: Vec<_> = (0..40).map(|number| format!("caller {number}")).collect();
        taken.extend(owners.iter().filter_map(|owner| steps.try_enter(owner)));
        assert_eq!(taken.len(), 8 + 40);
        assert!(steps.try_enter("bob").is_none());
        taken.pop();
        assert!(steps.try_enter("ann").is_none());
        assert!(steps.try_enter("bob").is_some());
    }

    #[tokio::test]
    async fn a_step_that_waits_runs_when_a_place_is_given_back() {
        let steps = Steps::new(1);
        let places: Vec<_> = (0..BESIDE)
            .filter_map(|number| steps.try_enter(&format!("caller {number}")))
            .collect();
        let give_back = async {
            tokio::task::yield_now().await;
            drop(places);
        };
        let (bob, ()) = tokio::join!(steps.enter("bob"), give_back);
        assert_eq!(&*bob.owner, "bob");
    }
}
