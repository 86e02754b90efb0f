//! The open connections of a listener: their greatest number, and the choice of the one to close when all places are taken.
//!
//! A connection is idle while it answers no request and has no subscription. It also counts as idle while the body of a request
//! is awaited, so a client that sends a byte now and then does not keep its place. When all places are taken, the connection
//! that has been idle longest is closed; connections that never had a request admitted are closed first. Callers with a name
//! have a share of the places. Buffers of connections count against the server's budget of memory: if memory is short, there
//! are fewer places. The buffers of a caller with a name count as memory of that caller, so its many connections take no room
//! from others.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Instant,
};

use lmcp_wire::RpcError;
use tokio::{
    sync::Notify,
    task::{AbortHandle, yield_now},
};

use crate::{
    budget::{Account, Budget, Reservation, expect_share, try_later},
    turns::Turn,
};

/// The memory that one connection occupies besides its requests: buffers and tasks. Measured, and rounded up: 27 KiB over
/// HTTP, 33 KiB on a unix socket.
pub(crate) const CONNECTION_BYTES: usize = 32 << 10;

/// The connections that are chosen at once to make room.
const VICTIMS_AT_ONCE: usize = 64;

/// The number of connections that are admitted however short memory is: otherwise other callers could not call at all.
const ALWAYS: usize = 64;

/// Connections that a listener accepts until those that it accepted before had their turns. 256: the listener keeps up with a flood,
/// and of the connections that make room for others, few keep their files open for longer.
const ACCEPTED_AT_ONCE: usize = 256;

/// All connections of a listener.
#[derive(Debug)]
pub struct Connections {
    most: usize,
    /// The memory of connections that belong to no caller yet.
    memory: Account,
    budget: Budget,
    /// Places of callers that are known by name.
    shares: Budget,
    opened: Instant,
    open: Mutex<Open>,
    /// The connections that were accepted so far.
    accepted: AtomicUsize,
    /// Notified when a connection has closed.
    closed: Notify,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    all: HashMap<u64, Taken>,
    /// The connections that make room next, and when they were used last: a flood would otherwise look through all for each.
    next_victims: VecDeque<(u64, u64)>,
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
    /// A request of the connection is being answered.
    busy: AtomicBool,
    /// The body of a request is awaited.
    reading: AtomicBool,
    /// The client has a subscription.
    subscribed: AtomicBool,
    /// A request of the connection was admitted.
    known: AtomicBool,
    /// The time when it last began or ended a request, in milliseconds since the listener was opened.
    used: AtomicU64,
    opened: Instant,
    /// Whose it is, once a caller has said its name.
    payer: OnceLock<Result<Reservation, RpcError>>,
    /// Its part of the server's memory: the caller's, once that is known.
    memory: Mutex<Reservation>,
    budget: Budget,
    shares: Budget,
    most: usize,
}

/// The place of a connection. Dropping it frees the place.
#[derive(Debug)]
pub struct ConnectionPlace {
    number: u64,
    connection: Arc<Connection>,
    connections: Arc<Connections>,
}

impl Connections {
    /// Makes an empty set for at most this many connections of a server with this budget of memory.
    pub fn new(most: usize, memory: &Budget) -> Arc<Self> {
        Arc::new(Self {
            most,
            memory: memory.own_account(),
            budget: memory.clone(),
            shares: Budget::new(most),
            opened: Instant::now(),
            open: Mutex::default(),
            accepted: AtomicUsize::new(0),
            closed: Notify::new(),
        })
    }

