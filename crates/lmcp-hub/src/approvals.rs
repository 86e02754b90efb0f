//! Which definitions somebody has seen or approved: on disk beside what servers offer, where a hub keeps anything, else in
//! memory.

use std::{
    collections::BTreeMap,
    io,
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use crate::{
    listing::Listing,
    pins::{Change, Pins},
    store::{Stamp, Store},
};

/// What people have seen of the servers of a hub, and how servers differ from that now.
///
/// A hub looks at its folder again and again ([`Hub::heed_approvals`](crate::Hub::heed_approvals)), so an approval by another
/// process reaches it.
#[derive(Debug)]
pub struct Approvals {
    store: Option<Store>,
    /// Where nothing is kept.
    memory: Mutex<BTreeMap<String, Pins>>,
}

impl Approvals {
    /// Those of a hub that keeps things in this folder.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self::new(Some(Store(folder.into())))
    }

    pub(crate) fn new(store: Option<Store>) -> Self {
        Self {
            store,
            memory: Mutex::default(),
        }
    }

    /// All servers that differ from what was first seen of them, as they were last listed.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn changes(&self) -> io::Result<Vec<(String, Vec<Change>)>> {
        let mut all = Vec::new();
        for server in self.servers()? {
            let changes = self.of(&server)?;
            if !changes.is_empty() {
                all.push((server, changes));
            }
        }
        Ok(all)
    }

    /// The servers of which something was seen.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn servers(&self) -> io::Result<Vec<String>> {
        match &self.store {
            Some(store) => store.known(),
            None => Ok(Vec::new()),
        }
    }

    /// How a server differs from what was first seen of it, as it was last listed.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn of(&self, server: &str) -> io::Result<Vec<Change>> {
        let Some(store) = &self.store else {
            return Ok(Vec::new());
        };
        let listing = store.listing(server)?.unwrap_or_default();
        let pins = store.pins(server)?;
        Ok(pins.map_or_else(Vec::new, |pins| pins.changes(&listing)))
    }

    /// Approves of a server as it was last listed: of all of it, or of these tools. Gives what was approved.
    ///
    /// # Errors
    /// The folder cannot be read or written.
    pub fn approve(&self, server: &str, tools: Option<&[String]>) -> io::Result<Vec<Change>> {
        let listing = match &self.store {
            Some(store) => store.listing(server)?.unwrap_or_default(),
            None => Listing::default(),
        };
        self.approve_as(server, &listing, tools)
    }

    /// The same, as it is listed here.
    pub(crate) fn approve_as(
        &self,
        server: &str,
        listing: &Listing,
        tools: Option<&[String]>,
    ) -> io::Result<Vec<Change>> {
        let mut changes = Vec::new();
        self.change(server, |pins| {
            let Some(mut pins) = pins else {
                return Pins::of(server, listing);
            };
            changes = pins.changes(listing);
            pins.approve(listing, tools);
            let left = pins.changes(listing);
            changes.retain(|change| !left.contains(change));
            pins
        })?;
        Ok(changes)
    }

    /// How a server differs from what was first seen of it. What nobody has seen yet counts as seen now; not so a new tool of
    /// a server that is pinned.
    pub(crate) fn review(
        &self,
        server: &str,
        listing: &Listing,
        is_pinned: bool,
    ) -> io::Result<Vec<Change>> {
        // Mostly nothing is new: then nothing is written, and nobody is waited for.
        if let Some(pins) = self.pins(server)? {
            let changes = pins.changes(listing);
            if is_pinned || !changes.iter().any(Change::is_new) {
                return Ok(changes);
            }
        }
        let pins = self.change(server, |pins| match pins {
            Some(mut pins) if !is_pinned => {
                pins.take_new(listing);
                pins
            }
            Some(pins) => pins,
            None => Pins::of(server, listing),
        })?;
        Ok(pins.changes(listing))
    }

    /// Tells whether somebody has approved of something.
    pub(crate) fn stamp(&self, server: &str) -> Stamp {
        self.store.as_ref()?.stamp(server)
    }

    fn pins(&self, server: &str) -> io::Result<Option<Pins>> {
        match &self.store {
            Some(store) => store.pins(server),
            None => {
                let memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
                Ok(memory.get(server).cloned())
            }
        }
    }

    fn change(&self, server: &str, change: impl FnOnce(Option<Pins>) -> Pins) -> io::Result<Pins> {
        if let Some(store) = &self.store {
            return store.change_pins(server, change);
        }
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let pins = change(memory.remove(server));
        memory.insert(server.to_owned(), pins.clone());
        Ok(pins)
    }
}
