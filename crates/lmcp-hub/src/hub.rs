//! The hub: a [`Service`] that has many others answer.

use std::{
    collections::BTreeMap,
    fmt,
    path::PathBuf,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use lmcp_core::{Replies, Request, Service, Tasks};
use lmcp_upstream::{PerClient, Upstream};
use lmcp_wire::Implementation;
use tokio::{
    sync::watch,
    task::AbortHandle,
    time::{Instant, timeout},
};

use crate::{
    catalog::{Listing, Part, Place, View},
    config::{Isolate, Reach, ServerConfig, Servers, expect_apart},
    keep::keep,
    limits::KEEP_WAIT,
    listen::Watched,
    member::{Made, Member},
    names::AllNames,
    rewrite::led_back,
    status::ServerStatus,
    store::Store,
};

/// Many servers behind one endpoint, as a [`Service`]: what they offer is one list, and every request goes to the server
/// that it is for, with everything that is said on the way. Cheap to clone.
///
/// Servers are started when they are first called. One that is dead, hangs or dies holds up nobody but those who call it, and
/// they are told within a bounded time.
#[derive(Clone)]
pub struct Hub(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) info: Arc<str>,
    members: RwLock<BTreeMap<Arc<str>, Kept>>,
    catalog: Mutex<Catalog>,
    view: RwLock<Arc<View>>,
    pub(crate) changes: watch::Sender<Versions>,
    pub(crate) watched: Watched,
    store: Option<Store>,
    pub(crate) began: Instant,
    is_lazy: AtomicBool,
    keepers: Tasks,
}

/// A server and the task that keeps it.
struct Kept {
    member: Arc<Member>,
    keeper: AbortHandle,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

#[derive(Default)]
struct Catalog {
    listings: BTreeMap<Arc<str>, Listing>,
    names: AllNames,
}

/// Each counts up when its list changes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Versions {
    pub(crate) tools: u64,
    pub(crate) prompts: u64,
    pub(crate) resources: u64,
    pub(crate) is_closed: bool,
}

impl Hub {
    /// A hub without servers, of this name.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self::make(name.into(), version.into(), None)
    }

    /// The same; what servers offer is kept in this folder, and served at once the next time.
    pub fn kept_in(
        name: impl Into<String>,
        version: impl Into<String>,
        folder: impl Into<PathBuf>,
    ) -> Self {
        Self::make(name.into(), version.into(), Some(Store(folder.into())))
    }

    fn make(name: String, version: String, store: Option<Store>) -> Self {
        let info = serde_json::to_string(&Implementation::new(name, version));
        let mut names = AllNames::default();
        let view = View::new(&[], &mut names);
        Self(Arc::new(Inner {
            info: info.unwrap_or_default().into(),
            members: RwLock::default(),
            catalog: Mutex::default(),
            view: RwLock::new(Arc::new(view)),
            changes: watch::Sender::default(),
            watched: Watched::default(),
            store,
            began: Instant::now(),
            is_lazy: AtomicBool::new(false),
            keepers: Tasks::default(),
        }))
    }

    /// Puts a service of this program beside the servers, under a name. It replaces the one that had the name.
    pub fn mount(&self, name: &str, service: impl Service) {
        let service: Arc<dyn Service> = Arc::new(service);
        let config = ServerConfig::new(Reach::Socket(PathBuf::new()));
        let make = Box::new(move || Ok(Made::once(Arc::clone(&service))));
        self.0.add(Member::new(name, config, true, make));
        self.0.look_again();
    }

    /// Has exactly these servers from now on, beside what is mounted. Those that stay as they are go on undisturbed, and calls
    /// that go on with others end as they would have.
    ///
    /// # Errors
    /// Two servers have the same prefix. Nothing has changed then.
    pub fn set(&self, servers: &Servers) -> Result<(), String> {
        expect_apart(servers)?;
        self.0.set(servers);
        Ok(())
    }

    /// Offers `find_tools`, `describe_tool` and `call_tool` instead of all tools of all servers, which can then be called
    /// through the last: for models that are not to read hundreds of descriptions.
    pub fn offer_lazily(&self) {
        self.0.is_lazy.store(true, Ordering::Release);
        self.0.look_again();
    }

    /// How all servers are.
    pub fn status(&self) -> Vec<ServerStatus> {
        self.0.status()
    }
}

impl Service for Hub {
    fn call(&self, request: Request) -> Replies {
        match self.0.answer(request) {
            Ok(replies) => replies,
            Err(error) => Replies::error(error),
        }
    }

    fn close(&self) {
        self.0
            .changes
            .send_modify(|versions| versions.is_closed = true);
    }

