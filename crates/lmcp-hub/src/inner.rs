//! The parts of a hub: its servers, what is known of them, and what clients see of that.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockWriteGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use lmcp_core::{OwnerKey, Tasks};
use lmcp_wire::Implementation;
use tokio::{sync::Notify, task::AbortHandle, time::Instant};

use crate::{
    approvals::Approvals, catalog::Part, member::Member, names::Prefixes, review::Known,
    scope::Scope, store::Store,
};

/// The state of a hub, shared by its endpoints and by the tasks beside its servers.
pub(crate) struct Inner {
    pub(crate) info: Arc<str>,
    /// Binds tasks and states of servers to their callers. All callers of a server share the key.
    pub(crate) key: OnceLock<OwnerKey>,
    members: RwLock<BTreeMap<Arc<str>, Kept>>,
    /// Counts how often servers or groups were replaced.
    roster: AtomicU64,
    catalog: Mutex<Catalog>,
    /// Held while the lists for clients are made, so that no earlier state is shown later. Locked before the catalogue.
    looking: Mutex<()>,
    pub(crate) whole: Arc<Scope>,
    pub(crate) groups: RwLock<BTreeMap<String, Arc<Scope>>>,
    pub(crate) store: Option<Store>,
    pub(crate) approvals: Arc<Approvals>,
    pub(crate) pins_all: AtomicBool,
    pub(crate) began: Instant,
    pub(crate) is_lazy: AtomicBool,
    pub(crate) keepers: Tasks,
    /// Notified when a server was started and listed, or could not be started.
    pub(crate) settled: Notify,
}

/// A server and the task that keeps it.
pub(crate) struct Kept {
    pub(crate) member: Arc<Member>,
    pub(crate) keeper: AbortHandle,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

#[derive(Default)]
pub(crate) struct Catalog {
    /// Shared with the code that makes the lists for clients, which may take long.
    pub(crate) known: BTreeMap<Arc<str>, Arc<Known>>,
}

impl Inner {
    pub(crate) fn new(name: String, version: String, store: Option<Store>) -> Self {
        let info = serde_json::to_string(&Implementation::new(name, version));
        Self {
            info: info.unwrap_or_default().into(),
            key: OnceLock::new(),
            members: RwLock::default(),
            roster: AtomicU64::new(0),
            catalog: Mutex::default(),
            looking: Mutex::default(),
            whole: Scope::all(),
            groups: RwLock::default(),
            approvals: Arc::new(Approvals::new(store.clone())),
            store,
            pins_all: AtomicBool::new(false),
            began: Instant::now(),
            is_lazy: AtomicBool::new(false),
            keepers: Tasks::default(),
            settled: Notify::new(),
        }
    }

    pub(crate) fn is_lazy(&self) -> bool {
        self.is_lazy.load(Ordering::Acquire)
    }

    pub(crate) fn group(&self, name: &str) -> Option<Arc<Scope>> {
        let groups = self.groups.read().unwrap_or_else(PoisonError::into_inner);
        groups.get(name).cloned()
    }

    /// Returns the whole hub and every group of it.
    fn scopes(&self) -> Vec<Arc<Scope>> {
        let groups = self.groups.read().unwrap_or_else(PoisonError::into_inner);
        let whole = [&self.whole].into_iter();
        whole.chain(groups.values()).cloned().collect()
    }

    /// Wakes all callers that wait for a change.
    pub(crate) fn nudge(&self) {
        for scope in self.scopes() {
            scope.changes.send_modify(|_| {});
        }
    }

    pub(crate) fn close(&self) {
        for scope in self.scopes() {
            scope
                .changes
                .send_modify(|versions| versions.is_closed = true);
        }
    }

    /// Notes that servers or groups were replaced.
    pub(crate) fn have_others(&self) {
        self.roster.fetch_add(1, Ordering::AcqRel);
        self.look_again();
    }

    /// Returns how often servers or groups were replaced: until that changes, URIs lead to the same servers.
    pub(crate) fn roster(&self) -> u64 {
        self.roster.load(Ordering::Acquire)
    }

    /// Makes the lists for clients, and tells clients if a list has changed. The time grows with the length of the lists, so
    /// code on a shared thread calls it on another thread.
    pub(crate) fn look_again(&self) {
        let _alone = self.looking.lock().unwrap_or_else(PoisonError::into_inner);
        let members = self.members();
        let known = self.catalog().known.clone();
        let prefixes = Prefixes::new(members.iter().map(|member| &*member.prefix));
        let used = members.iter().filter(|member| !member.is_disabled());
        let shown: Vec<_> = used
            .filter_map(|member| Some((member, member.config(), known.get(&member.name)?)))
            .collect();
        let parts: Vec<_> = shown
            .iter()
            .map(|(member, config, known)| Part {
                name: &member.name,
                prefix: &member.prefix,
                slug: &member.slug,
                config: (!member.is_mounted).then_some(&**config),
                listing: &known.listing,
                review: self.is_pinned(member).then_some(&known.review),
            })
            .collect();
        for scope in self.scopes() {
            scope.look_again(&parts, &prefixes, self.is_lazy());
        }
    }

    /// Returns whether only definitions that somebody has seen are shown.
    pub(crate) fn is_pinned(&self, member: &Member) -> bool {
        let said = member.config().pin;
        !member.is_mounted && said.unwrap_or_else(|| self.pins_all.load(Ordering::Acquire))
    }

    pub(crate) fn known(&self, server: &str) -> Option<Arc<Known>> {
        self.catalog().known.get(server).cloned()
    }

    pub(crate) fn knows(&self, name: &str) -> bool {
        self.catalog().known.contains_key(name)
    }

    /// Returns how long all known lists are together.
    pub(crate) fn listed_bytes(&self) -> usize {
        let catalog = self.catalog();
        let known = catalog.known.values();
        known.map(|known| known.listing.bytes()).sum()
    }

    pub(crate) fn by_slug(&self, slug: &str) -> Option<Arc<str>> {
        let members = self.members.read().unwrap_or_else(PoisonError::into_inner);
        let members = members.values().map(|kept| &kept.member);
        let mut members = members.filter(|member| !member.is_disabled());
        let found = members.find(|member| member.slug == slug)?;
        Some(Arc::clone(&found.name))
    }

    pub(crate) fn member(&self, name: &str) -> Option<Arc<Member>> {
        let members = self.members.read().unwrap_or_else(PoisonError::into_inner);
        members.get(name).map(|kept| Arc::clone(&kept.member))
    }

    pub(crate) fn members(&self) -> Vec<Arc<Member>> {
        let members = self.members.read().unwrap_or_else(PoisonError::into_inner);
        members
            .values()
            .map(|kept| Arc::clone(&kept.member))
            .collect()
    }

    pub(crate) fn write_members(&self) -> RwLockWriteGuard<'_, BTreeMap<Arc<str>, Kept>> {
        self.members.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn catalog(&self) -> MutexGuard<'_, Catalog> {
        self.catalog.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
