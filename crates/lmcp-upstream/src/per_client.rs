//! A server of its own for every client, for servers that keep state for their client.

use std::{
    collections::HashMap,
    fmt,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::{Context, Poll},
    time::Duration,
};

use lmcp_client::Route;
use lmcp_core::{
    Owned, OwnerKey, Replies, Reply, Request, Service, Tasks, expect_share, service::Source,
};
use lmcp_wire::{RpcError, method::request};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    limits::{PING_WAIT, SERVER_IDLE, SERVERS_PER_CLIENT},
    upstream::{Builder, Upstream, named},
};

/// Connects to a server, or starts one, separately for every client or for every caller. A server ends when nobody has
/// called it for a while. The number of servers is bounded.
pub struct PerClient {
    members: Arc<Members>,
    /// Ends servers that nobody calls, for as long as there is somebody who could.
    _sweeping: Tasks,
}

struct Members {
    make: Builder,
    shared_by: Sharing,
    all: Mutex<HashMap<String, Member>>,
}

/// Says which requests reach the same server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sharing {
    Conversation,
    Caller,
}

impl Sharing {
    fn key(self, request: &Request) -> String {
        // Unknown callers cannot be told apart, so one must not reach the state of another.
        match self {
            Self::Caller if !request.caller().is_stranger() => request.caller().owner().into(),
            Self::Caller | Self::Conversation => request.conversation(),
        }
    }
}

struct Member {
    upstream: Upstream,
    /// The caller that the server was made for.
    owner: String,
    used: Instant,
    /// Every running call holds a copy.
    calls: Arc<()>,
    /// Waits for the end of the client that the server is for.
    waiting: Tasks,
}

impl Member {
    fn new(upstream: Upstream, owner: String) -> Self {
        Self {
            upstream,
            owner,
            used: Instant::now(),
            calls: Arc::default(),
            waiting: Tasks::default(),
        }
    }

    fn is_idle(&self) -> bool {
        self.is_quiet() && self.upstream.is_idle()
    }

    /// Does no call go on there?
    fn is_quiet(&self) -> bool {
        Arc::strong_count(&self.calls) == 1
    }
}

/// A running call: its server is not ended to make room for another.
struct Busy {
    replies: Replies,
    _call: Arc<()>,
}

impl Source for Busy {
    fn poll_reply(&mut self, cx: &mut Context<'_>) -> Poll<Option<Reply>> {
        self.replies.poll_next(cx)
    }

    fn is_harmless(&self) -> bool {
        self.replies.is_harmless()
    }

    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.replies.poll_deadline(cx)
    }
}

impl PerClient {
    /// Makes a server for every connection, and for every session over HTTP. Requests without a session share one server for each caller. A
    /// server ends with its connection.
    pub fn new(route: Route) -> Self {
        Self::built(Upstream::builder(route))
    }

    /// Does as [`new`](Self::new), with the settings of this builder.
    pub fn built(make: Builder) -> Self {
        Self::make(make, Sharing::Conversation, Some(SERVER_IDLE))
    }

    /// Makes a server for every caller, as [`Caller::owner`](lmcp_core::Caller::owner) tells them apart: all connections and sessions of a
    /// caller share it. Callers that are not known are served as by [`PerClient::new`].
    pub fn per_caller(route: Route) -> Self {
        Self::built_per_caller(Upstream::builder(route))
    }

    /// Does as [`per_caller`](Self::per_caller), with the settings of this builder.
    pub fn built_per_caller(make: Builder) -> Self {
        Self::make(make, Sharing::Caller, Some(SERVER_IDLE))
    }

    /// Ends servers after this time without a call. `None`: only to make room for others.
    #[must_use]
    pub fn idle_stop(self, idle_stop: Option<Duration>) -> Self {
        Self::make(self.members.make.clone(), self.members.shared_by, idle_stop)
    }

    /// Does as [`Upstream::owned`]. Each process serves one caller alone, so starts are not told apart.
    pub fn owned(self, key: &OwnerKey, name: &str) -> Owned<Self> {
        let name = named(name, self.members.make.route());
        Owned::new(self, key, &name)
    }

    fn make(make: Builder, shared_by: Sharing, idle_stop: Option<Duration>) -> Self {
        let members = Arc::new(Members {
            make,
            shared_by,
            all: Mutex::default(),
        });
        let sweeping = Tasks::default();
        if let Some(idle_stop) = idle_stop {
            sweeping.spawn(sweep(Arc::downgrade(&members), idle_stop));
        }
        Self {
            members,
            _sweeping: sweeping,
        }
    }

