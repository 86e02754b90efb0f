//! The children of a host: who they are, and which process may say so.

use std::{
    collections::HashMap,
    io,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use lmcp_core::{
    Caller, Error, Identity, Process,
    transport::{Admitting, Gate, Peer},
};
use lmcp_private::Whose;
use lmcp_wire::RpcError;
use ring::digest::{SHA256, digest};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::{
    ancestry,
    belongings::Belongings,
    child,
    event::{Event, Teller},
    host::Inner,
    inbox::Inbox,
    member::{ChildHandle, Ended, Key, Life, Member},
    peer_process::PeerProcess,
    stat::Stat,
    state::{ChildState, State},
};

/// More children than a program has. A bound, because each of them is a name in memory.
const MOST: usize = 4096;

/// How long a connection waits to hear which process its child is: the child may be quicker than the program that
/// started it.
const WAIT: Duration = Duration::from_secs(10);

/// All children that have not ended.
#[derive(Debug)]
pub(crate) struct Children {
    /// By a digest of the token: finding one takes as long as not finding it, and the token itself is kept nowhere.
    by_token: Mutex<HashMap<Key, Arc<Member>>>,
    pub(crate) teller: Teller,
    making: Mutex<()>,
    host: Weak<Inner>,
}

impl Children {
    pub(crate) fn new(host: Weak<Inner>) -> Self {
        Self {
            by_token: Mutex::default(),
            teller: Teller::default(),
            making: Mutex::default(),
            host,
        }
    }

    /// Takes in a child that is about to be started.
    pub(crate) fn expect(&self, token: &str, identity: Identity) -> Result<Arc<Member>, Error> {
        self.add(Member::new(key(token), identity, Life::Expected))
    }

    /// Takes in one more.
    pub(crate) fn add(&self, member: Member) -> Result<Arc<Member>, Error> {
        let mut children = self.lock();
        if children.len() >= MOST {
            let label = member.identity.borrow().label.clone();
            return Err(Error::config(format!(
                "`{label}`: a host has at most {MOST} children at a time"
            )));
        }
        let member = Arc::new(member);
        children.insert(member.key, Arc::clone(&member));
        Ok(member)
    }

    /// Nobody comes in as this child any more, and who is in goes.
    pub(crate) fn end(&self, member: &Arc<Member>, how: Ended) {
        self.lock().remove(&member.key);
        member.end(how, &self.host, &self.teller);
        drop(member.take_kept());
        let id = member.identity.borrow().id.clone();
        for child in self.subs_of(&id) {
            self.end(&child, Ended::TakenBack);
        }
    }

    /// Held while a child makes another, so that it makes no more than it may.
    pub(crate) fn making(&self) -> MutexGuard<'_, ()> {
        self.making.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn find_id(&self, id: &str) -> Option<ChildHandle> {
        let children = self.lock();
        let found = children
            .values()
            .find(|member| member.identity.borrow().id == id);
        found.map(|member| ChildHandle::new(member, &self.host))
    }

    /// How many children others made below this one, in all generations.
    pub(crate) fn count_below(&self, id: &str) -> usize {
        let subs = self.subs_of(id);
        let below = subs.iter().map(|member| {
            let id = member.identity.borrow().id.clone();
            1 + self.count_below(&id)
        });
        below.sum()
    }

    /// The children that this one made.
    fn subs_of(&self, id: &str) -> Vec<Arc<Member>> {
        let children = self.lock();
        let subs = children.values().filter(|member| {
            member.is_sub() && member.identity.borrow().parent.as_deref() == Some(id)
        });
        subs.cloned().collect()
    }

    /// The host closes: nothing more is known of anybody. The next one finds the files of those that were left to
    /// themselves, if there is to be one.
    pub(crate) fn close(&self, returns: bool) {
        self.teller.close();
        let children = std::mem::take(&mut *self.lock());
        for member in children.into_values() {
            member.end(Ended::HostClosed, &self.host, &self.teller);
            match member.take_kept() {
                Some(kept) if returns => kept.leave(),
                kept => drop(kept),
            }
        }
    }

    /// What the next host should know.
    pub(crate) fn state(&self) -> State {
        let children = self.lock();
        let states = children.values().filter_map(|member| member.state());
        State {
            children: states.collect(),
        }
    }

    /// Leaves word of all children for the host that this process starts when it is another program.
    pub(crate) fn hand_over(&self) -> io::Result<()> {
        let heir = Stat::of_this_process()?.process;
        let members: Vec<_> = self.lock().values().cloned().collect();
        for member in members {
            let left = member.state().map_or(Ok(()), |state| state.bequeath(heir));
            // One that has ended meanwhile has no files any more.
            if left.is_err() && !matches!(member.life(), Life::Ended(_)) {
                return left;
            }
        }
        Ok(())
    }

    /// Sends those that were left to themselves to a host at another socket.
    pub(crate) fn send_to(&self, socket: &Path) -> io::Result<()> {
        let kept = self.kept_state().children;
        kept.iter().try_for_each(|child| child.send_to(socket))
    }

    /// What is known of those that were left to themselves.
    pub(crate) fn kept_state(&self) -> State {
        let members: Vec<_> = self.lock().values().cloned().collect();
        let kept = members.iter().filter(|member| member.is_kept());
        State {
            children: kept.filter_map(|member| member.state()).collect(),
        }
    }

    /// Nothing is delivered to anybody any more, so what is written down from now on is complete.
    pub(crate) fn seal_inboxes(&self) {
        let members: Vec<_> = self.lock().values().cloned().collect();
        for member in members {
            member.inbox().seal();
            member.record();
        }
    }

    /// Was any child left to itself?
    pub(crate) fn are_kept(&self) -> bool {
        self.lock().values().any(|member| member.is_kept())
    }

    /// Takes in what the host before this one knew, with the files. Who has died meanwhile is told as ended.
    pub(crate) fn resume(&self, host: &Inner, state: State) {
        for state in state.children {
            if let Err(err) = self.resume_child(host, &state) {
                tracing::warn!("cannot go on with child `{}`: {err}", state.id);
            }
        }
    }

    fn resume_child(&self, host: &Inner, state: &ChildState) -> io::Result<()> {
        let key = state.key().ok_or(io::ErrorKind::InvalidData)?;
        if self.lock().contains_key(&key) {
            return Ok(());
        }
        let belongings = Belongings::new(state.reopen(&host.socket)?, host.lock.path());
        let Some(process) = state.process() else {
            // It was never started, or where nobody here can see it. If this process was about to start it before it
            // became this program, it is so no longer.
            return belongings.announce(&state.id);
        };
        // In this order: what is watched is what was looked at.
        let watched = pidfd_open(process.process, PidfdFlags::NONBLOCK);
        // Children come again before the program can have asked for events.
        self.teller.remember();
        let is_it = Stat::of(process.process).is_ok_and(|found| found.process == process);
        let member = Member::new(key, state.identity(), Life::Running(process));
        *member.stored() = state.stored.clone();
        *member.inbox() = Inbox::with(state.inbox.clone());
        if state.adopts {
            member.set_adopts();
        }
        if state.is_sub {
            member.set_sub();
        }
        member.settle(belongings.folder.path(), host.returns)?;
        if !host.returns {
            state.inherit(host.lock.path())?;
        }
        let member = self.add(member).map_err(io::Error::other)?;
        belongings.register(process)?;
        member.keep(belongings);
        match watched {
            Ok(watched) if is_it => child::watch(host, &member, watched),
            _ => self.end(&member, Ended::Process(None)),
        }
        Ok(())
    }

    /// All of them, by the order of their ids.
    pub(crate) fn all(&self) -> Vec<ChildHandle> {
        let children = self.lock();
        let handles = children
            .values()
            .map(|member| ChildHandle::new(member, &self.host));
        let mut all: Vec<_> = handles.collect();
        drop(children);
        all.sort_by_cached_key(|child| child.identity().id.clone());
        all
    }

    fn find(&self, token: &str) -> Option<Arc<Member>> {
        self.lock().get(&key(token)).cloned()
    }

    /// Which child a process belongs to: the nearest above it, itself included.
    pub(crate) fn owner_of(&self, process: Pid) -> Option<Pid> {
        let children = self.lock();
        let processes = children.values().filter_map(|member| member.process());
        let processes: Vec<Pid> = processes.map(|started| started.process).collect();
        drop(children);
        ancestry::above(process).find(|process| processes.contains(process))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Arc<Member>>> {
        self.by_token.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn check(
        &self,
        token: &str,
        peer: &Peer,
        pinned: Option<PeerProcess>,
    ) -> Result<Caller, RpcError> {
        match lmcp_private::whose(peer.process().uid) {
            Whose::Ours => {}
            Whose::Unknown => return Err(refused("nobody can tell which user this is")),
            Whose::Roots | Whose::Others => {
                return Err(refused("this socket is for another user"));
            }
        }
        let Some(pinned) = pinned else {
            return Err(refused(
                "nobody can tell which process this is: it has ended, or it cannot be seen from here",
            ));
        };
        let Some(member) = self.find(token) else {
            return Err(refused("this token is not known, or its process has ended"));
        };
        let mut life = member.life.subscribe();
        let known = async {
            let known = life.wait_for(|life| *life != Life::Expected).await;
            known.map_or(Life::Ended(Ended::HostClosed), |life| *life)
        };
        let child = match tokio::time::timeout(WAIT, known).await {
            Ok(Life::Running(child)) => child.process,
            Ok(_) => return Err(refused("the process of this token has ended")),
            Err(_) => return Err(refused("the process of this token has not been started")),
        };
        // In this order: as long as it is alive, nobody else has its number.
        let owner = self.owner_of(pinned.process);
        if !pinned.is_alive() {
            return Err(refused("the process that connected has ended"));
        }
        if owner != Some(child) && !(owner.is_none() && member.adopts()) {
            return Err(refused(&not_below(pinned.process, child, owner)));
        }
        let caller = Caller::process(peer.process().uid, peer.process().pid);
        let caller = caller.extended(ChildHandle::new(&member, &self.host));
        Ok(caller.identified_as(member.identity.subscribe(), member.gone.subscribe()))
    }
}

impl Gate for Children {
    fn admit<'a>(&'a self, token: &'a str, peer: &'a Peer) -> Admitting<'a> {
        Box::pin(self.check(token, peer, PeerProcess::new(peer)))
    }

    fn entered(&self, caller: &Caller) {
        if let Some(child) = ChildHandle::of(caller) {
            child.member.entered(caller, &self.host, &self.teller);
        }
    }

    fn left(&self, caller: &Caller) {
        if let Some(child) = ChildHandle::of(caller) {
            child.member.left(caller, &self.host, &self.teller);
        }
    }

    fn refused(&self, process: Process, why: &RpcError) {
        self.teller.tell(|| Event::Refused {
            process: process.pid,
            why: why.message.to_string(),
        });
    }
}

pub(crate) fn key(token: &str) -> Key {
    let digest = digest(&SHA256, token.as_bytes());
    let mut key = Key::default();
    key.copy_from_slice(digest.as_ref());
    key
}

/// No stranger comes in instead: what cannot be told is not let in.
fn refused(why: &str) -> RpcError {
    RpcError::invalid_request(why.to_owned())
}

/// Why a process may not use the token of a child.
fn not_below(process: Pid, child: Pid, owner: Option<Pid>) -> String {
    let given = format!("this token was given to another process, {child}");
    if owner.is_some() {
        return format!("{given}; process {process} belongs to another child of this program");
    }
    // A daemon, a multiplexer or a service manager started it; the uppermost but the first process tells which.
    let above: Vec<Pid> = ancestry::above(process).collect();
    let uppermost = above.iter().rev().find(|above| above.as_raw_pid() != 1);
    let uppermost = uppermost.copied().unwrap_or(process);
    let name = ancestry::name(uppermost).unwrap_or_default();
    format!(
        "{given}, which has not started process {process}: that is below `{name}` ({uppermost}), and this program \
         does not admit such processes for this child"
    )
}
