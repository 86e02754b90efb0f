//! The open connections of a listener: how many there may be, and which one is closed when all places are taken.
//!
//! A connection is idle while no request of it is being answered and it has no subscription, and while the body of a
//! request is waited for: somebody who sends a byte now and then is idle, too. When all places are taken, the connection
//! is closed that has been idle longest; first one that has not yet said anything that was let in. Callers that are known
//! by name have a share of the places. Buffers of connections count against the server's budget of memory: where it is
//! short, there are fewer places. Those of a caller that is known count as the caller's, so that many of one take no room
//! from others.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

use lmcp_wire::RpcError;
use tokio::{sync::Notify, task::AbortHandle};

use crate::budget::{Account, Budget, Reservation, expect_share, try_later};

/// The memory that one connection occupies besides its requests: buffers and tasks. Measured, and rounded up: 27 KiB over
/// HTTP, 33 KiB on a unix socket.
pub(crate) const CONNECTION_BYTES: usize = 32 << 10;

/// So many connections are taken in however short memory is: others could not call at all.
const ALWAYS: usize = 64;

/// All connections of a listener.
#[derive(Debug)]
pub struct Connections {
    most: usize,
    /// What those occupy of the server's memory that are nobody's yet.
    memory: Account,
    budget: Budget,
    /// Places of callers that are known by name.
    shares: Budget,
    opened: Instant,
    open: Mutex<Open>,
    /// One has closed.
    closed: Notify,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    all: HashMap<u64, Taken>,
}

/// A place that is taken.
#[derive(Debug)]
struct Taken {
    connection: Arc<Connection>,
    abort: Option<AbortHandle>,
}

/// One connection, as its listener sees it.
#[derive(Debug)]
pub struct Connection {
    /// Requests of it are being answered.
    busy: AtomicBool,
    /// The body of a request is waited for.
    reading: AtomicBool,
    /// It is told what changes.
    subscribed: AtomicBool,
    /// A request of it was let in.
    known: AtomicBool,
    /// When it last began or ended a request: milliseconds since the listener was opened.
    used: AtomicU64,
    opened: Instant,
    /// Whose it is, once a caller has said its name.
    owner: OnceLock<Result<Reservation, RpcError>>,
    /// Its part of the server's memory: the caller's, once that is known.
    memory: Mutex<Reservation>,
    budget: Budget,
    shares: Budget,
    most: usize,
}

/// A connection's place; leaving it, in whatever way, frees it.
#[derive(Debug)]
pub struct ConnectionPlace {
    number: u64,
    connection: Arc<Connection>,
    connections: Arc<Connections>,
}

impl Connections {
    /// None yet, and at most so many, of a server with this budget of memory.
    pub fn new(most: usize, memory: &Budget) -> Arc<Self> {
        Arc::new(Self {
            most,
            memory: memory.own_account(),
            budget: memory.clone(),
            shares: Budget::new(most),
            opened: Instant::now(),
            open: Mutex::default(),
            closed: Notify::new(),
        })
    }

    /// A place for one more, if need be that of an idle one, which is closed.
    ///
    /// # Errors
    /// All places are taken, or all memory, and no connection is idle.
    pub fn enter(self: &Arc<Self>) -> Result<ConnectionPlace, RpcError> {
        let mut open = self.lock();
        let memory = loop {
            let refusal = match self.room_beside(open.all.len()) {
                Ok(memory) => break memory,
                Err(refusal) => refusal,
            };
            let victim = open.idle_longest().ok_or(refusal)?;
            let victim = open.all.remove(&victim);
            if let Some(abort) = victim.and_then(|victim| victim.abort) {
                abort.abort();
            }
        };
        let connection = Arc::new(Connection {
            busy: AtomicBool::new(false),
            reading: AtomicBool::new(false),
            subscribed: AtomicBool::new(false),
            known: AtomicBool::new(false),
            used: AtomicU64::new(millis(self.opened)),
            opened: self.opened,
            owner: OnceLock::new(),
            memory: Mutex::new(memory),
            budget: self.budget.clone(),
            shares: self.shares.clone(),
            most: self.most,
        });
        let number = open.next;
        open.next += 1;
        let taken = Taken {
            connection: Arc::clone(&connection),
            abort: None,
        };
        open.all.insert(number, taken);
        Ok(ConnectionPlace {
            number,
            connection,
            connections: Arc::clone(self),
        })
    }

    /// The memory of one connection more than so many.
    fn room_beside(&self, open: usize) -> Result<Reservation, RpcError> {
        let most = self.most;
        if open >= most {
            let words = format!("{most} connections are open, and no more are taken");
            return Err(try_later(words, "connections", most));
        }
        if open < ALWAYS {
            return Ok(self.memory.take(CONNECTION_BYTES));
        }
        Ok(self.memory.try_reserve(CONNECTION_BYTES)?)
    }

