//! The hub: a [`Service`] that has many others answer.

use std::{
    collections::BTreeMap,
    fmt, io,
    path::PathBuf,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use lmcp_core::{Owned, OwnerKey, Replies, Request, Service, Tasks};
use lmcp_upstream::{Health, PerClient, Upstream};
use lmcp_wire::{Implementation, RpcError};
use tokio::{
    task::{AbortHandle, spawn_blocking},
    time::Instant,
};

use crate::{
    approvals::Approvals,
    catalog::Part,
    config::{Isolate, Reach, ServerConfig, Servers, expect_apart},
    keep::keep,
    limits::MOUNTED_SILENCE,
    member::{Made, Make, Member},
    names::{Prefixes, slug},
    pins::Change,
    review::{Known, Review},
    scope::{Desk, Groups, Scope},
    status::ServerStatus,
    store::{Memory, Store},
};

/// Many servers behind one endpoint, as a [`Service`]: what they offer is one list, and every request goes to the server
/// that it is for, with everything that is said on the way. Cheap to clone.
///
/// Servers are started when they are first called. One that is dead, hangs or dies holds up nobody but those who call it, and
/// they are told within a bounded time.
#[derive(Clone)]
pub struct Hub(Arc<Inner>);

/// The servers of one group of a hub, as a [`Service`]: nothing of other servers is seen or reached through it. Names and URIs
/// are those of the whole hub.
#[derive(Clone)]
pub struct Group {
    hub: Arc<Inner>,
    name: Arc<str>,
}

pub(crate) struct Inner {
    pub(crate) info: Arc<str>,
    /// Binds tasks and states of servers to their callers: all callers of a server share it.
    key: OnceLock<OwnerKey>,
    members: RwLock<BTreeMap<Arc<str>, Kept>>,
    /// How often there were other servers, or groups.
    roster: AtomicU64,
    catalog: Mutex<Catalog>,
    /// Held by whoever makes what clients see, so that nobody shows them an earlier state. It comes before the catalogue.
    looking: Mutex<()>,
    whole: Arc<Scope>,
    groups: RwLock<BTreeMap<String, Arc<Scope>>>,
    pub(crate) store: Option<Store>,
    pub(crate) approvals: Arc<Approvals>,
    pub(crate) pins_all: AtomicBool,
    pub(crate) began: Instant,
    is_lazy: AtomicBool,
    pub(crate) keepers: Tasks,
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
pub(crate) struct Catalog {
    /// Shared with whoever makes what clients see of it, which may take long.
    pub(crate) known: BTreeMap<Arc<str>, Arc<Known>>,
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
        Self(Arc::new(Inner {
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
        }))
    }

    /// Binds tasks and states of servers to their callers with this key. One that is kept makes them outlast a restart;
    /// without one every hub makes its own. To be called before there are servers.
    #[must_use]
    pub fn key(self, key: [u8; 32]) -> Self {
        let _ = self.0.key.set(key.into());
        self
    }

    /// Puts a service of this program beside the servers, under a name. It replaces the one that had the name.
    pub fn mount(&self, name: &str, service: impl Service) {
        let service: Arc<dyn Service> = Arc::new(service);
        let config = ServerConfig::new(Reach::Socket(PathBuf::new()));
        let make = Box::new(move |_: &_| Ok(Made::once(Arc::clone(&service))));
        self.0
            .add(Member::new(name, config, true, self.0.owned(name, make)));
        self.0.have_others();
    }

    /// The same, and its tools keep their own names. The service bounds the time of its calls itself. Its name and theirs are
    /// then for nobody else: no server may be called so, or have the prefix `""`.
    pub fn mount_plainly(&self, name: &str, service: impl Service) {
        let service: Arc<dyn Service> = Arc::new(service);
        let mut config = ServerConfig::new(Reach::Socket(PathBuf::new()));
        config.prefix = Some(String::new());
        config.timeout = MOUNTED_SILENCE;
        let make = Box::new(move |_: &_| Ok(Made::once(Arc::clone(&service))));
        let mut member = Member::new(name, config, true, self.0.owned(name, make));
        member.slug = slug(name);
        self.0.add(member);
        self.0.look_again();
    }

    /// Takes away what is mounted under a name. Calls that go on there end as they would have.
    pub fn unmount(&self, name: &str) {
        let mounted = self.0.member(name).filter(|member| member.is_mounted);
        if let Some(member) = mounted {
            self.0.write_members().remove(&member.name);
            self.0.catalog().known.remove(&member.name);
            self.0.look_again();
        }
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

    /// Has exactly these groups from now on. What listens to a group that is gone comes to its end.
    pub fn set_groups(&self, groups: &Groups) {
        self.0.set_groups(groups);
    }

    /// The servers of one group, if there is such a group.
    pub fn group(&self, name: &str) -> Option<Group> {
        self.0.group(name)?;
        Some(Group {
            hub: Arc::clone(&self.0),
            name: name.into(),
        })
    }

    /// Offers `find_tools`, `describe_tool` and `call_tool` instead of all tools of all servers, which can then be called
    /// through the last: for models that are not to read hundreds of descriptions.
    pub fn offer_lazily(&self) {
        self.0.is_lazy.store(true, Ordering::Release);
        self.0.look_again();
    }

    /// Shows only what somebody has seen: a tool whose definition changed since it was first seen, or that is new at a server
    /// which was seen before, is not there until it is approved. A server whose configuration says otherwise is left out.
    pub fn pin(&self, is_pinned: bool) {
        self.0.pins_all.store(is_pinned, Ordering::Release);
        self.0.review_again(|_| true);
    }

    /// Approves of a server as it is listed now: of all of it, or of these tools, by the names that the server has for them.
    /// Gives what was approved.
    ///
    /// # Errors
    /// Nothing is known of the server, or the approval cannot be kept.
    pub fn approve(&self, server: &str, tools: Option<&[String]>) -> io::Result<Vec<Change>> {
        self.0.approve(server, tools)
    }

    /// Looks whether another process has approved of something in the folder of this hub ([`Approvals`]). To be called now and
    /// then: it costs one look at a file for each server. The work is done beside the thread of the caller.
    pub async fn heed_approvals(&self) {
        let hub = Arc::clone(&self.0);
        // It fails where the process ends.
        let _ = spawn_blocking(move || hub.heed_approvals()).await;
    }

    /// How all servers are.
    pub fn status(&self) -> Vec<ServerStatus> {
        self.0.desk().status()
    }
}

impl Service for Hub {
    fn call(&self, request: Request) -> Replies {
        self.0.desk().call(request)
    }

    fn close(&self) {
        self.0.close();
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

impl Service for Group {
    fn call(&self, request: Request) -> Replies {
        // Looked up each time: a group may be another one by now, or gone.
        match self.hub.group(&self.name) {
            Some(scope) => {
                let hub = Arc::clone(&self.hub);
                Desk { hub, scope }.call(request)
            }
            None => {
                let words = format!("group `{}` is gone", self.name);
                Replies::error(RpcError::invalid_request(words))
            }
        }
    }

    fn close(&self) {
        self.hub.close();
    }
}

impl Inner {
    pub(crate) fn is_lazy(&self) -> bool {
        self.is_lazy.load(Ordering::Acquire)
    }

    fn desk(self: &Arc<Self>) -> Desk {
        Desk {
            hub: Arc::clone(self),
            scope: Arc::clone(&self.whole),
        }
    }

    fn group(&self, name: &str) -> Option<Arc<Scope>> {
        let groups = self.groups.read().unwrap_or_else(PoisonError::into_inner);
        groups.get(name).cloned()
    }

    /// The whole hub, and every group of it.
    fn scopes(&self) -> Vec<Arc<Scope>> {
        let groups = self.groups.read().unwrap_or_else(PoisonError::into_inner);
        let whole = [&self.whole].into_iter();
        whole.chain(groups.values()).cloned().collect()
    }

    /// Wakes all who wait for something to change.
    pub(crate) fn nudge(&self) {
        for scope in self.scopes() {
            scope.changes.send_modify(|_| {});
        }
    }

    fn close(&self) {
        for scope in self.scopes() {
            scope
                .changes
                .send_modify(|versions| versions.is_closed = true);
        }
    }

    fn set_groups(&self, new: &Groups) {
        let mut groups = self.groups.write().unwrap_or_else(PoisonError::into_inner);
        groups.retain(|name, scope| {
            let stays = new.contains_key(name);
            if !stays {
                scope.set(&[]);
                scope
                    .changes
                    .send_modify(|versions| versions.is_closed = true);
            }
            stays
        });
        for (name, servers) in new {
            match groups.get(name) {
                Some(scope) => scope.set(servers),
                None => {
                    groups.insert(name.clone(), Scope::of(servers));
                }
            }
        }
        drop(groups);
        self.have_others();
    }

    fn set(self: &Arc<Self>, servers: &Servers) {
        let (mut new, mut old) = (Vec::new(), Vec::new());
        let mut pins_have_changed = false;
        for member in self.members() {
            if !member.is_mounted && !servers.contains_key(&*member.name) {
                old.push(Arc::clone(&member.name));
            }
        }
        for (name, config) in servers {
            match self.member(name).filter(|member| !member.is_mounted) {
                Some(member) if member.config().runs_as(config) => {
                    pins_have_changed |= member.config().pin != config.pin;
                    member.reconfigure(config.clone());
                }
                Some(member) if member.config().reach == config.reach => new.push((name, config)),
                Some(member) => {
                    self.catalog().known.remove(&member.name);
                    new.push((name, config));
                }
                None => new.push((name, config)),
            }
        }
        for name in old {
            self.write_members().remove(&name);
            self.catalog().known.remove(&name);
        }
        for (name, config) in new {
            self.start(name, config.clone());
        }
        self.review_again(|_| pins_have_changed);
        self.have_others();
    }

    /// There are other servers, or groups.
    fn have_others(&self) {
        self.roster.fetch_add(1, Ordering::AcqRel);
        self.look_again();
    }

    /// How often there were other servers, or groups: where a URI leads is the same until then.
    pub(crate) fn roster(&self) -> u64 {
        self.roster.load(Ordering::Acquire)
    }

    fn start(self: &Arc<Self>, name: &str, config: ServerConfig) {
        let store = self.store.as_ref();
        let memory = store.map_or(Memory::Nothing, |store| store.read(name, &config));
        let made = config.clone();
        let make = Box::new(move |health: &Arc<Health>| {
            let upstream = Upstream::builder(made.route()?).health(Arc::clone(health));
            let idle_stop = made.idle_stop;
            Ok(match made.isolate {
                Isolate::None => {
                    let upstream = upstream.build();
                    let counted = upstream.clone();
                    Made {
                        service: Arc::new(upstream),
                        times_opened: Arc::new(move || counted.times_opened()),
                    }
                }
                Isolate::Caller => {
                    apart(PerClient::built_per_caller(upstream).idle_stop(idle_stop))
                }
                Isolate::Session => apart(PerClient::built(upstream).idle_stop(idle_stop)),
            })
        });
        let member = Member::new(name, config, false, self.owned(name, make));
        let was_tried = !matches!(memory, Memory::Nothing);
        member.is_tried.store(was_tried, Ordering::Release);
        if let Memory::Listing(listing) = memory {
            let is_pinned = self.is_pinned(&member);
            let review = Review::of(&self.approvals, name, &listing, is_pinned);
            let listing = Arc::new(listing);
            let known = Arc::new(Known { listing, review });
            self.catalog().known.insert(Arc::clone(&member.name), known);
        }
        self.add(member);
    }

    /// Has each caller of a server get at its own tasks and states only.
    fn owned(&self, name: &str, make: Make) -> Make {
        let (key, name) = (
            self.key.get_or_init(OwnerKey::random).clone(),
            name.to_owned(),
        );
        Box::new(move |health| {
            let made = make(health)?;
            Ok(Made {
                service: Arc::new(Owned::new(made.service, &key, &name)),
                ..made
            })
        })
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

    /// Makes what clients see, and tells them if that is another list than before. That takes as long as the lists are: whoever
    /// shares a thread with others does it beside them.
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

    fn write_members(&self) -> std::sync::RwLockWriteGuard<'_, BTreeMap<Arc<str>, Kept>> {
        self.members.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn catalog(&self) -> MutexGuard<'_, Catalog> {
        self.catalog.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn apart(servers: PerClient) -> Made {
    Made::once(Arc::new(servers))
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Group").field(&self.name).finish()
    }
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
        let make: Make = Box::new(move |_| {
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
