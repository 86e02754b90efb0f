//! The children of a host: who they are, and which process may say so.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use lmcp_core::{
    Caller, Error, Identity,
    transport::{Admitting, Gate, Peer},
};
use lmcp_private::Whose;
use lmcp_wire::RpcError;
use ring::digest::{SHA256, digest};
use rustix::process::Pid;
use tokio::sync::watch;

use crate::{ancestry, peer_process::PeerProcess};

/// More children than a program has. A bound, because each of them is a name in memory.
const MOST: usize = 4096;

/// How long a connection waits to hear which process its child is: the child may be quicker than the program that
/// started it.
const WAIT: Duration = Duration::from_secs(10);

/// All children that have not ended.
#[derive(Debug)]
pub(crate) struct Children {
    /// By a digest of the token: finding one takes as long as not finding it, and the token itself is kept nowhere.
    by_token: Mutex<HashMap<Key, Entry>>,
}

type Key = [u8; 32];

#[derive(Clone, Debug)]
struct Entry {
    identity: Identity,
    life: Arc<watch::Sender<Life>>,
    gone: Arc<watch::Sender<bool>>,
}

/// What is known of a child's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// Not started yet, as far as anybody said.
    Expected,
    Running(Pid),
    Ended,
}

/// A child in the table, for whoever started it.
#[derive(Debug)]
pub(crate) struct Ticket {
    key: Key,
    pub(crate) identity: Identity,
    pub(crate) life: Arc<watch::Sender<Life>>,
    gone: Arc<watch::Sender<bool>>,
    children: Arc<Children>,
}

impl Children {
    pub(crate) fn new() -> Self {
        Self {
            by_token: Mutex::default(),
        }
    }

    /// Takes in a child that is about to be started.
    pub(crate) fn expect(
        self: &Arc<Self>,
        token: &str,
        identity: Identity,
    ) -> Result<Ticket, Error> {
        let mut children = self.lock();
        if children.len() >= MOST {
            return Err(Error::config(format!(
                "`{}`: a host has at most {MOST} children at a time",
                identity.label
            )));
        }
        let (key, life) = (key(token), Arc::new(watch::Sender::new(Life::Expected)));
        let gone = Arc::new(watch::Sender::new(false));
        let entry = Entry {
            identity: identity.clone(),
            life: Arc::clone(&life),
            gone: Arc::clone(&gone),
        };
        children.insert(key, entry);
        drop(children);
        Ok(Ticket {
            key,
            identity,
            life,
            gone,
            children: Arc::clone(self),
        })
    }

    fn find(&self, token: &str) -> Option<Entry> {
        self.lock().get(&key(token)).cloned()
    }

    /// Which child a process belongs to: the nearest above it, itself included.
    fn owner_of(&self, process: Pid) -> Option<Pid> {
        let children: Vec<Pid> = self.lock().values().filter_map(Entry::process).collect();
        ancestry::above(process).find(|process| children.contains(process))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Entry>> {
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
            return Err(refused("nobody can tell which process this is"));
        };
        let Some(entry) = self.find(token) else {
            return Err(refused("this token is not known, or its process has ended"));
        };
        let mut life = entry.life.subscribe();
        let known = async {
            let known = life.wait_for(|life| *life != Life::Expected).await;
            known.map_or(Life::Ended, |life| *life)
        };
        let child = match tokio::time::timeout(WAIT, known).await {
            Ok(Life::Running(child)) => child,
            Ok(_) => return Err(refused("the process of this token has ended")),
            Err(_) => return Err(refused("the process of this token has not been started")),
        };
        // In this order: as long as it is alive, nobody else has its number.
        if self.owner_of(pinned.process) != Some(child) || !pinned.is_alive() {
            return Err(refused("this token was given to another process"));
        }
        let caller = Caller::process(peer.process().uid, peer.process().pid);
        Ok(caller.identified_until(entry.identity, entry.gone.subscribe()))
    }
}

impl Gate for Children {
    fn admit<'a>(&'a self, token: &'a str, peer: &'a Peer) -> Admitting<'a> {
        Box::pin(self.check(token, peer, PeerProcess::new(peer)))
    }
}

impl Entry {
    fn process(&self) -> Option<Pid> {
        match *self.life.borrow() {
            Life::Running(process) => Some(process),
            Life::Expected | Life::Ended => None,
        }
    }
}

impl Ticket {
    /// Nobody comes in with this token any more, and who is in goes.
    pub(crate) fn end(&self) {
        self.children.lock().remove(&self.key);
        self.life.send_replace(Life::Ended);
        self.gone.send_replace(true);
    }

    /// Says which process it is, once.
    pub(crate) fn begin(&self, process: Pid) -> bool {
        self.life.send_if_modified(|life| {
            let is_expected = *life == Life::Expected;
            if is_expected {
                *life = Life::Running(process);
            }
            is_expected
        })
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.end();
    }
}

fn key(token: &str) -> Key {
    let digest = digest(&SHA256, token.as_bytes());
    let mut key = Key::default();
    key.copy_from_slice(digest.as_ref());
    key
}

/// No stranger comes in instead: what cannot be told is not let in.
fn refused(why: &str) -> RpcError {
    RpcError::invalid_request(why.to_owned())
}
