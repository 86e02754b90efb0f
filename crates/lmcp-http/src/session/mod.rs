//! The sessions of older revisions. The server keeps hardly anything of them.
//!
//! A session is its id, which the client carries. This module keeps only what a session needs now: running calls, streams that
//! a client may come back to, and the client's wishes. A session without any of these has no entry.

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
    /// The running calls. They belong to no connection.
    tasks: Tasks,
    /// The times at which the answers to these calls become streams of events.
    pub(crate) patience: Deadlines,
}

/// A session that a request belongs to.
#[derive(Clone)]
pub(crate) struct Held {
    pub(crate) id: SessionId,
    agreement: Agreement,
}

/// The sender of a request, in a revision that has sessions.
#[derive(Clone)]
pub(crate) enum Member {
    /// The client of a session.
    Of(Held),
    /// A client without a session.
    Alone(Session),
}

/// The reason why a request is refused.
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

    /// Makes the sessions of another service at a path of its own. A session of one path is unknown at the other.
    pub(crate) fn beside(&self, server: &Endpoint, path: &str) -> Arc<Self> {
        let key = server.session_key().for_purpose(&format!("path {path}"));
        Self::make(server, key, self.places.clone())
    }

    fn make(server: &Endpoint, key: SessionKey, places: Budget) -> Arc<Self> {
        // The numbers start at random, so that a stream of an earlier process is not taken for one of this.
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

    /// Makes a new session. Nothing of it is kept.
    pub(crate) fn open(&self, agreement: Agreement, caller: &Caller) -> (Held, String) {
        let (id, text) = self.key.issue(&agreement, caller);
        (Held { id, agreement }, text)
    }

    /// Finds the sender of a request by its headers. `None`: the request claims a revision in which every request stands alone.
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

    /// Makes the session for the engine.
    pub(crate) fn session(self: &Arc<Self>, held: &Held, can_ask: bool) -> Session {
        let mut agreement = held.agreement.clone();
        if !can_ask {
            agreement = agreement.without_questions();
        }
        let keeper: Weak<Self> = Arc::downgrade(self);
        Session::kept(agreement, held.id, keeper)
    }

    /// Reserves a place for a call that did not end in its first turn.
    pub(crate) fn find_place(
        &self,
        session: &SessionId,
        id: &RequestId,
        caller: &Caller,
        others: usize,
    ) -> Result<Room, RpcError> {
        let (mut table, limits) = (self.lock(), &self.limits);
        let entry = match table.entries.get(session) {
            Some(entry) => {
                entry.expect_free(id)?;
                let own = entry.running() + others;
                check(own, 1, "requests_in_flight", limits.requests_in_flight)?;
                None
            }
            None => Some(table.find_room(limits)?),
        };
        drop(table);
        let payer = caller.payer();
        // Calls that wait for an answer do not run.
        let (my_waiting, all_waiting) = self.server.waiting_questions(&payer);
        let places = self.places.account(&payer);
        let mine = places.used().saturating_sub(my_waiting);
        let all = self.places.used().saturating_sub(all_waiting);
        expect_share("session_calls", mine, all, limits.session_calls)?;
        Ok(Room {
            entry,
            _place: places.take(1),
            _counted: self
                .server
                .budget()
                .account(&payer)
                .try_reserve(CALL_BYTES)?,
        })
    }

    /// Checks that no request of this id is in flight.
    pub(crate) fn expect_free(&self, session: &SessionId, id: &RequestId) -> Result<(), RpcError> {
        let table = self.lock();
        table
            .entries
            .get(session)
            .map_or(Ok(()), |entry| entry.expect_free(id))
    }

    /// Lets calls run on, whether a client waits for them or not. Their messages go onto one stream.
    pub(crate) fn run(
        self: &Arc<Self>,
        session: SessionId,
        caller: &Caller,
        priming: bool,
        events: bool,
        mut calls: Vec<Started>,
    ) -> Result<Reader, RpcError> {
        let number = self.next_stream.fetch_add(1, Ordering::Relaxed);
        let kept = if events {
            Kept::Events(self.limits.replay_bytes)
        } else {
            Kept::Responses
        };
        let ids = calls.iter().map(|call| &call.id);
        let stream = Stream::answer(number, ids, priming, kept);
        // The reader is made before any message comes, so that no message is dropped.
        let reader = Reader::open(&stream);
        let running = Arc::new(SharedStream {
            sessions: Arc::downgrade(self),
            payer: caller.payer().into(),
            session,
            stream: Arc::clone(&stream),
        });
        self.register(session, &stream, &mut calls)?;
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
            // This is not done under the lock: a runtime that is closing drops the work at once, and with it the place, which
            // takes the lock.
            let abort = self.tasks.spawn(drive(replies, place, answer_room));
            let mut table = self.lock();
            let call = table
                .entries
                .get_mut(&session)
                .and_then(|entry| entry.calls.get_mut(&id))
                .filter(|call| call.stream == number);
            match call {
                Some(call) => call.abort = Some(abort),
                // The call was cancelled, or has ended meanwhile.
                None => abort.abort(),
            }
        }
        Ok(reader)
    }

    fn register(
        &self,
        session: SessionId,
        stream: &Arc<Stream>,
        calls: &mut [Started],
    ) -> Result<(), RpcError> {
        // The first is for the entry of the session, if it has none; the others are given back.
        let (mut has_place, mut counted) = (false, None);
        for room in calls.iter_mut().filter_map(|call| call.room.as_mut()) {
            has_place = true;
            counted = counted.or(room.entry.take());
        }
        let mut table = self.lock();
        let entry = if has_place {
            table.entry_of_call(&session, counted)?
        } else {
            table.entry(&session, &self.limits)?
        };
        entry.streams.insert(stream.number, Arc::clone(stream));
        for Started { id, .. } in calls {
            let call = Call {
                stream: stream.number,
                abort: None,
            };
            // If two requests of one id come at the same moment, the later one counts.
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

    /// Forgets the folders of a client, which works in other folders now.
    pub(crate) fn forget_folders(&self, session: &SessionId) {
        if let Some(live) = self.find(session) {
            live.forget_folders();
        }
    }

    /// Stops a call of a session. The call gets no answer, and its questions are taken back.
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

    /// Ends the streams of all sessions. The answers to calls may still arrive.
    pub(crate) fn close_streams(&self) {
        let table = self.lock();
        let standing = table
            .entries
            .values()
            .filter_map(|entry| entry.standing.as_ref());
        standing.for_each(|stream| stream.end());
    }

    /// Forgets a stream that was answered without events: no client can come back to it.
    pub(crate) fn forget(&self, session: &SessionId, number: u64) {
        let mut table = self.lock();
        if let Some(entry) = table.entries.get_mut(session) {
            entry.streams.remove(&number);
        }
        table.tidy(session);
        // The stream ended a moment ago, so it is among the last.
        if let Some(place) = table.over.iter().rposition(|over| over.stream == number) {
            table.forget_over(place);
        }
    }

    /// Makes the stream of a session, in the place of its earlier one.
    pub(crate) fn stand(
        &self,
        session: &SessionId,
        priming: bool,
        payer: &str,
    ) -> Result<Arc<Stream>, RpcError> {
        let number = self.next_stream.fetch_add(1, Ordering::Relaxed);
        let account = self.server.budget().account(payer);
        let stream = Stream::standing(number, priming, self.limits.replay_bytes, account);
        let mut table = self.lock();
        let entry = table.entry(session, &self.limits)?;
        entry.used = Instant::now();
        if let Some(before) = entry.standing.replace(Arc::clone(&stream)) {
            before.end();
            table.waits_no_more(before.number);
        }
        Ok(stream)
    }

    /// Notes that nobody reads the stream of a session any more. From then on it is kept as an ended stream is. If it has nothing
    /// that a client could come back for, it is forgotten, and so is the session if nothing else goes on there.
    fn leave(&self, leaving: &Leaving) {
        let session = leaving.session;
        let mut table = self.lock();
        let Some(entry) = table.entries.get_mut(&session) else {
            return;
        };
        let left = |stream: &&Arc<Stream>| stream.number == leaving.stream && !stream.has_reader();
        let Some(stream) = entry.standing.as_ref().filter(left) else {
            return;
        };
        if stream.is_blank() {
            entry.standing = None;
            return table.tidy(&session);
        }
        let bytes = stream.bytes();
        entry.used = Instant::now();
        table.waits_no_more(leaving.stream);
        let over = Over {
            since: Instant::now(),
            payer: leaving.payer.clone(),
            session,
            stream: leaving.stream,
            bytes,
        };
        table.keep_for_return(over, &self.limits);
    }

    /// Finds a stream that a client comes back to, and whether it is the session's own stream.
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
            let standing = Arc::clone(standing);
            table.waits_no_more(number);
            return Some((standing, true));
        }
        let stream = entry.streams.get(&number)?;
        Some((Arc::clone(stream), false))
    }

    /// Ends a session for good: its calls are stopped.
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