    fn hang_up(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            let leaving = Tasks::default();
            for member in self.0.members() {
                leaving.spawn(async move { member.hang_up().await });
            }
            while !leaving.is_empty() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
    }
}

impl Inner {
    pub(crate) fn is_lazy(&self) -> bool {
        self.is_lazy.load(Ordering::Acquire)
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.members().iter().all(|member| member.tried())
    }

    fn set(self: &Arc<Self>, servers: &Servers) {
        let (mut new, mut old) = (Vec::new(), Vec::new());
        for member in self.members() {
            if !member.is_mounted && !servers.contains_key(&*member.name) {
                old.push(Arc::clone(&member.name));
            }
        }
        for (name, config) in servers {
            match self.member(name).filter(|member| !member.is_mounted) {
                Some(member) if member.config().runs_as(config) => {
                    member.reconfigure(config.clone());
                }
                Some(member) if member.config().reach == config.reach => new.push((name, config)),
                Some(member) => {
                    self.catalog().listings.remove(&member.name);
                    new.push((name, config));
                }
                None => new.push((name, config)),
            }
        }
        for name in old {
            self.write_members().remove(&name);
            self.catalog().listings.remove(&name);
        }
        for (name, config) in new {
            self.start(name, config.clone());
        }
        self.look_again();
    }

    fn start(self: &Arc<Self>, name: &str, config: ServerConfig) {
        let kept = self
            .store
            .as_ref()
            .and_then(|store| store.read(name, &config));
        let made = config.clone();
        let make = Box::new(move || {
            let (route, idle_stop) = (made.route()?, made.idle_stop);
            Ok(match made.isolate {
                Isolate::None => {
                    let upstream = Upstream::new(route);
                    let counted = upstream.clone();
                    Made {
                        service: Arc::new(upstream),
                        times_opened: Arc::new(move || counted.times_opened()),
                    }
                }
                Isolate::Caller => apart(PerClient::per_caller(route).idle_stop(idle_stop)),
                Isolate::Session => apart(PerClient::new(route).idle_stop(idle_stop)),
            })
        });
        let member = Member::new(name, config, false, make);
        if let Some(listing) = kept {
            let listings = &mut self.catalog().listings;
            listings.insert(Arc::clone(&member.name), listing);
            member.is_tried.store(true, Ordering::Release);
        }
        self.add(member);
    }

    fn add(self: &Arc<Self>, member: Member) {
        let member = Arc::new(member);
        let keeper = match member.is_disabled() {
            true => self.keepers.spawn(async {}),
            false => {
                let hub = Arc::downgrade(self);
                self.keepers.spawn(keep(Arc::clone(&member), hub))
            }
        };
        let name = Arc::clone(&member.name);
        self.write_members().insert(name, Kept { member, keeper });
    }

    /// Keeps what a server offers for the next run. It comes before anybody is told, so that all that a client saw is kept.
    pub(crate) fn keep(
        &self,
        member: &Arc<Member>,
        listing: &Listing,
    ) -> impl Future<Output = ()> + use<> {
        let store = self.store.clone().filter(|_| !member.is_mounted);
        let (member, listing) = (Arc::clone(member), listing.clone());
        async move {
            let Some(store) = store else {
                return;
            };
            let write = move || store.write(&member.name, &member.config(), &listing);
            // Whatever cannot be kept is asked for again, and a disk that hangs holds up nobody.
            let _ = timeout(KEEP_WAIT, tokio::task::spawn_blocking(write)).await;
        }
    }

    /// A server has said what it offers.
    pub(crate) fn learn(&self, member: &Arc<Member>, listing: Listing) {
        let is_its = self
            .member(&member.name)
            .is_some_and(|now| Arc::ptr_eq(&now, member));
        if !is_its {
            return;
        }
        self.catalog()
            .listings
            .insert(Arc::clone(&member.name), listing);
        self.look_again();
    }

    pub(crate) fn knows(&self, name: &str) -> bool {
        self.catalog().listings.contains_key(name)
    }

