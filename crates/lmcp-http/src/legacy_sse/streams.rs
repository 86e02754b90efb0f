//! The open streams of HTTP+SSE, and what is said on them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use lmcp_core::{
    Caller, Endpoint, Tasks,
    session::{Agreement, SessionKey},
    transport::{Inlet, Outlet},
};
use tokio::task::AbortHandle;

use super::MESSAGES;
use crate::event::Event;

/// An open stream.
#[derive(Clone)]
pub(super) struct Open {
    /// Where the client's messages go.
    pub(super) inlet: Inlet,
    /// Ends it.
    pub(super) connection: AbortHandle,
}

/// The open streams, by the secret in the address that each client was given.
type Streams = HashMap<String, Open>;

/// HTTP+SSE of one server.
pub(crate) struct LegacySse {
    server: Endpoint,
    /// Signs those secrets.
    key: SessionKey,
    open: Arc<Mutex<Streams>>,
    connections: Tasks,
}

impl LegacySse {
    pub(crate) fn new(server: Endpoint) -> Self {
        Self {
            key: server.session_key().for_purpose("the address of messages"),
            server,
            open: Arc::default(),
            connections: Tasks::default(),
        }
    }

    /// Opens a stream. Its first event says where to send messages.
    pub(super) fn open(&self, caller: Caller) -> Lines {
        let (_, secret) = self.key.issue(&Agreement::none(), &caller);
        let (inlet, outlet, work) = lmcp_core::exchange(self.server.clone(), caller);
        let connection = self.connections.spawn(work);
        let first = format!("event: endpoint\ndata: {MESSAGES}?session={secret}\n\n");
        lock(&self.open).insert(secret.clone(), Open { inlet, connection });
        Lines {
            first: Some(first.into()),
            outlet,
            taken: Bytes::new(),
            _entry: Entry {
                secret,
                open: Arc::clone(&self.open),
            },
        }
    }

    /// The open stream of a secret. It was signed for who opened the stream; to anybody else it is nothing.
    pub(super) fn find(&self, secret: &str, caller: &Caller) -> Option<Open> {
        self.key.open(secret, caller)?;
        lock(&self.open).get(secret).cloned()
    }

    /// Ends all streams: no more messages come, and answers that are nearly there still go out.
    pub(crate) fn close(&self) {
        lock(&self.open).clear();
    }
}

fn lock(open: &Mutex<Streams>) -> MutexGuard<'_, Streams> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A stream's entry in the table, for as long as the stream is open.
struct Entry {
    secret: String,
    open: Arc<Mutex<Streams>>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        lock(&self.open).remove(&self.secret);
    }
}

/// The lines of a connection, as events.
pub(crate) struct Lines {
    first: Option<Bytes>,
    outlet: Outlet,
    /// Lines that are no events yet.
    taken: Bytes,
    _entry: Entry,
}

impl Lines {
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Event::Whole(first)));
        }
        if self.taken.is_empty() {
            match ready!(self.outlet.poll_next(cx)) {
                Some(lines) => self.taken = lines,
                None => return Poll::Ready(None),
            }
        }
        let end = self.taken.iter().position(|byte| *byte == b'\n');
        let end = end.unwrap_or(self.taken.len() - 1);
        // With its end: of the last line nothing stays here that would hold its memory.
        let mut line = self.taken.split_to(end + 1);
        line.truncate(end);
        Poll::Ready(Some(Event::new(b"event: message\ndata: ", line)))
    }
}
