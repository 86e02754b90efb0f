//! The places for connections to a guard, and which processes get one.
//!
//! Servers come to follow the command or to act on it. The command itself, and commands of others, may know the socket, too, and
//! connect without pause. So a process that could be a command is refused at once, and a connection that says nothing gives its
//! place to the next.

use std::{
    os::unix::net::{UnixListener, UnixStream},
    time::Duration,
};

use rustix::net::sockopt::socket_peercred;

use super::{
    super::{
        peers,
        protocol::{Ask, Word},
    },
    Guard,
    peer::Peer,
};

/// The most connections at once. A server has one to follow a job, and one more for a moment when it asks for something.
const MOST_PEERS: usize = 32;
/// The most connections that are accepted in one turn. Nearly all of them are refused after a look at one process.
const MOST_ACCEPTED: usize = 1024;

impl Guard {
    pub(super) fn say(&mut self, word: &Word) {
        for peer in self.peers.iter_mut().filter(|peer| peer.is_known) {
            peer.say(word);
        }
    }

    /// Accepts the connections that wait: commands may have made most of them.
    pub(super) fn accept(&mut self) {
        for _ in 0..MOST_ACCEPTED {
            let accepted = self.listener.as_ref().map(UnixListener::accept);
            let Some(Ok((socket, _))) = accepted else {
                return;
            };
            self.let_in(socket);
        }
    }

    fn let_in(&mut self, socket: UnixStream) {
        let admit = |process| peers::admit(&self.gate, &self.known, Some(process), &socket).ok();
        let from = socket_peercred(&socket).ok().map(|peer| peer.pid);
        if from.and_then(admit).is_none() || !self.has_place() {
            return;
        }
        if let Ok(peer) = Peer::new(socket) {
            self.peers.push(peer);
            // A server sends its key at once, so the key is read before the next connection can take the place.
            self.on_peer(self.peers.len() - 1);
        }
    }

    /// Returns whether there is a place for one more peer. Strangers make room first, then peers that only follow, the
    /// oldest first: a peer that comes to stop the command gets in, however many there are.
    fn has_place(&mut self) -> bool {
        if self.peers.len() >= MOST_PEERS {
            self.forget_peers();
        }
        if self.peers.len() < MOST_PEERS {
            return true;
        }
        // The key of a stranger may have arrived since it was read last.
        for at in 0..self.peers.len() {
            if self.peers.get(at).is_some_and(|peer| !peer.is_known) {
                self.on_peer(at);
            }
        }
        let stranger = self.peers.iter().position(|peer| !peer.is_known);
        let listener = || self.peers.iter().position(|peer| peer.follows);
        match stranger.or_else(listener) {
            Some(at) => drop(self.peers.remove(at)),
            None => return false,
        }
        true
    }

    /// Sends the whole state to a peer that has sent the key.
    fn welcome(&mut self, at: usize, follows: bool) {
        let started = Word::Started {
            pid: self.pid.as_raw_pid(),
        };
        let (growth, end) = (
            self.growth(),
            self.end.as_ref().map(|end| self.end_now(end)),
        );
        let Some(peer) = self.peers.get_mut(at) else {
            return;
        };
        peer.is_known = true;
        peer.follows = follows;
        peer.say(&started);
        peer.say(&growth);
        if let Some(end) = end {
            peer.say(&Word::Ended(end));
        }
    }

    pub(super) fn on_peer(&mut self, at: usize) {
        let Some(peer) = self.peers.get_mut(at) else {
            return;
        };
        peer.write();
        for ask in peer.asks() {
            let known = self.peers.get(at).is_some_and(|peer| peer.is_known);
            match &ask {
                Ask::Hello { key, follows } if *key == self.order.key => {
                    self.welcome(at, *follows);
                    continue;
                }
                // A peer that does not know the key gets no answer at all.
                _ if !known => {
                    if let Some(peer) = self.peers.get_mut(at) {
                        peer.gone = true;
                    }
                    return;
                }
                _ => {}
            }
            if matches!(ask, Ask::Look) {
                let waits = self.waits();
                if let Some(peer) = self.peers.get_mut(at) {
                    peer.say(&Word::Looks { waits });
                }
            }
            let answer = match self.on_ask(ask) {
                Ok(()) => Word::Done,
                Err(err) => Word::Refused {
                    why: err.to_string(),
                },
            };
            if let Some(peer) = self.peers.get_mut(at) {
                peer.say(&answer);
            }
        }
    }

    /// Forgets the peers that are gone. If the server that started the command is among them, ends the command, unless it
    /// is a job.
    pub(super) fn forget_peers(&mut self) {
        let owner_left = self.peers.iter().any(|peer| peer.gone && peer.is_owner);
        self.orphaned |= owner_left && (self.end.is_none() || self.listener.is_some());
        self.peers.retain(|peer| !peer.gone);
        if owner_left && !self.kept {
            self.begin_stop(Duration::from_millis(self.order.grace_ms));
        }
    }
}
