//! Decides whose call a server gets next, if it takes only a few at once. No caller gets all places, whoever came first, and
//! waiting callers take turns.

use std::collections::{HashMap, VecDeque};

use lmcp_core::expect_share;

/// The places of one server, and the calls `C` that wait for a place.
#[derive(Debug)]
pub(crate) struct Turns<C> {
    /// The number of places. `None`: the server takes all calls.
    places: Option<usize>,
    /// Calls that have a place, with their owners.
    taken: HashMap<i64, Box<str>>,
    /// The number of places of each owner.
    held: HashMap<Box<str>, usize>,
    /// Owners whose calls wait: the first one is next.
    waiting: VecDeque<Line<C>>,
}

/// The calls of one owner, in their order.
#[derive(Debug)]
struct Line<C> {
    owner: Box<str>,
    calls: VecDeque<(i64, C)>,
}

impl<C> Turns<C> {
    pub(crate) fn new(places: Option<usize>) -> Self {
        Self {
            places,
            taken: HashMap::new(),
            held: HashMap::new(),
            waiting: VecDeque::new(),
        }
    }

    /// Adds a call of this owner. `None`: the call waits.
    pub(crate) fn come(&mut self, owner: &str, id: i64, call: C) -> Option<C> {
        if self.places.is_none() {
            return Some(call);
        }
        if let Some(line) = self.waiting.iter_mut().find(|line| *line.owner == *owner) {
            line.calls.push_back((id, call));
            return None;
        }
        if self.has_place(owner) {
            self.take(owner.into(), id);
            return Some(call);
        }
        self.waiting.push_back(Line {
            owner: owner.into(),
            calls: [(id, call)].into(),
        });
        None
    }

    /// Removes a call that has ended or was cancelled.
    pub(crate) fn leave(&mut self, id: i64) {
        let Some(owner) = self.taken.remove(&id) else {
            for line in &mut self.waiting {
                line.calls.retain(|(waiting, _)| *waiting != id);
            }
            return self.waiting.retain(|line| !line.calls.is_empty());
        };
        if let Some(held) = self.held.get_mut(&owner) {
            *held -= 1;
            if *held == 0 {
                self.held.remove(&owner);
            }
        }
    }

    /// Returns the next call that has a place now.
    pub(crate) fn next(&mut self) -> Option<C> {
        let mut lines = self.waiting.iter();
        let place = lines.position(|line| self.has_place(&line.owner))?;
        let mut line = self.waiting.remove(place)?;
        let (id, call) = line.calls.pop_front()?;
        self.take(line.owner.clone(), id);
        if !line.calls.is_empty() {
            self.waiting.push_back(line);
        }
        Some(call)
    }

    /// Removes all waiting calls, and returns them.
    pub(crate) fn give_up(&mut self) -> Vec<i64> {
        let lines = std::mem::take(&mut self.waiting).into_iter();
        lines
            .flat_map(|line| line.calls)
            .map(|(id, _)| id)
            .collect()
    }

    fn take(&mut self, owner: Box<str>, id: i64) {
        *self.held.entry(owner.clone()).or_default() += 1;
        self.taken.insert(id, owner);
    }

    /// Returns whether there is a place for one more call of this owner. An owner without a place gets any free one.
    fn has_place(&self, owner: &str) -> bool {
        let (mine, all) = (self.held.get(owner).copied(), self.taken.len());
        let (mine, places) = (mine.unwrap_or_default(), self.places.unwrap_or(usize::MAX));
        all < places && (mine == 0 || expect_share("requests", mine, all, places).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_caller_leaves_places_of_a_server_to_others() {
        let mut turns = Turns::new(Some(16));
        let begun = (0..40).filter(|id| turns.come("ann", *id, *id).is_some());
        let begun = begun.count();
        assert!((8..16).contains(&begun), "{begun}");
        for (id, owner) in [(100, "bob"), (101, "eve")] {
            assert_eq!(turns.come(owner, id, id), Some(id), "{owner}");
        }
        assert_eq!(turns.next(), None);
    }

    #[test]
    fn those_who_wait_take_turns_and_each_keeps_its_order() {
        let mut turns = Turns::new(Some(1));
        assert_eq!(turns.come("ann", 0, 0), Some(0));
        for (id, owner) in [(1, "ann"), (2, "ann"), (3, "ann"), (4, "bob"), (5, "bob")] {
            assert_eq!(turns.come(owner, id, id), None);
        }
        turns.leave(2);
        let mut before = 0;
        let order = std::iter::from_fn(|| {
            turns.leave(before);
            let next = turns.next()?;
            before = next;
            Some(next)
        });
        assert_eq!(order.collect::<Vec<_>>(), [1, 4, 3, 5]);
        assert!(turns.held.is_empty() && turns.taken.is_empty());
    }

    #[test]
    fn a_server_that_takes_all_calls_has_nobody_wait() {
        let mut turns = Turns::new(None);
        assert!((0..5000).all(|id| turns.come("ann", id, id).is_some()));
        assert!(turns.taken.is_empty());
    }

    #[test]
    fn a_server_that_is_given_up_has_nobody_wait() {
        let mut turns = Turns::new(Some(1));
        for id in 0..3 {
            turns.come("ann", id, id);
        }
        assert_eq!(turns.give_up(), [1, 2]);
        turns.leave(0);
        assert_eq!(turns.next(), None);
    }
}
