//! Keeps the definitions that somebody has seen or approved: on disk next to the listings of the servers if the hub has a
//! folder, else in memory.

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

/// The definitions that people have seen of the servers of a hub, and how the servers differ from them now.
///
/// A hub looks at its folder again and again ([`Hub::heed_approvals`](crate::Hub::heed_approvals)), so an approval by another
/// process reaches it.
#[derive(Debug)]
pub struct Approvals {
    store: Option<Store>,
    /// Used if nothing is kept on disk.
    memory: Mutex<BTreeMap<String, Pins>>,
}

impl Approvals {
    /// Returns the approvals of a hub that keeps its files in this folder.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self::new(Some(Store(folder.into())))
    }

    pub(crate) fn new(store: Option<Store>) -> Self {
        Self {
            store,
            memory: Mutex::default(),
        }
    }

    /// Returns the servers whose last listing differs from what was first seen of them.
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

    /// Returns the servers that somebody has seen before.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn servers(&self) -> io::Result<Vec<String>> {
        match &self.store {
            Some(store) => store.known(),
            None => Ok(Vec::new()),
        }
    }

    /// Returns how the last listing of a server differs from what was first seen of the server.
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

    /// Approves the last listing of a server: all of it, or these tools. Returns the changes that were approved.
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

    /// Does the same with this listing.
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

    /// Returns how a server differs from what was first seen of it. A definition that nobody has seen yet counts as seen
    /// from now on, except a new tool of a pinned server.
    pub(crate) fn review(
        &self,
        server: &str,
        listing: &Listing,
        is_pinned: bool,
    ) -> io::Result<Vec<Change>> {
        // Usually nothing is new. Then nothing is written, and the lock is not needed.
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

    /// Returns a stamp that changes when somebody approves something.
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
