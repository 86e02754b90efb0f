//! A server of its own for every client, for servers that keep something for whoever speaks with them.

use std::{
    collections::HashMap,
    fmt,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use lmcp_client::Route;
use lmcp_core::{Replies, Request, Service, Tasks};
use lmcp_wire::RpcError;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::{
    limits::{SERVER_IDLE, SERVERS_PER_CLIENT},
    upstream::{Builder, Upstream},
};

/// Reaches a server anew for every client, or for every caller. A server ends when nobody has called it for a while; the
/// number of servers is bounded.
pub struct PerClient {
    members: Arc<Members>,
    tasks: Tasks,
}

struct Members {
    make: Builder,
    shared_by: Sharing,
    all: Mutex<HashMap<String, Member>>,
}

/// Which requests reach the same server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sharing {
    Conversation,
    Caller,
}

impl Sharing {
    fn key(self, request: &Request) -> String {
        // Strangers cannot be told from each other, so one must not get at what another left behind.
        match self {
            Self::Caller if !request.caller().is_stranger() => request.caller().owner().into(),
            Self::Caller | Self::Conversation => request.conversation(),
        }
    }
}

struct Member {
    upstream: Upstream,
    used: Instant,
}

impl PerClient {
    /// A server for every connection and every session over HTTP; requests that stand alone over HTTP share one for each
    /// caller. A server also ends with the connection that it is for.
    pub fn new(route: Route) -> Self {
        Self::built(Upstream::builder(route))
    }

    /// The same, with more to be said of each.
    pub fn built(make: Builder) -> Self {
        Self::make(make, Sharing::Conversation, Some(SERVER_IDLE))
    }

    /// A server for every caller, as [`Caller::owner`](lmcp_core::Caller::owner) tells them apart: all connections and
    /// sessions of a caller share it. Callers of whom nothing is known are served as by [`PerClient::new`].
    pub fn per_caller(route: Route) -> Self {
        Self::make(Upstream::builder(route), Sharing::Caller, Some(SERVER_IDLE))
    }

    /// The same, where servers end after so long without a call; `None`: only to make room for others.
    #[must_use]
    pub fn idle_stop(self, idle_stop: Option<Duration>) -> Self {
        Self::make(self.members.make.clone(), self.members.shared_by, idle_stop)
    }

    fn make(make: Builder, shared_by: Sharing, idle_stop: Option<Duration>) -> Self {
        let members = Arc::new(Members {
            make,
            shared_by,
            all: Mutex::default(),
        });
        let tasks = Tasks::default();
        if let Some(idle_stop) = idle_stop {
            tasks.spawn(sweep(Arc::downgrade(&members), idle_stop));
        }
        Self { members, tasks }
    }

    /// The server that this request is for.
    fn member(&self, request: &Request) -> Result<Upstream, RpcError> {
        let key = self.members.shared_by.key(request);
        let mut all = self.members.lock();
        if let Some(member) = all.get_mut(&key) {
            member.used = Instant::now();
            return Ok(member.upstream.clone());
        }
        if all.len() >= SERVERS_PER_CLIENT {
            let idle = all.iter().filter(|(_, member)| member.upstream.is_idle());
            let oldest = idle.min_by_key(|(_, member)| member.used);
            let Some(key) = oldest.map(|(key, _)| key.clone()) else {
                let words = format!("{} servers for other clients are at work", all.len());
                return Err(RpcError::internal(words).with_data(json!({ "retriable": true })));
            };
            all.remove(&key);
        }
        let upstream = self.members.make.clone().build();
        let member = Member {
            upstream: upstream.clone(),
            used: Instant::now(),
        };
        all.insert(key.clone(), member);
        drop(all);
        self.end_with_its_client(request, key);
        Ok(upstream)
    }

    /// Ends a server with the connection, or with the caller, that it is for.
    fn end_with_its_client(&self, request: &Request, key: String) {
        let (caller, members) = (request.caller(), Arc::downgrade(&self.members));
        let (hung_up, gone) = (caller.hung_up(), caller.gone());
        let is_of_connection = key == request.conversation() && caller.connection().is_some();
        if !is_of_connection && caller.identity().is_none() {
            return;
        }
        self.tasks.spawn(async move {
            tokio::select! {
                () = hung_up, if is_of_connection => {}
                () = gone => {}
            }
            if let Some(members) = members.upgrade() {
                members.lock().remove(&key);
            }
        });
    }
}

