//! The children of a host: their identities, and the check which process may use each of them.

use std::{
    collections::{HashMap, HashSet},
    io,
    os::fd::{AsFd as _, OwnedFd},
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use lmcp_core::{
    Caller, Error, Process,
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
    descriptors::Descriptors,
    event::{Event, Teller},
    host::Inner,
    inbox::Inbox,
    member::{ChildHandle, Ended, Key, Life, Member},
    peer_process::PeerProcess,
    reaping::{self, Waiter},
    setup::Labels,
    stat::{self, Started, Stat},
    state::{ChildState, State},
};

/// More children than a program has. The number is bounded, because each of them takes memory.
const MOST: usize = 4096;

/// How long a connection waits until its child has a process: the child may connect before the program has called `bind`.
const WAIT: Duration = Duration::from_secs(10);

/// The host or the program that takes over the children of a host that closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heir {
    Nobody,
    /// Another host takes over the detached children.
    Host,
    /// The program that this process becomes takes over all children.
    Program,
}

/// All children that have not ended.
#[derive(Debug)]
pub(crate) struct Children {
    /// Children by a digest of the token: finding one takes as long as not finding it, and the token itself is not stored.
    by_token: Mutex<HashMap<Key, Arc<Member>>>,
    /// Processes whose identity was taken back. They have no identity, and do not get the identity of a process above them.
    past: Mutex<Vec<Started>>,
    pub(crate) teller: Teller,
    making: Mutex<()>,
    /// The number of the next child.
    next: AtomicU64,
    labels: Labels,
    host: Weak<Inner>,
}

impl Children {
    pub(crate) fn new(host: Weak<Inner>, labels: Labels) -> Self {
        Self {
            by_token: Mutex::default(),
            past: Mutex::default(),
            teller: Teller::default(),
            making: Mutex::default(),
            next: AtomicU64::default(),
            labels,
            host,
        }
    }

    /// Returns the number of a new child, by which children are listed in the order in which they were made.
    pub(crate) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Adds a child that is about to be started.
    pub(crate) fn expect(&self, member: Member) -> Result<Arc<Member>, Error> {
        let mut children = self.lock();
        if self.labels == Labels::Unique {
            let label = &member.identity.borrow().label;
            let has_it = |known: &Arc<Member>| known.identity.borrow().label == *label;
            if children.values().any(has_it) {
                return Err(Error::config(format!("there is a child `{label}` already")));
            }
        }
        if member.is_sub() {
            // Under the lock that `end` takes for the parent: either the parent is gone by now, or it finds this one below it.
            let identity = member.identity.borrow();
            let made_it = |known: &Arc<Member>| Some(known.id()) == identity.parent;
            if !children.values().any(made_it) {
                let label = &identity.label;
                return Err(Error::config(format!(
                    "`{label}`: the child that makes it has ended"
                )));
            }
        }
        insert(&mut children, member)
    }

    /// Takes in one that the host before this one knew.
    fn take_over(&self, member: Member) -> Result<Arc<Member>, Error> {
        insert(&mut self.lock(), member)
    }

    /// Ends a child: its connections are closed, and new ones are refused.
    pub(crate) fn end(&self, member: &Arc<Member>, how: Ended) {
        // Held until it has ended: whoever looks for the owner of a process finds it here or still running.
        let mut past = self.past();
        self.lock().remove(&member.key);
        let process = member.end(how, &self.host, &self.teller);
        if past.len() == past.capacity() {
            past.retain(|process| !process.has_ended());
        }
        past.extend(process.filter(|_| how == Ended::TakenBack));
        drop(past);
        drop(member.take_kept());
        for child in self.subs_of(&member.id()) {
            self.end(&child, Ended::TakenBack);
        }
    }

    /// Held while a child makes another, so that the number of its sub-agents stays within its limit.
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

    /// Returns how many children others made below this one, in all generations.
    pub(crate) fn count_below(&self, id: &str) -> usize {
        let subs = self.subs_of(id);
        let below = subs.iter().map(|member| 1 + self.count_below(&member.id()));
        below.sum()
    }

    /// Returns the children that this one made.
    fn subs_of(&self, id: &str) -> Vec<Arc<Member>> {
        let children = self.lock();
        let subs = children.values().filter(|member| {
            member.is_sub() && member.identity.borrow().parent.as_deref() == Some(id)
        });
        subs.cloned().collect()
    }

