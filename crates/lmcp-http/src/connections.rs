//! The open connections of a port: how many there may be, and who makes room when all places are taken.
//!
//! A connection is idle while no request of it is being answered, and while a body is waited for: somebody who sends a
//! byte now and then is idle, too. When all places are taken, the idle connection makes room that has been so longest;
//! first one that has not yet said anything that was let in. Callers that are known by name have a share of the places.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Instant,
};

use http_body::{Body, Frame, SizeHint};
use lmcp_core::{Account, Budget, Reservation, expect_share};
use lmcp_wire::RpcError;
use tokio::{sync::Notify, task::AbortHandle};

/// All connections of a port.
pub(crate) struct Connections {
    most: usize,
    /// Places of callers that are known by name.
    shares: Budget,
    /// The memory of the connections themselves.
    account: Account,
    opened: Instant,
    open: Mutex<Open>,
    /// One has closed.
    closed: Notify,
}

#[derive(Default)]
struct Open {
    next: u64,
    all: HashMap<u64, (Arc<Connection>, Option<AbortHandle>)>,
}

/// The memory that a connection takes: its task, its buffers.
const CONNECTION_BYTES: usize = 16 << 10;

/// One connection.
pub(crate) struct Connection {
    /// Requests of it are being answered.
    busy: AtomicBool,
    /// A body is waited for.
    reading: AtomicBool,
    /// A request of it was let in.
    known: AtomicBool,
    /// When it last began or ended a request: milliseconds since the port was opened.
    used: AtomicU64,
    opened: Instant,
    /// Whose it is, once a caller has said its name.
    owner: OnceLock<Result<Reservation, RpcError>>,
    shares: Budget,
    most: usize,
    _counted: Reservation,
}

/// A connection's place; leaving it, in whatever way, frees it.
pub(crate) struct Place {
    number: u64,
    connection: Arc<Connection>,
    connections: Arc<Connections>,
}

impl Connections {
    pub(crate) fn new(most: usize, budget: &Budget) -> Arc<Self> {
        Arc::new(Self {
            most,
            shares: Budget::new(most),
            account: budget.account("connections"),
            opened: Instant::now(),
            open: Mutex::default(),
            closed: Notify::new(),
        })
    }

    /// A place for one more, if need be that of an idle one. `None`: none is idle.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<Place> {
        let mut open = self.lock();
        while open.all.len() >= self.most {
            let victim = open.idle_longest()?;
            if let Some((_, Some(abort))) = open.all.remove(&victim) {
                abort.abort();
            }
        }
        let connection = Arc::new(Connection {
            busy: AtomicBool::new(false),
            reading: AtomicBool::new(false),
            known: AtomicBool::new(false),
            used: AtomicU64::new(millis(self.opened)),
            opened: self.opened,
            owner: OnceLock::new(),
            shares: self.shares.clone(),
            most: self.most,
            _counted: self.account.take(CONNECTION_BYTES),
        });
        let number = open.next;
        open.next += 1;
        open.all.insert(number, (Arc::clone(&connection), None));
        Some(Place {
            number,
            connection,
            connections: Arc::clone(self),
        })
    }

    /// How many there may be.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// How to end a connection that has a place. It may have left it already.
    pub(crate) fn abort_with(&self, number: u64, abort: AbortHandle) {
        if let Some((_, known)) = self.lock().all.get_mut(&number) {
            *known = Some(abort);
        }
    }

    /// Waits until all are closed.
    pub(crate) async fn all_closed(&self) {
        loop {
            let closed = self.closed.notified();
            if self.lock().all.is_empty() {
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
            .filter(|(_, (connection, abort))| connection.is_idle() && abort.is_some());
        let order = |(number, (connection, _)): &(&u64, &(Arc<Connection>, _))| {
            let known = connection.known.load(Ordering::Relaxed);
            (known, connection.used.load(Ordering::Relaxed), **number)
        };
        idle.min_by_key(order).map(|(number, _)| *number)
    }
}

impl Connection {
    /// A request of it is answered from now on.
    pub(crate) fn begin(&self) {
        self.busy.store(true, Ordering::Relaxed);
        self.used.store(millis(self.opened), Ordering::Relaxed);
    }

    /// The request was let in or not, and its answer is on its way.
    pub(crate) fn end(&self, let_in: bool) {
        if let_in {
            self.known.store(true, Ordering::Relaxed);
        }
        self.used.store(millis(self.opened), Ordering::Relaxed);
        self.busy.store(false, Ordering::Relaxed);
    }

    /// The stream that answers a request is open for longer.
    pub(crate) fn stays_busy(self: Arc<Self>) -> Busy {
        self.busy.store(true, Ordering::Relaxed);
        Busy(self)
    }

    /// Whose it is. A caller that has its share of the places already is refused.
    pub(crate) fn claim(&self, principal: &str) -> Result<(), RpcError> {
        let claimed = self.owner.get_or_init(|| {
            let places = self.shares.account(principal);
            expect_share("connections", places.used(), self.shares.used(), self.most)?;
            Ok(places.take(1))
        });
        claimed.as_ref().map(drop).map_err(RpcError::clone)
    }

    fn is_idle(&self) -> bool {
        !self.busy.load(Ordering::Relaxed) || self.reading.load(Ordering::Relaxed)
    }
}

/// A stream that keeps its connection busy, until it is dropped.
pub(crate) struct Busy(Arc<Connection>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.end(true);
    }
}

impl Place {
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.lock().all.remove(&self.number);
        self.connections.closed.notify_one();
    }
}

/// A request's body, which says when it has to be waited for.
pub(crate) struct Watched<B> {
    pub(crate) body: B,
    pub(crate) connection: Arc<Connection>,
}

impl<B: Body + Unpin> Body for Watched<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        let waits = frame.is_pending();
        if waits != self.connection.reading.load(Ordering::Relaxed) {
            self.connection.reading.store(waits, Ordering::Relaxed);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> Drop for Watched<B> {
    fn drop(&mut self) {
        self.connection.reading.store(false, Ordering::Relaxed);
    }
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