impl Members {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Member>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Service for PerClient {
    fn call(&self, request: Request) -> Replies {
        match self.member(&request) {
            Ok(upstream) => upstream.call(request),
            Err(error) => Replies::error(error),
        }
    }

    fn close(&self) {
        for member in self.members.lock().values() {
            Service::close(&member.upstream);
        }
    }

    fn hang_up(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let all = std::mem::take(&mut *self.members.lock());
        Box::pin(async move {
            let leaving = Tasks::default();
            for member in all.into_values() {
                leaving.spawn(async move { member.upstream.hang_up().await });
            }
            while !leaving.is_empty() {
                sleep(Duration::from_millis(10)).await;
            }
        })
    }

    fn is_idle(&self) -> bool {
        self.members
            .lock()
            .values()
            .all(|member| member.upstream.is_idle())
    }
}

impl fmt::Debug for PerClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PerClient")
            .field(&self.members.make)
            .finish()
    }
}

/// Ends servers that nobody has called for a while.
async fn sweep(members: Weak<Members>, idle_stop: Duration) {
    loop {
        sleep(idle_stop / 4).await;
        let Some(members) = members.upgrade() else {
            return;
        };
        members
            .lock()
            .retain(|_, member| !member.upstream.is_idle() || member.used.elapsed() < idle_stop);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use lmcp_core::{Caller, CallerTransport, Principal, admit};
    use lmcp_wire::{Incoming, meta};

    use super::*;

    fn request(caller: Caller) -> Request {
        let meta = json!({
            meta::PROTOCOL_VERSION: "2026-07-28",
            meta::CLIENT_INFO: { "name": "test", "version": "1" },
            meta::CLIENT_CAPABILITIES: {},
        });
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": { "_meta": meta } });
        let message = Bytes::from(message.to_string());
        let Ok(Incoming::Request { id, method, params }) = Incoming::parse(&message) else {
            panic!("it is a request");
        };
        admit(&message, id, &method, params, caller, None).unwrap()
    }

    fn known(name: &str) -> Caller {
        Caller::new(CallerTransport::Memory).known_as(name)
    }

    fn servers(route: &str, idle_stop: Option<Duration>) -> PerClient {
        PerClient::per_caller(Route::Socket(route.into())).idle_stop(idle_stop)
    }

    fn keys(servers: &PerClient) -> Vec<String> {
        let mut keys: Vec<_> = servers.members.lock().keys().cloned().collect();
        keys.sort_unstable();
        keys
    }

    #[tokio::test]
    async fn a_caller_has_one_server_and_shares_it_with_nobody() {
        let servers = servers("/none", None);
        let admin = Principal::new("ann").role("admin");
        let admin = Caller::new(CallerTransport::Memory).authenticated(admin);
        let user = || Caller::process(1000, None);
        let strangers = [CallerTransport::Stdio; 2].map(Caller::new);
        // Two connections of one user; two strangers, of whom nobody can say that they are one.
        let all = [
            known("ann"),
            known("ann"),
            known("bob"),
            admin,
            user(),
            user(),
        ];
        for caller in all.into_iter().chain(strangers) {
            servers.member(&request(caller)).unwrap();
        }
        let keys = keys(&servers);
        assert_eq!(keys.len(), 6, "{keys:?}");
        for key in ["principal:ann", "principal:bob", "uid:1000"] {
            assert!(keys.iter().any(|known| known == key), "{keys:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn servers_are_bounded_and_idle_ones_end() {
        let servers = servers("/none", Some(Duration::from_secs(60)));
        for number in 0..=SERVERS_PER_CLIENT {
            let caller = known(&format!("{number:03}"));
            servers.member(&request(caller)).unwrap();
            sleep(Duration::from_millis(1)).await;
        }
        let keys_now = keys(&servers);
        assert_eq!(keys_now.len(), SERVERS_PER_CLIENT);
        assert_eq!(keys_now[0], "principal:001", "the oldest made room");
        sleep(Duration::from_secs(200)).await;
        assert_eq!(keys(&servers), [""; 0]);
    }
}