    /// Makes what clients see, and tells them if that is another list than before.
    fn look_again(&self) {
        let members = self.members();
        let mut catalog = self.catalog();
        let Catalog { listings, names } = &mut *catalog;
        let known: Vec<_> = members
            .iter()
            .filter(|member| !member.is_disabled())
            .filter_map(|member| Some((member, member.config(), listings.get(&member.name)?)))
            .collect();
        let parts: Vec<_> = known
            .iter()
            .map(|(member, config, listing)| Part {
                name: &member.name,
                prefix: &member.prefix,
                slug: &member.slug,
                config: (!member.is_mounted).then_some(&**config),
                listing,
            })
            .collect();
        let mut now = View::new(&parts, names);
        // Each is needed by one of the two ways to offer tools: whoever calls through another tool repeats nothing in headers.
        match self.is_lazy() {
            true => now.mirrored.clear(),
            false => now.items = Vec::new(),
        }
        let now = Arc::new(now);
        let mut view = self.view.write().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *view, Arc::clone(&now));
        drop(view);
        drop(catalog);
        let (before, now) = (&before.lists, &now.lists);
        self.changes.send_modify(|versions| {
            // Lazily offered tools are three, and always the same.
            let is_other = before.tools.sum != now.tools.sum && !self.is_lazy();
            versions.tools += u64::from(is_other);
            versions.prompts += u64::from(before.prompts.sum != now.prompts.sum);
            let is_other = before.resources.sum != now.resources.sum
                || before.templates.sum != now.templates.sum;
            versions.resources += u64::from(is_other);
        });
    }

    pub(crate) fn status(&self) -> Vec<ServerStatus> {
        let view = self.view();
        let members = self.members();
        let all = members.iter().map(|member| {
            let mut status = member.status();
            let its = |place: &&Place| place.server == member.name;
            status.tools = view.tools.values().filter(its).count();
            let notes = view.notes.iter().filter(|(name, _)| *name == member.name);
            status.notes = notes.map(|(_, words)| words.clone()).collect();
            status
        });
        all.collect()
    }

    /// Where a URI or the id of a task leads.
    pub(crate) fn place(&self, marked: &str) -> Option<Place> {
        led_back(marked, &|slug| self.by_slug(slug))
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

    fn members(&self) -> Vec<Arc<Member>> {
        let members = self.members.read().unwrap_or_else(PoisonError::into_inner);
        members
            .values()
            .map(|kept| Arc::clone(&kept.member))
            .collect()
    }

    fn write_members(&self) -> std::sync::RwLockWriteGuard<'_, BTreeMap<Arc<str>, Kept>> {
        self.members.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn view(&self) -> Arc<View> {
        let view = self.view.read();
        Arc::clone(&view.unwrap_or_else(PoisonError::into_inner))
    }

    fn catalog(&self) -> MutexGuard<'_, Catalog> {
        self.catalog.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn apart(servers: PerClient) -> Made {
    Made::once(Arc::new(servers))
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.members();
        let names = names.iter().map(|member| &*member.name);
        f.debug_set().entries(names).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use lmcp_core::{Cx, Endpoint, NoArgs, Server, Tool};
    use serde_json::json;

    use super::*;

    /// A hub over a server that is made anew whenever it is needed, and how often that was.
    fn hub(change: impl FnOnce(&mut ServerConfig)) -> (Hub, Arc<AtomicUsize>) {
        let made = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&made);
        let make: crate::member::Make = Box::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
            let say = Tool::new("say", |_: NoArgs, _: Cx| async { "hello" });
            let server = Server::new("x", "1").tool(say.read_only()).start();
            Ok(Made::once(Arc::new(server.unwrap())))
        });
        let mut config = ServerConfig::new(Reach::Socket(PathBuf::new()));
        change(&mut config);
        let hub = Hub::new("hub", "1");
        hub.0.add(Member::new("one", config, false, make));
        (hub, made)
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_nobody_needs_is_stopped_and_started_by_the_next_call() {
        let (hub, made) = hub(|_| {});
        let client = Endpoint::new(hub.clone()).client();
        client.list_tools().await.unwrap();
        tokio::time::sleep(Duration::from_secs(700)).await;
        let status = hub.status();
        assert_eq!(status[0].state, crate::ServerState::Stopped);
        assert_eq!((status[0].tools, status[0].restarts), (1, 0));
        // Its tools are listed all the same, and nothing is started for that.
        assert_eq!(client.list_tools().await.unwrap().len(), 1);
        assert_eq!(made.load(Ordering::Relaxed), 1);
        client.call_tool("one__say", json!({})).await.unwrap();
        assert_eq!(made.load(Ordering::Relaxed), 2);
        assert_eq!(hub.status()[0].state, crate::ServerState::Ready);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_runs_for_ever_where_the_configuration_says_so() {
        let (hub, made) = hub(|config| config.idle_stop = None);
        tokio::time::sleep(Duration::from_secs(100_000)).await;
        assert_eq!(hub.status()[0].state, crate::ServerState::Ready);
        assert_eq!(made.load(Ordering::Relaxed), 1);
    }
}