    /// Is none open?
    pub fn is_empty(&self) -> bool {
        self.lock().all.is_empty()
    }

    /// Waits until one has closed since this was last waited for.
    pub async fn one_closed(&self) {
        self.closed.notified().await;
    }

    /// How to end a connection that has a place. It may have left it already.
    pub fn abort_with(&self, number: u64, abort: AbortHandle) {
        if let Some(taken) = self.lock().all.get_mut(&number) {
            taken.abort = Some(abort);
        }
    }

    /// Waits until all are closed.
    pub async fn all_closed(&self) {
        loop {
            let closed = self.closed.notified();
            if self.is_empty() {
                return;
            }
            closed.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    /// Of the idle connections the one to close: unknown ones first, then the one that was idle longest.
    fn idle_longest(&self) -> Option<u64> {
        let idle = self
            .all
            .iter()
            .filter(|(_, taken)| taken.connection.is_idle() && taken.abort.is_some());
        let order = |(number, taken): &(&u64, &Taken)| {
            let known = taken.connection.known.load(Ordering::Relaxed);
            let used = taken.connection.used.load(Ordering::Relaxed);
            (known, used, **number)
        };
        idle.min_by_key(order).map(|(number, _)| *number)
    }
}

impl Connection {
    /// A request of it is answered from now on.
    pub fn begin(&self) {
        self.busy.store(true, Ordering::Relaxed);
        self.used.store(millis(self.opened), Ordering::Relaxed);
    }

    /// The request was let in or not, and its answer is on its way.
    pub fn end(&self, let_in: bool) {
        if let_in {
            self.known.store(true, Ordering::Relaxed);
        }
        self.used.store(millis(self.opened), Ordering::Relaxed);
        self.busy.store(false, Ordering::Relaxed);
    }

    /// The stream that answers a request is open for longer.
    pub fn stays_busy(self: Arc<Self>) -> Busy {
        self.busy.store(true, Ordering::Relaxed);
        Busy(self)
    }

    /// A whole message came, of somebody who was let in.
    pub fn said_something(&self) {
        self.known.store(true, Ordering::Relaxed);
        self.used.store(millis(self.opened), Ordering::Relaxed);
    }

    /// Has it a subscription now? It is not idle while it has.
    pub fn set_subscribed(&self, subscribed: bool) {
        self.subscribed.store(subscribed, Ordering::Relaxed);
    }

    /// Is the body of a request waited for now?
    pub fn set_reading(&self, reading: bool) {
        if reading != self.reading.load(Ordering::Relaxed) {
            self.reading.store(reading, Ordering::Relaxed);
        }
    }

    /// Whose it is. A caller that has its share of the places or of memory already is refused.
    ///
    /// # Errors
    /// A share is used up.
    pub fn claim(&self, principal: &str) -> Result<(), RpcError> {
        let claimed = self.owner.get_or_init(|| {
            let places = self.shares.account(principal);
            expect_share("connections", places.used(), self.shares.used(), self.most)?;
            let account = self.budget.account(principal);
            let memory = account.take_if_modest(CONNECTION_BYTES)?;
            *self.memory.lock().unwrap_or_else(PoisonError::into_inner) = memory;
            Ok(places.take(1))
        });
        claimed.as_ref().map(drop).map_err(RpcError::clone)
    }

    fn is_idle(&self) -> bool {
        let busy = self.busy.load(Ordering::Relaxed) || self.subscribed.load(Ordering::Relaxed);
        !busy || self.reading.load(Ordering::Relaxed)
    }
}

/// A stream that keeps its connection busy, until it is dropped.
#[derive(Debug)]
pub struct Busy(Arc<Connection>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.end(true);
    }
}

impl ConnectionPlace {
    /// What [`Connections::abort_with`] knows it by.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The connection that has it.
    pub fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        self.connections.lock().all.remove(&self.number);
        self.connections.closed.notify_one();
    }
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_with_many_connections_leave_room_for_another() {
        let budget = Budget::of_memory(16 << 20);
        let connections = Connections::new(1000, &budget);
        let mut held = Vec::new();
        // Four callers take all that they get, each of their connections with a call that waits.
        loop {
            let before = held.len();
            for caller in ["a", "b", "c", "d"] {
                let Ok(place) = connections.enter() else {
                    continue;
                };
                let call = budget.account(caller).try_reserve(64 << 10);
                if let (Ok(()), Ok(call)) = (place.connection().claim(caller), call) {
                    place.connection().begin();
                    held.push((place, call));
                }
            }
            if held.len() == before {
                break;
            }
        }
        assert!(held.len() > ALWAYS, "{}", held.len());
        let place = connections.enter().expect("a fifth caller can connect");
        place.connection().claim("e").expect("it is let in");
        budget
            .account("e")
            .try_reserve(64 << 10)
            .expect("it can call");
    }
}
