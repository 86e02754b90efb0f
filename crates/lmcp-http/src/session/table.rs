//! The table of the sessions that need an entry, and the rules that keep it small.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};

use lmcp_core::{
    Account, Budget, Limits, Reservation,
    session::{SessionId, SessionState},
    try_later,
};
use lmcp_wire::{RequestId, RpcError};
use tokio::{task::AbortHandle, time::Instant};

use crate::stream::Stream;

/// The entries of sessions, and the ended streams that clients may come back to.
pub(super) struct Table {
    pub(super) entries: HashMap<SessionId, Entry>,
    /// At this number of entries, entries that are not needed are removed.
    pub(super) crowded: usize,
    /// The memory of all entries.
    account: Account,
    /// Streams that have ended, and streams of sessions whose reader has left, oldest first.
    pub(super) over: VecDeque<Over>,
    pub(super) over_bytes: usize,
    pub(super) ended: Ended,
}

/// The present state of one session.
pub(super) struct Entry {
    pub(super) live: Arc<SessionState>,
    pub(super) calls: HashMap<RequestId, Call>,
    /// Streams that answer a POST.
    pub(super) streams: HashMap<u64, Arc<Stream>>,
    /// The stream that a GET opened.
    pub(super) standing: Option<Arc<Stream>>,
    pub(super) used: Instant,
    _counted: Reservation,
}

/// The memory that an entry takes.
const ENTRY_BYTES: usize = 2048;

pub(super) struct Call {
    pub(super) stream: u64,
    /// `None` for the moment before the call runs.
    pub(super) abort: Option<AbortHandle>,
}

/// A stream that its client may come back to for a while.
pub(super) struct Over {
    pub(super) since: Instant,
    /// The caller, by [`Caller::payer`](lmcp_core::Caller::payer).
    pub(super) payer: Box<str>,
    pub(super) session: SessionId,
    pub(super) stream: u64,
    pub(super) bytes: usize,
}

/// The sessions that clients ended last.
#[derive(Default)]
pub(super) struct Ended {
    pub(super) known: HashSet<SessionId>,
    pub(super) order: VecDeque<SessionId>,
}

impl Table {
    pub(super) fn new(budget: &Budget) -> Self {
        Self {
            entries: HashMap::new(),
            crowded: 0,
            account: budget.account("sessions"),
            over: VecDeque::new(),
            over_bytes: 0,
            ended: Ended::default(),
        }
    }

    /// Returns the entry of a session, and makes one if there is none. A session that has ended, perhaps during a first turn,
    /// gets no new entry.
    pub(super) fn entry(
        &mut self,
        id: &SessionId,
        limits: &Limits,
    ) -> Result<&mut Entry, RpcError> {
        if self.ended.known.contains(id) {
            return Err(RpcError::invalid_request("this session has ended"));
        }
        if !self.entries.contains_key(id) {
            let counted = self.find_room(limits)?;
            self.entries.insert(*id, Entry::new(counted));
        }
        let gone = || RpcError::internal("this session has ended");
        self.entries.get_mut(id).ok_or_else(gone)
    }

    /// The entry of a session for a call that has its place, with the memory that was reserved for it. The call has had its first turn, so it
    /// is not refused, whoever came meanwhile: past the limit there are as many entries as first turns at one time.
    pub(super) fn entry_of_call(
        &mut self,
        id: &SessionId,
        counted: Option<Reservation>,
    ) -> Result<&mut Entry, RpcError> {
        if self.ended.known.contains(id) {
            return Err(RpcError::invalid_request("this session has ended"));
        }
        let account = &self.account;
        Ok(self
            .entries
            .entry(*id)
            .or_insert_with(|| Entry::new(counted.unwrap_or_else(|| account.take(ENTRY_BYTES)))))
    }

    /// A place for one more entry, and its memory.
    pub(super) fn find_room(&mut self, limits: &Limits) -> Result<Reservation, RpcError> {
        self.make_room(limits)?;
        self.count_entry()
    }

    /// Memory for one more entry: idle ones make room for it.
    fn count_entry(&mut self) -> Result<Reservation, RpcError> {
        if let Ok(counted) = self.account.try_reserve(ENTRY_BYTES) {
            return Ok(counted);
        }
        self.forget_idle(self.entries.len() / 16 + 1);
        Ok(self.account.try_reserve(ENTRY_BYTES)?)
    }

    /// Removes an entry in which nothing goes on and nothing is remembered.
    pub(super) fn tidy(&mut self, session: &SessionId) {
        if self.entries.get(session).is_some_and(Entry::is_empty) {
            self.entries.remove(session);
        }
    }

    /// Forgets entries in which nothing goes on. Looks only when there are twice as many as the last time.
    fn make_room(&mut self, limits: &Limits) -> Result<(), RpcError> {
        self.forget_old_streams(limits);
        if self.entries.len() < self.crowded.max(64).min(limits.sessions.max(1)) {
            return Ok(());
        }
        let now = Instant::now();
        self.entries.retain(|_, entry| entry.is_needed(now, limits));
        if self.entries.len() >= limits.sessions {
            self.forget_idle(limits.sessions / 16 + 1);
        }
        self.crowded = 2 * self.entries.len();
        check(self.entries.len(), 1, "sessions", limits.sessions)
    }

