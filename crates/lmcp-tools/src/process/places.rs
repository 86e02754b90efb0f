//! Places for what runs at once, shared between callers: a caller may take another place while it then holds at most twice
//! as many as stay free. One caller alone gets two thirds, and whoever comes next finds a place. The first place of a caller
//! is granted while there is any. Where callers cannot be told apart there is nobody to leave places for.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use lmcp_core::{Cx, ToolError};

/// So many that run, by who owns them.
pub(crate) type Counts = HashMap<String, usize>;

/// Places of one kind.
#[derive(Debug)]
pub(crate) struct Places {
    /// What is counted here: commands, jobs.
    what: &'static str,
    most: usize,
    taken: Mutex<Counts>,
}

/// A place that is taken, until this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    owner: String,
}

impl Places {
    pub(crate) fn new(what: &'static str, most: usize) -> Arc<Self> {
        Arc::new(Self {
            what,
            most,
            taken: Mutex::default(),
        })
    }

    /// Takes a place, beside those that others have taken elsewhere.
    ///
    /// # Errors
    /// There is none, or none for this caller.
    pub(crate) fn take(self: &Arc<Self>, cx: &Cx, elsewhere: &Counts) -> Result<Place, ToolError> {
        let caller = cx.caller();
        let is_alone = caller.principal().is_none() && caller.peer().is_none();
        let owner = caller.owner().into_owned();
        let mut taken = self.lock();
        let of = |counts: &Counts| counts.get(&owner).copied().unwrap_or_default();
        let mine = of(&taken) + of(elsewhere);
        let all = taken.values().chain(elsewhere.values()).sum::<usize>();
        let (what, most) = (self.what, self.most);
        let hint = "stop one, or wait until one has ended";
        if all >= most {
            let words =
                format!("{most} {what} run already, and that is the most this server runs at once");
            return Err(ToolError::new(words).hint(hint));
        }
        let free = most - all - 1;
        if !is_alone && mine > 0 && mine + 1 > 2 * free {
            let words = format!(
                "you run {mine} of the {most} {what} that this server runs at once, and the {} that are free are left for \
                 other callers",
                most - all
            );
            return Err(ToolError::new(words).hint(hint));
        }
        *taken.entry(owner.clone()).or_default() += 1;
        Ok(Place {
            places: Arc::clone(self),
            owner,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.lock();
        if let Some(count) = taken.get_mut(&self.owner) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.owner);
            }
        }
    }
}