    /// Forbids a child and its sub-agents to make more identities.
    pub(crate) fn forbid_family(&self, member: &Member) {
        *member.family() = None;
        for sub in self.subs_of(&member.id()) {
            self.forbid_family(&sub);
        }
    }

    /// Ends sub-agents whose parent is not known any more.
    fn end_orphans(&self) {
        loop {
            let members: Vec<_> = self.lock().values().cloned().collect();
            let is_orphan = |member: &&Arc<Member>| {
                let parent = member.identity.borrow().parent.clone();
                member.is_sub() && parent.is_none_or(|parent| self.find_id(&parent).is_none())
            };
            let Some(orphan) = members.iter().find(is_orphan) else {
                return;
            };
            self.end(orphan, Ended::TakenBack);
        }
    }

    /// Closes the table, and forgets all children. The files of children that the heir takes over stay.
    pub(crate) fn close(&self, heir: Heir) {
        self.teller.close();
        let left = match heir {
            Heir::Nobody => Vec::new(),
            Heir::Host => self.staying(),
            Heir::Program => self.lock().values().cloned().collect(),
        };
        for member in left {
            if let Some(kept) = member.take_kept() {
                kept.leave();
            }
        }
        let children = std::mem::take(&mut *self.lock());
        for member in children.into_values() {
            member.end(Ended::HostClosed, &self.host, &self.teller);
            drop(member.take_kept());
        }
    }

    /// Returns the detached children, and the sub-agents of detached children.
    fn staying(&self) -> Vec<Arc<Member>> {
        let mut members: Vec<_> = self.lock().values().cloned().collect();
        members.retain(|member| member.is_kept());
        loop {
            let known: HashSet<_> = members.iter().map(|member| member.id()).collect();
            let before = members.len();
            members.retain(|member| {
                let parent = member.identity.borrow().parent.clone();
                !member.is_sub() || parent.is_some_and(|parent| known.contains(&parent))
            });
            if members.len() == before {
                return members;
            }
        }
    }

    /// Returns the state of all children for the next host.
    pub(crate) fn state(&self) -> State {
        let children = self.lock();
        let states = children.values().filter_map(|member| member.state());
        State {
            children: states.collect(),
        }
    }

    /// Writes the state of all children for the host that this process starts after it became another program.
    pub(crate) fn hand_over(&self) -> io::Result<()> {
        let heir = Stat::of_this_process()?.process;
        let members = self.lock().values().cloned().collect();
        write_all(members, |state| state.bequeath(heir))
    }

    /// Sends those that were left to themselves to a host at another socket: all of them or none.
    pub(crate) fn send_to(&self, socket: &Path, from: &Path) -> io::Result<()> {
        let sent = write_all(self.staying(), |state| state.send_to(socket));
        sent.inspect_err(|_| drop(write_all(self.staying(), |state| state.send_to(from))))
    }

    /// Returns the state of the detached children.
    pub(crate) fn staying_state(&self) -> State {
        let states = self.staying();
        let states = states.iter().filter_map(|member| member.state());
        State {
            children: states.collect(),
        }
    }

    /// Closes all inboxes, so that the state that is written from now on is complete.
    pub(crate) fn seal_inboxes(&self) {
        let members: Vec<_> = self.lock().values().cloned().collect();
        for member in members {
            member.inbox().seal();
            member.record();
        }
    }

    /// Makes copies of all open files that the program keeps, which `exec` does not close. They must stay open until then.
    pub(crate) fn leave_descriptors(&self, word: &str) -> io::Result<Vec<OwnedFd>> {
        let mut copies = Vec::new();
        for member in self.lock().values() {
            copies.append(&mut member.descriptors().leave(word)?);
        }
        Ok(copies)
    }

    /// Returns whether any child was detached.
    pub(crate) fn any_stays(&self) -> bool {
        !self.staying().is_empty()
    }

    /// Takes over the children of the host before this one, with their files. A child that has died meanwhile is reported as
    /// ended.
    pub(crate) fn resume(&self, host: &Inner, exported: State, left: State) {
        // The export may be older than the record in the folder of the child.
        let exported = exported.children.into_iter().map(ChildState::latest);
        for state in exported.chain(left.children) {
            if let Err(err) = self.resume_child(host, &state) {
                tracing::warn!("cannot go on with child `{}`: {err}", state.id);
            }
        }
        self.end_orphans();
    }

