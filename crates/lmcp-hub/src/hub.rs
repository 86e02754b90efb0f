//! The hub: a [`Service`] that passes requests on to many others.

#[cfg(test)]
mod hanging;

use std::{
    fmt, io,
    path::PathBuf,
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use lmcp_core::{OwnerKey, Replies, Request, Service, Tasks};
use lmcp_wire::RpcError;
use tokio::task::spawn_blocking;

use crate::{
    config::{Reach, ServerConfig, Servers, expect_apart},
    desk::Desk,
    inner::Inner,
    limits::MOUNTED_SILENCE,
    member::{Made, Member},
    names::slug,
    pins::Change,
    scope::Groups,
    status::ServerStatus,
    store::Store,
};

/// Many servers behind one endpoint, as a [`Service`]. The hub shows the items of all servers in one list, and passes every
/// request, and all messages that belong to it, to the right server. Cheap to clone.
///
/// A server is started when it is first called. A server that is dead, hangs or dies delays only the callers of this server,
/// and they get an error within a bounded time.
#[derive(Clone)]
pub struct Hub(Arc<Inner>);

/// The servers of one group of a hub, as a [`Service`]: other servers cannot be seen or reached through it. Names and URIs
/// are those of the whole hub.
#[derive(Clone)]
pub struct Group {
    hub: Arc<Inner>,
    name: Arc<str>,
}

impl Hub {
    /// Returns a hub without servers.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self::make(name.into(), version.into(), None)
    }

    /// Returns a hub as [`Hub::new`] does, and keeps the listings of servers in this folder, so that the next run shows them
    /// at once.
    pub fn kept_in(
        name: impl Into<String>,
        version: impl Into<String>,
        folder: impl Into<PathBuf>,
    ) -> Self {
        Self::make(name.into(), version.into(), Some(Store(folder.into())))
    }

    fn make(name: String, version: String, store: Option<Store>) -> Self {
        Self(Arc::new(Inner::new(name, version, store)))
    }

    /// Binds tasks and states of servers to their callers with this key. With the same key, they stay valid after a restart of the hub,
    /// unless the hub starts the server itself; without a key every hub makes its own. Call it before servers are set.
    #[must_use]
    pub fn key(self, key: impl Into<OwnerKey>) -> Self {
        let _ = self.0.key.set(key.into());
        self
    }

    /// Adds a service of this program under a name, and replaces the one that had the name.
    pub fn mount(&self, name: &str, service: impl Service) {
        let service: Arc<dyn Service> = Arc::new(service);
        let config = ServerConfig::new(Reach::Socket(PathBuf::new()));
        let make = Box::new(move |_: &_| Ok(Made::once(Arc::clone(&service))));
        self.0
            .add(Member::new(name, config, true, self.0.owned(name, make)));
        self.0.have_others();
    }

    /// Adds a service as [`Hub::mount`] does, but its tools keep their own names. The service bounds the time of its calls
    /// itself. No other server may have this name or the prefix `""` then.
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

    /// Removes the service that is mounted under a name. Calls that run there end normally.
    pub fn unmount(&self, name: &str) {
        let mounted = self.0.member(name).filter(|member| member.is_mounted);
        if let Some(member) = mounted {
            self.0.write_members().remove(&member.name);
            self.0.catalog().known.remove(&member.name);
            self.0.look_again();
        }
    }

    /// Sets the servers, beside the mounted ones. A server whose configuration stays the same runs on, and calls that run on
    /// the others end normally.
    ///
    /// # Errors
    /// Two servers have the same prefix. Nothing was changed then.
    pub fn set(&self, servers: &Servers) -> Result<(), String> {
        expect_apart(servers)?;
        self.0.set(servers);
        Ok(())
    }

    /// Sets the groups. A subscription to a group that is gone ends.
    pub fn set_groups(&self, groups: &Groups) {
        self.0.set_groups(groups);
    }

    /// Returns the servers of one group, if the group exists.
    pub fn group(&self, name: &str) -> Option<Group> {
        self.0.group(name)?;
        Some(Group {
            hub: Arc::clone(&self.0),
            name: name.into(),
        })
    }

    /// Offers `find_tools`, `describe_tool` and `call_tool` instead of all tools of all servers. `call_tool` calls the
    /// others. Use it for models that should not read hundreds of descriptions.
    pub fn offer_lazily(&self) {
        self.0.is_lazy.store(true, Ordering::Release);
        self.0.look_again();
    }

    /// Shows only definitions that somebody has seen. A tool is hidden until it is approved if its definition has changed,
    /// or if it is new at a server that was seen before. A server with a `pin` setting of its own follows that setting.
    pub fn pin(&self, is_pinned: bool) {
        self.0.pins_all.store(is_pinned, Ordering::Release);
        self.0.review_again(|_| true);
    }

    /// Approves the current listing of a server: all of it, or these tools, by the names that the server has for them.
    /// Returns the changes that were approved.
    ///
    /// # Errors
    /// Nothing is known of the server, or the approval cannot be kept.
    pub fn approve(&self, server: &str, tools: Option<&[String]>) -> io::Result<Vec<Change>> {
        self.0.approve(server, tools)
    }

    /// Checks whether another process has approved something in the folder of this hub ([`Approvals`](crate::Approvals)).
    /// Call it now and then: it looks at one file for each server. The work is done beside the thread of the caller.
    pub async fn heed_approvals(&self) {
        let hub = Arc::clone(&self.0);
        // It fails only while the process ends.
        let _ = spawn_blocking(move || hub.heed_approvals()).await;
    }

    /// Waits until a server has been started and has listed its items, or could not be started. Use it in a program that can
    /// drop things that only the start needs. Only one waiter is woken.
    pub async fn settled(&self) {
        self.0.settled.notified().await;
    }

    /// Returns the state of all servers.
    pub fn status(&self) -> Vec<ServerStatus> {
        Desk::whole(&self.0).status()
    }
}

impl Service for Hub {
    fn call(&self, request: Request) -> Replies {
        Desk::whole(&self.0).call(request)
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
        // The group is looked up for each call, because it may have changed or be gone.
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
    use crate::member::Make;

    /// Makes a hub over a server that is made again whenever it is needed, and counts how often.
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
        // The hub still lists the tools of the stopped server, and does not start it for that.
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
