//! Places for commands and jobs that run at once, shared between callers. A caller may take another place if it then holds
//! at most twice as many as stay free. So one caller alone gets two thirds, and the next caller finds a place. The first
//! place of a caller is granted while there is any. Where callers cannot be told apart, no places are left for others.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use lmcp_core::{CallerTransport, Cx, ToolError, ToolResult};

/// How many run, by the caller whose places they take.
pub(crate) type Counts = HashMap<String, usize>;

/// Places of one kind.
#[derive(Debug)]
pub(crate) struct Places {
    /// The name of what is counted: commands, jobs.
    what: &'static str,
    most: usize,
    taken: Mutex<Counts>,
}

/// A place that stays taken until this is dropped.
#[derive(Debug)]
pub(crate) struct CommandPlace {
    places: Arc<Places>,
    payer: String,
}

impl Places {
    pub(crate) fn new(what: &'static str, most: usize) -> Arc<Self> {
        Arc::new(Self {
            what,
            most,
            taken: Mutex::default(),
        })
    }

    /// Takes a place.
    ///
    /// # Errors
    /// No place is free, or none for this caller.
    pub(crate) fn take(self: &Arc<Self>, cx: &Cx) -> ToolResult<CommandPlace> {
        let mut taken = self.lock();
        self.check(cx, &taken)?;
        Ok(self.note(cx, &mut taken))
    }

    /// Takes a place, where `all` are the places that are taken here and elsewhere. Callers of this function count one after
    /// the other, and count the places that are taken here first: a job that is recorded elsewhere meanwhile is counted
    /// twice, and never missed.
    ///
    /// # Errors
    /// No place is free, or none for this caller.
    pub(crate) fn take_beside(self: &Arc<Self>, cx: &Cx, all: &Counts) -> ToolResult<CommandPlace> {
        self.check(cx, all)?;
        Ok(self.note(cx, &mut self.lock()))
    }

    /// Returns the places that are taken here.
    pub(crate) fn taken(&self) -> Counts {
        self.lock().clone()
    }

    fn note(self: &Arc<Self>, cx: &Cx, taken: &mut Counts) -> CommandPlace {
        let payer = cx.caller().payer().into_owned();
        *taken.entry(payer.clone()).or_default() += 1;
        CommandPlace {
            places: Arc::clone(self),
            payer,
        }
    }

    fn check(&self, cx: &Cx, taken: &Counts) -> ToolResult<()> {
        let caller = cx.caller();
        // A client that talks to the server on its pipes has the server alone. On ports and sockets other clients may come,
        // with names or without.
        let others_come = matches!(
            caller.transport(),
            CallerTransport::Http | CallerTransport::Unix
        );
        let is_alone = caller.is_stranger() && !others_come;
        let mine = taken.get(&*caller.payer()).copied().unwrap_or_default();
        let all = taken.values().sum::<usize>();
        let (what, most) = (self.what, self.most);
        let words = if all >= most {
            format!("{most} {what} run already, and that is the most this server runs at once")
        } else if !is_alone && mine > 0 && mine + 1 > 2 * (most - all - 1) {
            format!(
                "you run {mine} of the {most} {what} that this server runs at once, and the {} that are free are left for \
                 other callers",
                most - all
            )
        } else {
            return Ok(());
        };
        Err(ToolError::new(words).hint("stop one, or wait until one has ended"))
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CommandPlace {
    fn drop(&mut self) {
        let mut taken = self.places.lock();
        if let Some(count) = taken.get_mut(&self.payer) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.payer);
            }
        }
    }
}
