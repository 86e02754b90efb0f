//! The hub: a [`Service`] that has many others answer.

use std::{
    fmt, io,
    path::PathBuf,
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use lmcp_core::{Replies, Request, Service, Tasks};
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
        Self(Arc::new(Inner::new(name, version, store)))
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

    /// Looks whether another process has approved of something in the folder of this hub ([`Approvals`](crate::Approvals)). To be called now and
    /// then: it costs one look at a file for each server. The work is done beside the thread of the caller.
    pub async fn heed_approvals(&self) {
        let hub = Arc::clone(&self.0);
        // It fails where the process ends.
        let _ = spawn_blocking(move || hub.heed_approvals()).await;
    }

    /// Waits until a server has been started and has said what it offers, or could not be: for programs that then let go of what
    /// only a start needs. For one waiter.
    pub async fn settled(&self) {
        self.0.settled.notified().await;
    }

    /// How all servers are.
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