    /// Removes the entries that have been idle longest, even if their clients have wishes.
    pub(super) fn forget_idle(&mut self, count: usize) {
        let idle = self.entries.iter().filter(|(_, entry)| entry.is_idle());
        let mut idle: Vec<_> = idle.map(|(id, entry)| (entry.used, *id)).collect();
        idle.sort_unstable();
        for (_, id) in idle.into_iter().take(count) {
            self.entries.remove(&id);
        }
    }

    pub(super) fn forget_old_streams(&mut self, limits: &Limits) {
        let now = Instant::now();
        while let Some(over) = self.over.front()
            && now.duration_since(over.since) > limits.replay_wait
        {
            self.forget_over(0);
        }
    }

    /// Keeps a stream that nobody reads for a client that may come back, within the bound on the memory of all such streams.
    pub(super) fn keep_for_return(&mut self, over: Over, limits: &Limits) {
        let session = over.session;
        self.over_bytes += over.bytes;
        self.over.push_back(over);
        self.forget_old_streams(limits);
        while self.over_bytes > limits.replay_total_bytes
            && let Some(place) = self.least_deserved(&session)
        {
            self.forget_over(place);
        }
    }

    /// Returns the place of the stream that makes room for others: the oldest of the caller that has most, so that it cannot push out
    /// those of others. If it is the caller of this session, the session loses its own streams first.
    fn least_deserved(&self, session: &SessionId) -> Option<usize> {
        let mut held: HashMap<&str, usize> = HashMap::new();
        for over in &self.over {
            *held.entry(&over.payer).or_default() += over.bytes;
        }
        let (most, _) = held.into_iter().max_by_key(|(_, bytes)| *bytes)?;
        let of_most = |over: &Over| *over.payer == *most;
        let mut all = self.over.iter();
        let own = all.position(|over| of_most(over) && over.session == *session);
        own.or_else(|| self.over.iter().position(of_most))
    }

    pub(super) fn forget_over(&mut self, place: usize) {
        let Some(over) = self.over.remove(place) else {
            return;
        };
        self.over_bytes -= over.bytes;
        if let Some(entry) = self.entries.get_mut(&over.session) {
            entry.streams.remove(&over.stream);
            let left =
                |stream: &mut Arc<Stream>| stream.number == over.stream && !stream.has_reader();
            entry.standing.take_if(left);
        }
        self.tidy(&over.session);
    }

    /// Notes that this stream need not wait for its client: the client has come back, or has another stream.
    pub(super) fn waits_no_more(&mut self, stream: u64) {
        let place = self.over.iter().rposition(|over| over.stream == stream);
        if let Some(over) = place.and_then(|place| self.over.remove(place)) {
            self.over_bytes -= over.bytes;
        }
    }
}

impl Entry {
    fn new(counted: Reservation) -> Self {
        Self {
            live: Arc::default(),
            calls: HashMap::new(),
            streams: HashMap::new(),
            standing: None,
            used: Instant::now(),
            _counted: counted,
        }
    }

    pub(super) fn expect_free(&self, id: &RequestId) -> Result<(), RpcError> {
        if !self.calls.contains_key(id) {
            return Ok(());
        }
        let words = format!("the id `{id}` belongs to a request in flight");
        Err(RpcError::invalid_request(words))
    }

    /// The number of running calls, without those that wait for the client's answer to a question.
    pub(super) fn running(&self) -> usize {
        self.calls.len().saturating_sub(self.live.waiting())
    }

    /// Whether nothing runs, nobody reads, and there is nothing to come back for.
    fn is_empty(&self) -> bool {
        self.calls.is_empty()
            && self.streams.is_empty()
            && self.standing.is_none()
            && !self.live.is_worth_keeping()
    }

    /// Whether nothing runs and nobody reads.
    pub(super) fn is_idle(&self) -> bool {
        let read = |stream: &Arc<Stream>| stream.has_reader();
        self.calls.is_empty() && !self.standing.iter().any(read)
    }

    pub(super) fn is_needed(&self, now: Instant, limits: &Limits) -> bool {
        let idle = now.duration_since(self.used);
        !self.is_idle()
            || !self.streams.is_empty()
            // The client may be about to send a request or to come back.
            || idle < limits.replay_wait
            || idle < limits.session_wait && self.live.is_worth_keeping()
    }
}

impl Ended {
    pub(super) fn add(&mut self, session: SessionId, most: usize) {
        if self.known.insert(session) {
            self.order.push_back(session);
        }
        while self.order.len() > most {
            if let Some(oldest) = self.order.pop_front() {
                self.known.remove(&oldest);
            }
        }
    }
}

/// Checks that there is room for this many more.
pub(super) fn check(there: usize, more: usize, limit: &str, most: usize) -> Result<(), RpcError> {
    if there.saturating_add(more) <= most {
        return Ok(());
    }
    let words = format!("the limit `{limit}` of {most} is reached; try again later");
    Err(try_later(words, limit, most))
}