    fn resume_child(&self, host: &Inner, state: &ChildState) -> io::Result<()> {
        let key = state.key().ok_or(io::ErrorKind::InvalidData)?;
        if self.lock().contains_key(&key) {
            return Ok(());
        }
        let folder = state.reopen(&host.socket)?;
        let belongings = Belongings::new(folder, host.lock.path(), &host.place);
        let Some(process) = state.process() else {
            // The child was never started, or runs where it cannot be seen from here. If this process was about to start it
            // before it became this program, that note is removed.
            return belongings.announce(&state.id);
        };
        // The process is opened before the look at it, so that the checked process is the watched one.
        let watched = pidfd_open(process.process, PidfdFlags::NONBLOCK);
        // Children return before the program can have asked for events.
        self.teller.remember();
        let found = Stat::of(process.process).ok();
        let found = found.filter(|found| found.process == process);
        self.next
            .fetch_max(state.number.saturating_add(1), Ordering::Relaxed);
        let member = Member::new(key, state.number, state.identity(), Life::Running(process));
        *member.stored() = state.stored.clone();
        *member.inbox() = Inbox::with(state.inbox.clone());
        *member.descriptors() = Descriptors::take(state.kept.as_ref());
        if state.watched {
            member.leave_to_host();
        }
        if state.adopts {
            member.set_adopts();
        }
        if state.is_sub {
            member.set_sub();
        }
        let member = self.take_over(member).map_err(io::Error::other)?;
        let noted = member.settle(&belongings.folder, host.returns);
        let noted = noted.and_then(|()| match host.returns {
            true => Ok(()),
            false => state.inherit(host.lock.path()),
        });
        let noted = noted.and_then(|()| belongings.register(process));
        // Its files go, so it must not stay as one that could come in.
        noted.inspect_err(|_| self.end(&member, Ended::TakenBack))?;
        member.keep(belongings);
        // A child that has ended is never listed: it ends before the program can ask.
        match (watched, found) {
            (Ok(watched), Some(found)) => {
                let waiter = Waiter::of(&found, state.watched);
                if reaping::has_ended(&watched) {
                    self.end(&member, Ended::Process(waiter.status(watched.as_fd())));
                } else {
                    child::watch(host, &member, watched, waiter);
                }
            }
            _ => self.end(&member, Ended::Process(None)),
        }
        Ok(())
    }

    /// Returns all children, in the order in which they were made. A child is in the list until its last event is sent, and
    /// not after it.
    pub(crate) fn all(&self) -> Vec<ChildHandle> {
        // Locked while a child ends.
        let past = self.past();
        let mut all: Vec<_> = self.lock().values().cloned().collect();
        drop(past);
        // Two hosts that moved here may have used the same number.
        all.sort_by_cached_key(|member| (member.number, member.id()));
        let handle = |member| ChildHandle::new(member, &self.host);
        all.iter().map(handle).collect()
    }

    fn find(&self, token: &str) -> Option<Arc<Member>> {
        self.lock().get(&key(token)).cloned()
    }

    /// Returns the process of the child that a process belongs to: the nearest one above it, or itself.
    pub(crate) fn owner_of(&self, process: Pid) -> Option<Pid> {
        let children = self.lock();
        let processes = children.values().filter_map(|member| member.process());
        let mut processes: Vec<Pid> = processes.map(|started| started.process).collect();
        drop(children);
        let mut past = self.past();
        past.retain(|process| !process.has_ended());
        processes.extend(past.iter().map(|started| started.process));
        drop(past);
        ancestry::above(process).find(|process| processes.contains(process))
    }

