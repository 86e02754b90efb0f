//! The sessions of older revisions, of which hardly anything is kept.
//!
//! A session is its id, which the client carries. Here stands only what goes on now: running calls, streams that a
//! client may come back to, what it wished for. Whatever has nothing going on has no entry.

mod table;

use std::{
    hash::{BuildHasher as _, Hasher as _, RandomState},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use lmcp_core::{
    Budget, CALL_BYTES, Caller, Deadlines, Endpoint, HeaderValue, Limits, Message, Messages,
    Reservation, Session, Tasks, expect_share,
    session::{Agreement, SessionId, SessionKey, SessionState, SessionStore},
};
use lmcp_wire::{RequestId, RpcError, header};
use serde_json::value::RawValue;
use tokio::{task::AbortHandle, time::Instant};

use table::{Call, Over, Table, check};

use crate::stream::{Kept, Reader, Stream};

/// All sessions of one server.
pub(crate) struct Sessions {
    key: SessionKey,
    limits: Limits,
    server: Endpoint,
    /// Places for calls that run, shared between callers.
    places: Budget,
    table: Mutex<Table>,
    next_stream: AtomicU64,
    /// The calls that run. They belong to nobody's connection.
    tasks: Tasks,
    /// When the answers to those become streams of events.
    pub(crate) patience: Deadlines,
}

/// A session that a request belongs to.
#[derive(Clone)]
pub(crate) struct Held {
    pub(crate) id: SessionId,
    agreement: Agreement,
}

/// Who sent a request, in a revision that has sessions.
#[derive(Clone)]
pub(crate) enum Member {
    /// Of a session.
    Of(Held),
    /// Of none.
    Alone(Session),
}

/// Why a request is not taken.
pub(crate) enum Stranger {
    /// The session is not known: the client must make a new one.
    Unknown,
    /// The revision is not known.
    Version(RpcError),
    /// The session cannot be read.
    Malformed,
}

impl Sessions {
    pub(crate) fn new(server: &Endpoint) -> Arc<Self> {
        let places = Budget::new(server.limits().session_calls);
        Self::make(server, server.session_key().clone(), places)
    }

    /// Those of another service at a path of its own: what is opened there is unknown here, and the other way round.
    pub(crate) fn beside(&self, server: &Endpoint, path: &str) -> Arc<Self> {
        let key = server.session_key().for_purpose(&format!("path {path}"));
        Self::make(server, key, self.places.clone())
    }

    fn make(server: &Endpoint, key: SessionKey, places: Budget) -> Arc<Self> {
        // Begins anywhere, so that a stream of an earlier life is not taken for one of this.
        let start = RandomState::new().build_hasher().finish() >> 24;
        Arc::new(Self {
            key,
            limits: server.limits().clone(),
            places,
            table: Mutex::new(Table::new(server.budget())),
            server: server.clone(),
            next_stream: AtomicU64::new(start),
            tasks: Tasks::default(),
            patience: Deadlines::default(),
        })
    }

    /// A new session: nothing of it is kept.
    pub(crate) fn open(&self, agreement: Agreement, caller: &Caller) -> (Held, String) {
        let (id, text) = self.key.issue(&agreement, caller);
        (Held { id, agreement }, text)
    }

    /// Who sent a request, by its headers. `None`: it claims a revision in which every request stands alone.
    pub(crate) fn member(&self, caller: &Caller) -> Result<Option<Member>, Stranger> {
        let version = caller.header(header::PROTOCOL_VERSION);
        let text = match caller.header_value(header::SESSION_ID) {
            HeaderValue::Text(text) => text,
            HeaderValue::Absent => {
                let alone = Session::absent(version).map_err(Stranger::Version)?;
                return Ok(alone.map(Member::Alone));
            }
            _ => return Err(Stranger::Malformed),
        };
        if !Session::may_be_meant(version).map_err(Stranger::Version)? {
            return Ok(None);
        }
        let (id, agreement) = self.key.open(text, caller).ok_or(Stranger::Unknown)?;
        let mut table = self.lock();
        if table.ended.known.contains(&id) {
            return Err(Stranger::Unknown);
        }
        if let Some(entry) = table.entries.get_mut(&id) {
            entry.used = Instant::now();
        }
        Ok(Some(Member::Of(Held { id, agreement })))
    }

    /// The session as the engine sees it.
    pub(crate) fn session(self: &Arc<Self>, held: &Held, can_ask: bool) -> Session {
        let mut agreement = held.agreement.clone();
        if !can_ask {
            agreement = agreement.without_questions();
        }
        let keeper: Weak<Self> = Arc::downgrade(self);
        Session::kept(agreement, held.id, keeper)
    }

    /// A place for a call that did not end in its first turn.
    pub(crate) fn find_place(
        &self,
        session: &SessionId,
        id: &RequestId,
        caller: &Caller,
        others: usize,
    ) -> Result<Room, RpcError> {
        let (mut table, limits) = (self.lock(), &self.limits);
        match table.entries.get(session) {
            Some(entry) => {
                entry.expect_free(id)?;
                let own = entry.running() + others;
                check(own, 1, "requests_in_flight", limits.requests_in_flight)?;
            }
            None => table.make_room(limits)?,
        }
        drop(table);
        let owner = caller.payer();
        // Calls that wait for an answer do not run.
        let (my_waiting, all_waiting) = self.server.waiting_questions(&owner);
        let places = self.places.account(&owner);
        let mine = places.used().saturating_sub(my_waiting);
        let all = self.places.used().saturating_sub(all_waiting);
        expect_share("session_calls", mine, all, limits.session_calls)?;
        Ok(Room {
            _place: places.take(1),
            _counted: self
                .server
                .budget()
                .account(&owner)
                .try_reserve(CALL_BYTES)?,
        })
    }

    /// Is there no request in flight of this id?
    pub(crate) fn expect_free(&self, session: &SessionId, id: &RequestId) -> Result<(), RpcError> {
        let table = self.lock();
        table
            .entries
            .get(session)
            .map_or(Ok(()), |entry| entry.expect_free(id))
    }

    /// Lets calls run on, whether anybody waits for them or not. What they say is on one stream.
    pub(crate) fn run(
        self: &Arc<Self>,
        session: SessionId,
        priming: bool,
        events: bool,
        calls: Vec<Started>,
    ) -> Result<Reader, RpcError> {
        let number = self.next_stream.fetch_add(1, Ordering::Relaxed);
        let kept = if events {
            Kept::Events(self.limits.replay_bytes)
        } else {
            Kept::Responses
        };
        let ids = calls.iter().map(|call| &call.id);
        let stream = Stream::answer(number, ids, priming, kept);
        // Before anything is said, so that nothing of it is dropped.
        let reader = Reader::open(&stream);
        let running = Arc::new(SharedStream {
            sessions: Arc::downgrade(self),
            session,
            stream: Arc::clone(&stream),
        });
        self.register(session, &stream, &calls)?;
        for started in calls {
            let Started {
                id,
                replies,
                room,
                answer_room,
            } = started;
            let place = CallPlace {
                id: id.clone(),
                running: Arc::clone(&running),
                _room: room,
            };
            // Not under the lock: a runtime that is closing drops the work here and now, and its place with it.
            let abort = self.tasks.spawn(drive(replies, place, answer_room));
            let mut table = self.lock();
            let call = table
                .entries
                .get_mut(&session)
                .and_then(|entry| entry.calls.get_mut(&id))
                .filter(|call| call.stream == number);
            match call {
                Some(call) => call.abort = Some(abort),
                // Cancelled or ended meanwhile, or done.
                None => abort.abort(),
            }
        }
        Ok(reader)
    }

    fn register(
        &self,
        session: SessionId,
        stream: &Arc<Stream>,
        calls: &[Started],
    ) -> Result<(), RpcError> {
        let mut table = self.lock();
        let entry = table.entry(&session, &self.limits)?;
        entry.streams.insert(stream.number, Arc::clone(stream));
        for Started { id, .. } in calls {
            let call = Call {
                stream: stream.number,
                abort: None,
            };
            // Of two of one id at the same moment the later one counts.
            entry.calls.insert(id.clone(), call);
        }
        Ok(())
    }

    /// Hands a client's answer to the call that asked.
    pub(crate) fn answer(
        &self,
        session: &SessionId,
        id: Option<&RequestId>,
        outcome: Result<&RawValue, RpcError>,
    ) {
        if let Some(live) = self.find(session) {
            live.answer(id, outcome);
        }
    }

    /// The client works in other folders now.
    pub(crate) fn forget_folders(&self, session: &SessionId) {
        if let Some(live) = self.find(session) {
            live.forget_folders();
        }
    }

    /// Stops a call of a session. It gets no answer, and what it asked is taken back.
    pub(crate) fn cancel(&self, session: &SessionId, request: &RequestId) {
        let mut table = self.lock();
        let Some(entry) = table.entries.get_mut(session) else {
            return;
        };
        let Some(call) = entry.calls.remove(request) else {
            return;
        };
        let told = entry.live.take_back(request);
        let stream = entry.streams.get(&call.stream).cloned();
        drop(table);
        if let Some(abort) = call.abort {
            abort.abort();
        }
        if let Some(stream) = stream {
            let told = told.into_iter().map(Message::taken_back);
            told.for_each(|told| stream.push_now(told));
        }
    }

    /// Ends the streams of all sessions; what they wait for, others may still get.
    pub(crate) fn close_streams(&self) {
        let table = self.lock();
        let standing = table
            .entries
            .values()
            .filter_map(|entry| entry.standing.as_ref());
        standing.for_each(|stream| stream.end());
    }

    /// Forgets a stream that was answered without events: nobody can come back to it.
    pub(crate) fn forget(&self, session: &SessionId, number: u64) {
        let mut table = self.lock();
        if let Some(entry) = table.entries.get_mut(session) {
            entry.streams.remove(&number);
        }
        table.tidy(session);
        // It ended a moment ago, so it is among the last.
        if let Some(place) = table.over.iter().rposition(|over| over.stream == number) {
            table.forget_over(place);
        }
    }

    /// A stream of its own for a session, in place of the one it had.
    pub(crate) fn stand(
        &self,
        session: &SessionId,
        priming: bool,
    ) -> Result<Arc<Stream>, RpcError> {
        let number = self.next_stream.fetch_add(1, Ordering::Relaxed);
        let stream = Stream::standing(number, priming, self.limits.replay_bytes);
        let mut table = self.lock();
        let entry = table.entry(session, &self.limits)?;
        entry.used = Instant::now();
        if let Some(before) = entry.standing.replace(Arc::clone(&stream)) {
            before.end();
        }
        Ok(stream)
    }

    /// Nobody reads the stream of a session any more. Where nothing was said on it that a client could come back for, it is
    /// forgotten, and the session with it if nothing else goes on there.
    pub(crate) fn leave(&self, session: &SessionId, number: u64) {
        let mut table = self.lock();
        let Some(entry) = table.entries.get_mut(session) else {
            return;
        };
        let over = |stream: &Arc<Stream>| stream.number == number && stream.is_blank();
        if entry.standing.as_ref().is_some_and(over) {
            entry.standing = None;
            table.tidy(session);
        }
    }

    /// A stream that a client comes back to, and whether it is the session's own.
    pub(crate) fn find_stream(
        &self,
        session: &SessionId,
        number: u64,
    ) -> Option<(Arc<Stream>, bool)> {
        let mut table = self.lock();
        table.forget_old_streams(&self.limits);
        let entry = table.entries.get_mut(session)?;
        entry.used = Instant::now();
        let standing = entry.standing.as_ref();
        if let Some(standing) = standing.filter(|standing| standing.number == number) {
            return Some((Arc::clone(standing), true));
        }
        let stream = entry.streams.get(&number)?;
        Some((Arc::clone(stream), false))
    }

    /// Ends a session for good: what runs in it stops.
    pub(crate) fn end(&self, session: SessionId) {
        let mut table = self.lock();
        table.ended.add(session, self.limits.ended_sessions);
        let Some(entry) = table.entries.remove(&session) else {
            return;
        };
        drop(table);
        let aborts = entry.calls.values().filter_map(|call| call.abort.as_ref());
        aborts.for_each(AbortHandle::abort);
        let streams = entry.streams.into_values().chain(entry.standing);
        streams.for_each(|stream| stream.end());
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionStore for Sessions {
    fn find(&self, id: &SessionId) -> Option<Arc<SessionState>> {
        let table = self.lock();
        table.entries.get(id).map(|entry| Arc::clone(&entry.live))
    }

    fn make(&self, id: &SessionId) -> Result<Arc<SessionState>, RpcError> {
        let mut table = self.lock();
        let entry = table.entry(id, &self.limits)?;
        entry.used = Instant::now();
        Ok(Arc::clone(&entry.live))
    }
}

/// Says when nobody reads the stream of a session any more.
pub(crate) struct Leaving {
    pub(crate) sessions: Weak<Sessions>,
    pub(crate) session: SessionId,
    pub(crate) stream: u64,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        if let Some(sessions) = self.sessions.upgrade() {
            sessions.leave(&self.session, self.stream);
        }
    }
}

/// A call that has not been done at once.
pub(crate) struct Started {
    pub(crate) id: RequestId,
    pub(crate) replies: Messages,
    /// Absent where it is answered already.
    pub(crate) room: Option<Room>,
    /// Of a batch: memory for its answer, which may wait for the others.
    pub(crate) answer_room: Option<Reservation>,
}

/// The place of a call that runs, and the memory it takes besides its message; given back when it ends.
pub(crate) struct Room {
    _place: Reservation,
    _counted: Reservation,
}

/// Runs a call to its end. What it says goes onto its stream, as fast as that is read; when its time is over, nothing is
/// waited for.
async fn drive(mut replies: Messages, place: CallPlace, mut answer_room: Option<Reservation>) {
    let stream = &place.running.stream;
    let mut late = false;
    while let Some(mut reply) = replies.next().await {
        if reply.is_response()
            && let Some(counted) = answer_room.take()
        {
            reply = reply.held(counted);
        }
        if !late {
            tokio::select! {
                biased;
                () = stream.room() => {}
                () = replies.expired() => late = true,
            }
        }
        stream.push(reply);
        // A handler that never stops talking must not take everybody's turn.
        tokio::task::consume_budget().await;
    }
}

/// Several calls that share a stream: it ends with the last of them.
struct SharedStream {
    sessions: Weak<Sessions>,
    session: SessionId,
    stream: Arc<Stream>,
}

/// The place of one call; leaving it, in whatever way, frees it.
struct CallPlace {
    id: RequestId,
    running: Arc<SharedStream>,
    _room: Option<Room>,
}

impl Drop for CallPlace {
    fn drop(&mut self) {
        let Some(sessions) = self.running.sessions.upgrade() else {
            return;
        };
        let mut table = sessions.lock();
        let Some(entry) = table.entries.get_mut(&self.running.session) else {
            return;
        };
        let mine = |call: &Call| call.stream == self.running.stream.number;
        if entry.calls.get(&self.id).is_some_and(mine) {
            entry.calls.remove(&self.id);
        }
    }
}

impl Drop for SharedStream {
    fn drop(&mut self) {
        self.stream.end();
        let bytes = self.stream.bytes();
        let Some(sessions) = self.sessions.upgrade() else {
            return;
        };
        let mut table = sessions.lock();
        let Some(entry) = table.entries.get_mut(&self.session) else {
            return;
        };
        entry.used = Instant::now();
        if !self.stream.is_known() {
            entry.streams.remove(&self.stream.number);
        }
        if !entry.streams.contains_key(&self.stream.number) {
            return table.tidy(&self.session);
        }
        table.over.push_back(Over {
            since: Instant::now(),
            session: self.session,
            stream: self.stream.number,
            bytes,
        });
        table.over_bytes += bytes;
        table.bound_streams(&self.session, &sessions.limits);
    }
}