    /// Takes a place for a new connection. If there is none, closes an idle connection.
    ///
    /// # Errors
    /// All places or all memory are taken, and no connection is idle.
    pub fn enter(self: &Arc<Self>) -> Result<ConnectionPlace, RpcError> {
        let mut open = self.lock();
        let memory = loop {
            let refusal = match self.room_beside(open.all.len()) {
                Ok(memory) => break memory,
                Err(refusal) => refusal,
            };
            let victim = open.idle_longest().ok_or(refusal)?;
            if let Some(victim) = open.all.remove(&victim) {
                victim.close();
            }
        };
        let connection = Arc::new(Connection {
            busy: AtomicBool::new(false),
            reading: AtomicBool::new(false),
            subscribed: AtomicBool::new(false),
            known: AtomicBool::new(false),
            used: AtomicU64::new(millis(self.opened)),
            opened: self.opened,
            payer: OnceLock::new(),
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

    /// Reserves the memory of one more connection beside `open` others.
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

    /// Keeps the pace at which connections are accepted: after some of them, waits until those that were accepted before had their
    /// turns. Otherwise connections that were closed to make room would keep their files open, and with a wait after each
    /// connection the next caller would wait behind everything that is ready.
    pub async fn keep_pace(&self) {
        let accepted = self.accepted.fetch_add(1, Ordering::Relaxed) + 1;
        if accepted.is_multiple_of(ACCEPTED_AT_ONCE) {
            yield_now().await;
        }
    }

    /// The turns of a process that connects, until the caller behind it is known. They last for as long as somebody holds them.
    pub(crate) fn turns_of(&self, process: Option<i32>) -> Account {
        // No caller has such a name.
        self.shares.account(&format!("\0{}", process.unwrap_or(0)))
    }

    /// Whether no connection is open.
    pub fn is_empty(&self) -> bool {
        self.lock().all.is_empty()
    }

    /// Waits until a connection has closed since the last call.
    pub async fn one_closed(&self) {
        self.closed.notified().await;
    }

    /// Sets how to end a connection that has a place. The connection may have ended already.
    pub fn abort_with(&self, number: u64, abort: AbortHandle) {
        if let Some(taken) = self.lock().all.get_mut(&number) {
            taken.abort = Some(abort);
        }
    }

    /// Waits until all connections are closed.
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
    /// Chooses the idle connection to close: those without an admitted request first, then the one that was idle longest.
    fn idle_longest(&mut self) -> Option<u64> {
        while let Some((number, used)) = self.next_victims.pop_front() {
            let still = self.all.get(&number).and_then(Taken::idle_since);
            if still == Some((false, used)) {
                return Some(number);
            }
        }
        let mut idle: Vec<_> = self
            .all
            .iter()
            .filter_map(|(number, taken)| Some((taken.idle_since()?, *number)))
            .collect();
        if idle.len() > VICTIMS_AT_ONCE {
            idle.select_nth_unstable(VICTIMS_AT_ONCE);
            idle.truncate(VICTIMS_AT_ONCE);
        }
        idle.sort_unstable();
        let mut idle = idle.into_iter();
        let ((_, _), first) = idle.next()?;
        // Connections of admitted callers are not planned ahead: one that was never admitted may come meanwhile, and makes room first.
        let strangers = idle.take_while(|((known, _), _)| !known);
        self.next_victims
            .extend(strangers.map(|((_, used), number)| (number, used)));
        Some(first)
    }
}

impl Taken {
    /// Whether a request of the connection was ever admitted, and when it was used last. `None`: it is not idle, or cannot be closed.
    fn idle_since(&self) -> Option<(bool, u64)> {
        let connection = &self.connection;
        let known = connection.known.load(Ordering::Relaxed);
        let used = connection.used.load(Ordering::Relaxed);
        (connection.is_idle() && self.abort.is_some()).then_some((known, used))
    }

    /// Closes the connection. Its memory is given back now, so that no other has to be closed for it: its task ends a little later.
    fn close(self) {
        self.connection.memory().shrink_to(0);
        if let Some(abort) = self.abort {
            abort.abort();
        }
    }
}

impl Connection {
    /// Notes that a request of the connection is being answered.
    pub fn begin(&self) {
        self.busy.store(true, Ordering::Relaxed);
        self.used.store(millis(self.opened), Ordering::Relaxed);
    }

    /// Notes that the answer to a request is on its way. `let_in`: the request was admitted.
    pub fn end(&self, let_in: bool) {
        if let_in {
            self.known.store(true, Ordering::Relaxed);
        }
        self.used.store(millis(self.opened), Ordering::Relaxed);
        self.busy.store(false, Ordering::Relaxed);
    }

    /// Keeps the connection busy for as long as the stream of an answer is open.
    pub fn stays_busy(self: Arc<Self>) -> Busy {
        self.busy.store(true, Ordering::Relaxed);
        Busy(self)
    }

    /// Notes that a whole message came from an admitted caller.
    pub fn said_something(&self) {
        self.known.store(true, Ordering::Relaxed);
        self.used.store(millis(self.opened), Ordering::Relaxed);
    }

    /// Sets whether the client has a subscription. The connection is not idle while it has one.
    pub fn set_subscribed(&self, subscribed: bool) {
        self.subscribed.store(subscribed, Ordering::Relaxed);
    }

    /// Sets whether the body of a request is awaited.
    pub fn set_reading(&self, reading: bool) {
        if reading != self.reading.load(Ordering::Relaxed) {
            self.reading.store(reading, Ordering::Relaxed);
        }
    }

    /// Counts the connection for the caller of this name. Refuses a caller that already has its share of places or of memory.
    ///
    /// # Errors
    /// A share is used up.
    pub fn claim(&self, payer: &str) -> Result<(), RpcError> {
        let claimed = self.payer.get_or_init(|| {
            let places = self.shares.account(payer);
            expect_share("connections", places.used(), self.shares.used(), self.most)?;
            self.memory().pass_to(&self.budget.account(payer))?;
            Ok(places.take(1))
        });
        claimed.as_ref().map(drop).map_err(RpcError::clone)
    }

    /// Whether the caller has used the thread for so long that others get their turns first. A caller without a name has no turns.
    pub fn is_out_of_turn(&self) -> bool {
        self.turn().is_some_and(|turn| !turn.has_time())
    }

    /// Waits for the next turn of the caller.
    pub async fn next_turn(&self) {
        if let Some(turn) = self.turn() {
            turn.come().await;
        }
    }

    /// Runs a step of a request, and counts its time as that of the caller.
    pub fn in_turn<T>(&self, step: impl FnOnce() -> T) -> T {
        match self.turn() {
            Some(turn) => turn.take(step),
            None => step(),
        }
    }

    fn turn(&self) -> Option<&Turn> {
        let share = self.payer.get()?.as_ref().ok()?;
        Some(share.account().turn())
    }

    fn memory(&self) -> MutexGuard<'_, Reservation> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
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
    /// The number for [`Connections::abort_with`].
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The connection in this place.
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
    use crate::spawn::Tasks;

    #[test]
    fn callers_with_many_connections_leave_room_for_another() {
        let budget = Budget::of_memory(16 << 20);
        let connections = Connections::new(1000, &budget);
        let mut held = Vec::new();
        // Four callers take all connections that they get, each with a call that waits.
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

    #[tokio::test]
    async fn where_memory_is_short_a_new_connection_takes_the_place_of_one() {
        let budget = Budget::of_memory(16 << 20);
        let connections = Connections::new(1000, &budget);
        let (tasks, mut before, mut replaced) = (Tasks::default(), 0, 0);
        for _ in 0..1000 {
            let place = connections.enter().expect("others are idle");
            let number = place.number();
            let task = tasks.spawn(async move {
                let _place = place;
                std::future::pending::<()>().await;
            });
            connections.abort_with(number, task);
            let open = connections.lock().all.len();
            assert!(open >= before, "{before} were open, and now {open}");
            replaced += usize::from(open == before);
            before = open;
        }
        assert!(replaced > 0, "{before} are open");
    }
}
