//! A hub as one of its endpoints shows it: resolves the names and URIs that clients use there.

use std::{cell::RefCell, collections::HashMap, sync::Arc};

use crate::{
    catalog::{Place, View},
    inner::Inner,
    member::Member,
    names::Prefixes,
    rewrite::led_back,
    scope::Scope,
    status::{ServerState, ServerStatus},
};

/// A hub as one of its endpoints shows it.
#[derive(Clone)]
pub(crate) struct Desk {
    pub(crate) hub: Arc<Inner>,
    pub(crate) scope: Arc<Scope>,
}

impl Desk {
    /// Returns a desk that shows all servers of a hub.
    pub(crate) fn whole(hub: &Arc<Inner>) -> Self {
        Self {
            hub: Arc::clone(hub),
            scope: Arc::clone(&hub.whole),
        }
    }

    pub(crate) fn view(&self) -> Arc<View> {
        self.scope.view()
    }

    /// Returns the servers that are shown.
    fn members(&self) -> impl Iterator<Item = Arc<Member>> {
        let members = self.hub.members().into_iter();
        members.filter(|member| self.scope.shows(&member.name))
    }

    /// Returns a server that is shown and not disabled.
    pub(crate) fn member(&self, name: &str) -> Option<Arc<Member>> {
        let member = self.hub.member(name);
        member.filter(|member| self.scope.shows(name) && !member.is_disabled())
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.members().all(|member| member.tried())
    }

    /// Returns the servers that nobody has tried to start yet.
    pub(crate) fn untried(&self) -> Vec<Arc<Member>> {
        self.members().filter(|member| !member.tried()).collect()
    }

    /// Returns the server that a name would belong to, if that server has never listed its items.
    pub(crate) fn unheard_of(&self, name: &str) -> Option<Arc<Member>> {
        let members = self.hub.members();
        let prefixes = Prefixes::new(members.iter().map(|member| &*member.prefix));
        let owner = prefixes.owner(name);
        let found = members.iter().find(|member| member.prefix == owner)?;
        let found = self.member(&found.name)?;
        (!self.hub.knows(&found.name)).then_some(found)
    }

    /// Returns the server that a URI or the id of a task belongs to.
    pub(crate) fn place(&self, marked: &str) -> Option<Place> {
        led_back(marked, &|slug| self.by_slug(slug))
    }

    /// Does the same for many URIs or ids: each server is looked up once.
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
            // A caller that waits for the tools of this server must not conclude that the server has none.
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
