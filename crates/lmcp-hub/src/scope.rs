//! What one endpoint of a hub shows: all servers, or those of a group.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, PoisonError, RwLock},
};

use tokio::sync::watch;

use crate::{
    catalog::{Part, Place, View},
    hub::Inner,
    lazy::Sought,
    member::Member,
    names::Prefixes,
    rewrite::led_back,
    status::{ServerState, ServerStatus},
};

/// The names of the groups, each with the names of its servers.
pub type Groups = BTreeMap<String, Vec<String>>;

/// Servers that are shown together, and what clients see of them.
pub(crate) struct Scope {
    /// `None`: all.
    servers: RwLock<Option<BTreeSet<String>>>,
    view: RwLock<Arc<View>>,
    pub(crate) changes: watch::Sender<Versions>,
}

/// Each counts up when its list changes.
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

    /// Shows these servers from now on.
    pub(crate) fn set(&self, servers: &[String]) {
        let mut held = self.servers.write().unwrap_or_else(PoisonError::into_inner);
        *held = Some(servers.iter().cloned().collect());
    }

    /// Is this server shown?
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

    /// Makes what clients see out of these parts, and tells them if that is another list than before.
    pub(crate) fn look_again(&self, parts: &[Part<'_>], prefixes: &Prefixes, is_lazy: bool) {
        let shown = parts.iter().filter(|part| self.shows(part.name));
        let shown: Vec<_> = shown.copied().collect();
        let mut now = View::new(&shown, prefixes);
        // Each is needed by one of the two ways to offer tools: whoever calls through another tool repeats nothing in headers.
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
            // Lazily offered tools are three, and always the same.
            let is_other = before.tools.sum != now.tools.sum && !is_lazy;
            versions.tools += u64::from(is_other);
            versions.prompts += u64::from(before.prompts.sum != now.prompts.sum);
            let is_other = before.resources.sum != now.resources.sum
                || before.templates.sum != now.templates.sum;
            versions.resources += u64::from(is_other);
        });
    }
}

/// A hub as one of its endpoints shows it.
#[derive(Clone)]
pub(crate) struct Desk {
    pub(crate) hub: Arc<Inner>,
    pub(crate) scope: Arc<Scope>,
}

impl Desk {
    pub(crate) fn view(&self) -> Arc<View> {
        self.scope.view()
    }

    /// The servers that are shown.
    fn members(&self) -> impl Iterator<Item = Arc<Member>> {
        let members = self.hub.members().into_iter();
        members.filter(|member| self.scope.shows(&member.name))
    }

    /// A server that is shown and used.
    pub(crate) fn member(&self, name: &str) -> Option<Arc<Member>> {
        let member = self.hub.member(name);
        member.filter(|member| self.scope.shows(name) && !member.is_disabled())
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.members().all(|member| member.tried())
    }

    /// The servers that nobody has heard of yet.
    pub(crate) fn untried(&self) -> Vec<Arc<Member>> {
        self.members().filter(|member| !member.tried()).collect()
    }

    /// The server that a name would be of, if that server never said what it offers.
    pub(crate) fn unheard_of(&self, name: &str) -> Option<Arc<Member>> {
        let members = self.hub.members();
        let prefixes = Prefixes::new(members.iter().map(|member| &*member.prefix));
        let owner = prefixes.owner(name);
        let found = members.iter().find(|member| member.prefix == owner)?;
        let found = self.member(&found.name)?;
        (!self.hub.knows(&found.name)).then_some(found)
    }

    /// Where a URI or the id of a task leads.
    pub(crate) fn place(&self, marked: &str) -> Option<Place> {
        led_back(marked, &|slug| self.by_slug(slug))
    }

    /// Where many of them lead: each server is looked up once.
    pub(crate) fn places<'a>(
        &self,
        marked: impl IntoIterator<Item = &'a String>,
    ) -> impl Iterator<Item = Place> {
        let known = RefCell::new(HashMap::<String, Option<Arc<str>>>::new());
        marked.into_iter().filter_map(move |marked| {
            led_back(marked, &|slug| {
                let mut known = known.borrow_mut();
                if let Some(found) = known.get(slug) {
                    return found.clone();
                }
                let found = self.by_slug(slug);
                known.insert(slug.to_owned(), found.clone());
                found
            })
        })
    }

    pub(crate) fn by_slug(&self, slug: &str) -> Option<Arc<str>> {
        let found = self.hub.by_slug(slug)?;
        self.scope.shows(&found).then_some(found)
    }

    pub(crate) fn status(&self) -> Vec<ServerStatus> {
        let view = self.view();
        let all = self.members().map(|member| {
            let mut status = member.status();
            // Whoever waits for its tools is not to think that there are none.
            let is_unheard = status.last_error.is_none() && !self.hub.knows(&member.name);
            if is_unheard && matches!(status.state, ServerState::Stopped | ServerState::Ready) {
                status.state = ServerState::Starting;
            }
            let its = |place: &&Place| place.server == member.name;
            status.tools = view.tools.values().filter(its).count();
            let notes = view.notes.iter().filter(|(name, _)| *name == member.name);
            status.notes = notes.map(|(_, words)| words.clone()).collect();
            status.changed = self.hub.changes_of(&member);
            status
        });
        all.collect()
    }
}
