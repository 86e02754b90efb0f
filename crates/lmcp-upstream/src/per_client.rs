//! A server of its own for every client, for servers that keep something for whoever speaks with them.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
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

/// Reaches a server anew for every connection and every session over HTTP; requests that stand alone over HTTP share one for
/// each caller. A server ends with the connection that it is for, or when nobody has called it for a while.
pub struct PerClient {
    members: Arc<Members>,
    tasks: Tasks,
}

struct Members {
    make: Builder,
    all: Mutex<HashMap<String, Member>>,
}

struct Member {
    upstream: Upstream,
    used: Instant,
}

impl PerClient {
    /// Servers that are reached so.
    pub fn new(route: Route) -> Self {
        Self::built(Upstream::builder(route))
    }

    /// The same, with more to be said of each.
    pub fn built(make: Builder) -> Self {
        let members = Arc::new(Members {
            make,
            all: Mutex::default(),
        });
        let tasks = Tasks::default();
        tasks.spawn(sweep(Arc::downgrade(&members)));
        Self { members, tasks }
    }

    /// The server of this conversation.
    fn member(&self, request: &Request) -> Result<Upstream, RpcError> {
        let key = request.conversation();
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
        if request.caller().connection().is_some() {
            let (members, hung_up) = (Arc::downgrade(&self.members), request.caller().hung_up());
            self.tasks.spawn(async move {
                hung_up.await;
                if let Some(members) = members.upgrade() {
                    members.lock().remove(&key);
                }
            });
        }
        Ok(upstream)
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
async fn sweep(members: Weak<Members>) {
    loop {
        sleep(SERVER_IDLE / 4).await;
        let Some(members) = members.upgrade() else {
            return;
        };
        members
            .lock()
            .retain(|_, member| !member.upstream.is_idle() || member.used.elapsed() < SERVER_IDLE);
    }
}