    /// Returns the server for this request, and a value that keeps the server from being ended.
    fn member(&self, request: &Request) -> Result<(Upstream, Arc<()>), RpcError> {
        let key = self.members.shared_by.key(request);
        let mut all = self.members.lock();
        if let Some(member) = all.get_mut(&key) {
            member.used = Instant::now();
            return Ok((member.upstream.clone(), Arc::clone(&member.calls)));
        }
        let owner = request.caller().payer();
        let ended = make_room(&mut all, &owner)?;
        let upstream = self.members.make.clone().build();
        let member = Member::new(upstream.clone(), owner.into_owned());
        let calls = Arc::clone(&member.calls);
        self.end_with_its_client(&member, request, key.clone());
        all.insert(key, member);
        drop(all);
        drop(ended);
        Ok((upstream, calls))
    }

    /// Ends a server with the connection, or with the caller, that it is for.
    fn end_with_its_client(&self, member: &Member, request: &Request, key: String) {
        let (caller, members) = (request.caller(), Arc::downgrade(&self.members));
        let (hung_up, gone) = (caller.hung_up(), caller.gone());
        let is_of_connection = key == request.conversation() && caller.connection().is_some();
        if !is_of_connection && caller.identity().is_none() {
            return;
        }
        member.waiting.spawn(async move {
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

    /// The servers that are there and have no call.
    fn quiet(&self) -> Vec<(String, Upstream)> {
        let all = self.lock();
        let quiet = all
            .iter()
            .filter(|(_, member)| member.is_quiet() && member.upstream.is_open());
        quiet
            .map(|(key, member)| (key.clone(), member.upstream.clone()))
            .collect()
    }

    /// Asks a server whether it is there. One that does not answer, and still has no call, is ended.
    async fn ask(&self, key: String, upstream: Upstream) {
        let answered = timeout(PING_WAIT, Service::ping(&upstream)).await;
        if answered.is_ok() {
            return;
        }
        let mut all = self.lock();
        let is_silent = |member: &Member| member.is_quiet() && member.upstream.is_same(&upstream);
        if all.get(&key).is_some_and(is_silent) {
            all.remove(&key);
        }
    }
}

impl Service for PerClient {
    fn call(&self, request: Request) -> Replies {
        let (upstream, call) = match self.member(&request) {
            Ok(member) => member,
            Err(error) => return Replies::error(error),
        };
        // A subscription alone does not keep a server.
        let is_call = request.method() != request::LISTEN;
        let replies = upstream.call(request);
        match is_call {
            true => Replies::from_source(Busy {
                replies,
                _call: call,
            }),
            false => replies,
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

    /// Asks each server that is there and has no call. Those that do not answer are ended: nothing of the others is lost.
    fn ping(&self) -> Pin<Box<dyn Future<Output = Result<(), RpcError>> + Send + '_>> {
        Box::pin(async {
            let asked = Tasks::default();
            for (key, upstream) in self.members.quiet() {
                let members = Arc::clone(&self.members);
                asked.spawn(async move { members.ask(key, upstream).await });
            }
            while !asked.is_empty() {
                sleep(Duration::from_millis(10)).await;
            }
            Ok(())
        })
    }

    fn is_idle(&self) -> bool {
        self.members.lock().values().all(Member::is_idle)
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
            .retain(|_, member| !member.is_idle() || member.used.elapsed() < idle_stop);
    }
}

/// Makes sure that there is a place for one more server of a caller. If there is none, removes an idle server and returns
/// it: the one of the caller with the most servers that has been idle longest. A caller loses one to another caller only if
/// it has more than its share, or if the other has none at all.
fn make_room(all: &mut HashMap<String, Member>, owner: &str) -> Result<Option<Member>, RpcError> {
    let total = all.len();
    let count = |owner: &str| all.values().filter(|member| member.owner == owner).count();
    let fits = |mine: usize, total: usize| {
        expect_share("servers_per_client", mine, total, SERVERS_PER_CLIENT)
    };
    let mine = count(owner);
    let Err(no_place) = fits(mine, total) else {
        return Ok(None);
    };
    let may_end = |theirs: usize| {
        let has_more_than_its_share = || fits(theirs - 1, total - 1).is_err();
        theirs > mine && (mine == 0 || has_more_than_its_share())
    };
    let idle = all.iter().filter(|(_, member)| member.is_idle());
    let candidates = idle
        .map(|(key, member)| (count(&member.owner), member, key))
        .filter(|(theirs, member, _)| member.owner == owner || may_end(*theirs));
    let ended =
        candidates.min_by_key(|(theirs, member, _)| (std::cmp::Reverse(*theirs), member.used));
    let key = ended.map(|(_, _, key)| key.clone()).ok_or(no_place)?;
    Ok(all.remove(&key))
}

#[cfg(test)]
mod tests {
    use lmcp_core::{Caller, CallerTransport, Principal};

    use super::*;
    use crate::support::request;

    fn known(name: &str) -> Caller {
        Caller::new(CallerTransport::Memory).known_as(name)
    }

    fn servers(route: &str, idle_stop: Option<Duration>) -> PerClient {
        PerClient::per_caller(Route::Socket(route.into())).idle_stop(idle_stop)
    }

    /// Makes a call on a connection of its own. The call is not polled, so it runs as long as it is held.
    fn call(servers: &PerClient, name: &str) -> Result<Replies, RpcError> {
        let (_open, replies) = connect(servers, name);
        replies
    }

    /// Does the same, and returns the connection, too.
    fn connect(servers: &PerClient, name: &str) -> (Caller, Result<Replies, RpcError>) {
        let caller = Caller::new(CallerTransport::Stdio).known_as(name);
        let mut replies = servers.call(request(caller.clone()));
        let replies = match replies.take_ready() {
            Some(Reply::Done(Err(error))) => Err(error),
            _ => Ok(replies),
        };
        (caller, replies)
    }

    /// Makes a server of this caller that is idle while its connection stays open.
    fn idle(servers: &PerClient, name: &str) -> Caller {
        let (open, replies) = connect(servers, name);
        drop(replies.unwrap());
        open
    }

    fn count(servers: &PerClient, owner: &str) -> usize {
        let all = servers.members.lock();
        all.values().filter(|member| member.owner == owner).count()
    }

    #[tokio::test]
    async fn one_caller_cannot_take_all_servers() {
        let servers = PerClient::new(Route::Socket("/none".into()));
        let mut held = Vec::new();
        let refused = loop {
            match call(&servers, "ann") {
                Ok(replies) => held.push(replies),
                Err(error) => break error,
            }
        };
        assert!(held.len() < SERVERS_PER_CLIENT, "{}", held.len());
        let data = refused.data.as_ref().unwrap();
        assert_eq!(data["retriable"], true, "{refused}");
        for _ in 0..3 {
            held.push(call(&servers, "bob").unwrap());
        }
        assert_eq!(servers.members.lock().len(), held.len());
    }

    #[tokio::test(start_paused = true)]
    async fn idle_servers_make_room_for_their_own_caller_and_not_for_greedier_ones() {
        let servers = PerClient::new(Route::Socket("/none".into()));
        let mut open = vec![idle(&servers, "bob")];
        let begun = call(&servers, "ann").unwrap();
        let key = |owner: &str| {
            let all = servers.members.lock();
            let mut found = all.iter().filter(|(_, member)| member.owner == owner);
            found.next().map(|(key, _)| key.clone()).unwrap()
        };
        let [bobs, anns] = ["principal:bob", "principal:ann"].map(key);
        for _ in 0..100 {
            sleep(Duration::from_millis(1)).await;
            open.push(idle(&servers, "ann"));
        }
        let all = keys(&servers);
        assert!(all.contains(&bobs), "the idle server of another");
        assert!(all.contains(&anns), "a call that has only begun");
        // Callers without a server find a place, also if all places are taken.
        for number in 0..2 * SERVERS_PER_CLIENT {
            sleep(Duration::from_millis(1)).await;
            open.push(idle(&servers, &number.to_string()));
        }
        assert_eq!(servers.members.lock().len(), SERVERS_PER_CLIENT);
        assert!(count(&servers, "principal:ann") >= 1);
        drop(begun);
    }

    fn keys(servers: &PerClient) -> Vec<String> {
        let mut keys: Vec<_> = servers.members.lock().keys().cloned().collect();
        keys.sort_unstable();
        keys
    }

    #[tokio::test(start_paused = true)]
    async fn servers_that_come_and_go_leave_nothing_on_a_connection_that_stays() {
        let servers = servers("/none", Some(Duration::from_secs(60)));
        let caller = Caller::new(CallerTransport::Stdio);
        let tasks = || {
            tokio::runtime::Handle::current()
                .metrics()
                .num_alive_tasks()
        };
        let mut alive = Vec::new();
        for _ in 0..10 {
            servers.member(&request(caller.clone())).unwrap();
            sleep(Duration::from_secs(200)).await;
            assert_eq!(keys(&servers), [""; 0]);
            alive.push(tasks());
        }
        assert_eq!(alive, [alive[0]; 10]);
    }

    #[tokio::test]
    async fn a_caller_has_one_server_and_shares_it_with_nobody() {
        let servers = servers("/none", None);
        let admin = Principal::new("ann").role("admin");
        let admin = Caller::new(CallerTransport::Memory).authenticated(admin);
        let user = || Caller::process(1000, None);
        let strangers = [CallerTransport::Stdio; 2].map(Caller::new);
        // Two connections of one user, and two unknown callers, which may be different users.
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