    /// Ends the connections of other children whose processes belong to this child now.
    pub(crate) fn judge_again(&self, bound: &Member) {
        let others = self.lock().values().cloned().collect::<Vec<_>>();
        for member in others.iter().filter(|member| member.key != bound.key) {
            if let Some(child) = member.process() {
                let is_own = |process| member.owns(self.owner_of(process), child.process);
                member.links.end_foreign(is_own);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Arc<Member>>> {
        self.by_token.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn past(&self) -> MutexGuard<'_, Vec<Started>> {
        self.past.lock().unwrap_or_else(PoisonError::into_inner)
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
        // The connection is known before its owner is looked for: if the process is bound to another child meanwhile, either this look
        // finds the other child, or that one finds the connection.
        let Ok(stat) = Stat::of(pinned.process) else {
            return Err(refused("the process that connected has ended"));
        };
        let gone = member.links.add(stat.process);
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
        // The owner is read before the check that the process is alive: while it is alive, no other process has its number.
        let owner = self.owner_of(pinned.process);
        if !pinned.is_alive() {
            return Err(refused("the process that connected has ended"));
        }
        if !member.owns(owner, child) {
            return Err(refused(&not_below(pinned.process, child, owner)));
        }
        let caller = Caller::process(peer.process().uid, peer.process().pid);
        let caller = caller.extended(ChildHandle::new(&member, &self.host));
        Ok(caller.identified_as(member.identity.subscribe(), gone))
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
            process: stat::number(process.pid),
            why: why.message.to_string(),
        });
    }
}

/// Takes in one more.
fn insert(children: &mut HashMap<Key, Arc<Member>>, member: Member) -> Result<Arc<Member>, Error> {
    if children.len() >= MOST {
        let label = &member.identity.borrow().label;
        return Err(Error::config(format!(
            "`{label}`: a host has at most {MOST} children at a time"
        )));
    }
    let member = Arc::new(member);
    children.insert(member.key, Arc::clone(&member));
    Ok(member)
}

pub(crate) fn key(token: &str) -> Key {
    let digest = digest(&SHA256, token.as_bytes());
    let mut key = Key::default();
    key.copy_from_slice(digest.as_ref());
    key
}

/// Writes something into the files of each, and gives the first error. A child without files has none to give: it has ended
/// meanwhile, or nobody can come in as it any more.
fn write_all(
    members: Vec<Arc<Member>>,
    write: impl Fn(ChildState) -> io::Result<()>,
) -> io::Result<()> {
    let mut all = Ok(());
    for member in members {
        let written = member.state().map_or(Ok(()), &write);
        if member.has_files() {
            all = all.and(written);
        }
    }
    all
}

/// No stranger comes in instead: what cannot be told is not let in.
fn refused(why: &str) -> RpcError {
    RpcError::invalid_request(why.to_owned())
}

/// Returns why a process may not use the token of a child.
fn not_below(process: Pid, child: Pid, owner: Option<Pid>) -> String {
    let given = format!("this token was given to another process, {child}");
    if owner.is_some() {
        return format!("{given}; process {process} belongs to another child of this program");
    }
    // A daemon, a multiplexer or a service manager started the process. The topmost process below the first one shows which.
    let above: Vec<Pid> = ancestry::above(process).collect();
    let uppermost = above.iter().rev().find(|above| above.as_raw_pid() != 1);
    let uppermost = uppermost.copied().unwrap_or(process);
    let name = ancestry::name(uppermost).unwrap_or_default();
    format!(
        "{given}, which has not started process {process}: that is below `{name}` ({uppermost}), and this program \
         does not admit such processes for this child"
    )
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, Permissions},
        hint,
        os::unix::fs::PermissionsExt as _,
        process::{self, Command},
        sync::atomic::AtomicBool,
        thread,
    };

    use lmcp_core::Server;

    use super::*;
    use crate::Host;

    #[test]
    fn a_process_is_nobody_however_closely_the_end_of_its_identity_follows_on_its_begin() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o700)).unwrap();
        let host = Host::start_in(Server::new("t", "1"), folder.path()).unwrap();
        // The process above it has an identity, too, which it must not be taken for.
        let above = host.child("above", "lead").unwrap();
        above.bind(process::id()).unwrap();
        let inner = above.host.upgrade().unwrap();
        let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_child(&sleeper);
        for round in 0..1000 {
            let child = host.child("below", "worker").unwrap();
            inner.children.past().clear();
            let begins = AtomicBool::new(false);
            let bound = thread::scope(|scope| {
                let binding = scope.spawn(|| {
                    let will_do = |_| {
                        begins.store(true, Ordering::SeqCst);
                        true
                    };
                    child::bind(&inner, &child.member, sleeper.id(), will_do, |_| Ok(()))
                });
                while !begins.load(Ordering::SeqCst) {
                    hint::spin_loop();
                }
                for _ in 0..round {
                    hint::spin_loop();
                }
                child.end();
                binding.join().unwrap().is_ok()
            });
            let owner = inner.children.owner_of(pid);
            assert!(!bound || owner == Some(pid), "{owner:?}");
        }
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
    }
}
