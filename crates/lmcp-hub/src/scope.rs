//! The servers that one endpoint of a hub shows: all, or those of a group.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, PoisonError, RwLock},
};

use tokio::sync::watch;

use crate::{
    catalog::{Part, View},
    lazy::Sought,
    names::Prefixes,
};

/// The names of the groups, each with the names of its servers.
pub type Groups = BTreeMap<String, Vec<String>>;

/// Servers that are shown together, and the lists that clients see of them.
pub(crate) struct Scope {
    /// `None`: all servers.
    servers: RwLock<Option<BTreeSet<String>>>,
    view: RwLock<Arc<View>>,
    pub(crate) changes: watch::Sender<Versions>,
}

/// Counters, each of which goes up when its list changes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Versions {
    pub(crate) tools: u64,
    pub(crate) prompts: u64,
    pub(crate) resources: u64,
    pub(crate) is_closed: bool,
}

impl Scope {
    pub(crate) fn all() -> Arc<Self> {
        Self::new(None)
    }

    pub(crate) fn of(servers: &[String]) -> Arc<Self> {
        Self::new(Some(servers.iter().cloned().collect()))
    }

    fn new(servers: Option<BTreeSet<String>>) -> Arc<Self> {
        Arc::new(Self {
            servers: RwLock::new(servers),
            view: RwLock::new(Arc::new(View::new(&[], &Prefixes::default()))),
            changes: watch::Sender::default(),
        })
    }

    /// Shows exactly these servers from now on.
    pub(crate) fn set(&self, servers: &[String]) {
        let mut held = self.servers.write().unwrap_or_else(PoisonError::into_inner);
        *held = Some(servers.iter().cloned().collect());
    }

    /// Returns whether this server is shown.
    pub(crate) fn shows(&self, server: &str) -> bool {
        let servers = self.servers.read().unwrap_or_else(PoisonError::into_inner);
        servers
            .as_ref()
            .is_none_or(|servers| servers.contains(server))
    }

    pub(crate) fn view(&self) -> Arc<View> {
        let view = self.view.read();
        Arc::clone(&view.unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes the lists for clients out of these parts, and tells clients if a list has changed.
    pub(crate) fn look_again(&self, parts: &[Part<'_>], prefixes: &Prefixes, is_lazy: bool) {
        let shown = parts.iter().filter(|part| self.shows(part.name));
        let shown: Vec<_> = shown.copied().collect();
        let mut now = View::new(&shown, prefixes);
        // Each way to offer tools needs one of the two: a client that calls through `call_tool` repeats nothing in headers.
        match is_lazy {
            true => {
                let items = std::mem::take(&mut now.items);
                now.entries = items.into_iter().filter_map(Sought::new).collect();
                now.mirrored.clear();
            }
            false => now.items = Vec::new(),
        }
        let now = Arc::new(now);
        let mut view = self.view.write().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *view, Arc::clone(&now));
        drop(view);
        let (before, now) = (&before.lists, &now.lists);
        self.changes.send_modify(|versions| {
            // Tools that are offered lazily are always the same three.
            let is_other = before.tools.sum != now.tools.sum && !is_lazy;
            versions.tools += u64::from(is_other);
            versions.prompts += u64::from(before.prompts.sum != now.prompts.sum);
            let is_other = before.resources.sum != now.resources.sum
                || before.templates.sum != now.templates.sum;
            versions.resources += u64::from(is_other);
        });
    }
}