/// Notes on drop that nobody reads the stream of a session any more.
pub(crate) struct Leaving {
    pub(crate) sessions: Weak<Sessions>,
    pub(crate) payer: Box<str>,
    pub(crate) session: SessionId,
    pub(crate) stream: u64,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        if let Some(sessions) = self.sessions.upgrade() {
            sessions.leave(self);
        }
    }
}

/// A call that did not end in its first turn.
pub(crate) struct Started {
    pub(crate) id: RequestId,
    pub(crate) replies: Messages,
    /// `None` for a call that is answered already.
    pub(crate) room: Option<Room>,
    /// Only for a batch: the memory for the answer, which may wait for the others.
    pub(crate) answer_room: Option<Reservation>,
}

/// The place of a running call, and the memory that the call takes besides its message. Dropping this gives both back.
pub(crate) struct Room {
    /// The memory for the entry of a session that has none, until it has one.
    entry: Option<Reservation>,
    _place: Reservation,
    _counted: Reservation,
}

/// Runs a call to its end. Its messages go onto its stream as fast as they are read. When the time of the call is over, it no
/// longer waits for the reader.
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
        // A handler that sends without end must not take the turns of others.
        tokio::task::consume_budget().await;
    }
}

/// Several calls that share a stream. The stream ends with the last of them.
struct SharedStream {
    sessions: Weak<Sessions>,
    payer: Box<str>,
    session: SessionId,
    stream: Arc<Stream>,
}

/// The place of one call. Dropping it frees the place.
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
        let over = Over {
            since: Instant::now(),
            payer: std::mem::take(&mut self.payer),
            session: self.session,
            stream: self.stream.number,
            bytes,
        };
        table.keep_for_return(over, &sessions.limits);
    }
}
