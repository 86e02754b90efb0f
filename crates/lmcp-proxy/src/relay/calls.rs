//! Requests of the client: those a server has, and those that wait for one.

use std::{collections::VecDeque, time::Instant};

use lmcp_wire::{RequestId, method::request, subscribe::SubscriptionFilter};

use super::message::is_repeatable;
use crate::limits::{Limits, METHOD_CHARACTERS};

/// A request that has no answer yet.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) id: RequestId,
    /// Its first bytes are enough.
    pub(super) method: Box<str>,
    /// Which batch it came in, if it did.
    pub(super) batch: Option<u64>,
    /// The line, where it may be sent again, and where what it does must be known. Only of what a server has.
    pub(super) kept: Option<Vec<u8>>,
    pub(super) listen: Option<Box<Listen>>,
    /// It has lost a server, and waits for others no longer than this.
    pub(super) until: Option<Instant>,
}

/// What is special about `subscriptions/listen`: it is answered when it is over.
#[derive(Debug)]
pub(super) struct Listen {
    pub(super) filter: SubscriptionFilter,
    /// The client was told that it is open.
    pub(super) acknowledged: bool,
    /// The server said that it is over, which the client is told at this time, in these lines.
    pub(super) end: Option<(Instant, Vec<Vec<u8>>)>,
}

impl Call {
    pub(super) fn new(id: RequestId, method: &str, params: &str) -> Self {
        let listen = (method == request::LISTEN).then(|| {
            let params: Result<lmcp_wire::subscribe::ListenParams, _> =
                serde_json::from_str(params);
            Box::new(Listen {
                filter: params
                    .map_or_else(|_| SubscriptionFilter::default(), |it| it.notifications),
                acknowledged: false,
                end: None,
            })
        });
        Self {
            id,
            method: method.chars().take(METHOD_CHARACTERS).collect(),
            batch: None,
            kept: None,
            listen,
            until: None,
        }
    }

    /// Is it an open subscription? Nobody waits for the answer to that.
    pub(super) fn is_open(&self) -> bool {
        self.listen
            .as_ref()
            .is_some_and(|listen| listen.acknowledged)
    }
}

/// What the server has, in the order it was sent.
#[derive(Debug, Default)]
pub(super) struct Sent {
    calls: VecDeque<Call>,
    /// Bytes of the lines that are kept.
    kept: usize,
    /// How many of them are subscriptions.
    listens: usize,
}

impl Sent {
    /// A request goes out in this line.
    pub(super) fn push(&mut self, mut call: Call, line: &[u8], limits: &Limits) {
        let keeps = call.batch.is_none() && is_repeatable(&call.method);
        if keeps && self.kept + line.len() <= limits.kept_bytes {
            self.kept += line.len();
            call.kept = Some(line.to_vec());
        }
        self.listens += usize::from(call.listen.is_some());
        self.calls.push_back(call);
    }

    /// The first with this id leaves.
    pub(super) fn remove(&mut self, id: &RequestId) -> Option<Call> {
        let at = self.calls.iter().position(|call| call.id == *id)?;
        self.take(at)
    }

    /// The oldest batch leaves. Was there one?
    pub(super) fn remove_batch(&mut self) -> bool {
        let Some(batch) = self.calls.iter().find_map(|call| call.batch) else {
            return false;
        };
        // Nothing of it is kept, and it has no subscriptions that anybody waits for the end of.
        let before = self.calls.len();
        self.calls.retain(|call| call.batch != Some(batch));
        self.listens = self
            .calls
            .iter()
            .filter(|call| call.listen.is_some())
            .count();
        self.calls.len() < before
    }

    pub(super) fn has(&self, id: &RequestId) -> bool {
        self.calls.iter().any(|call| call.id == *id)
    }

    pub(super) fn find(&mut self, id: &RequestId) -> Option<&mut Call> {
        self.calls.iter_mut().find(|call| call.id == *id)
    }

    pub(super) fn take_all(&mut self) -> VecDeque<Call> {
        std::mem::take(self).calls
    }

    /// A subscription whose end is not to be held back any longer.
    pub(super) fn take_ended(&mut self, now: Instant) -> Option<Vec<Vec<u8>>> {
        self.deadline().filter(|end| *end <= now)?;
        let is_over = |call: &Call| end(call).is_some_and(|end| end <= now);
        let at = self.calls.iter().position(is_over)?;
        let (_, lines) = self.take(at)?.listen?.end?;
        Some(lines)
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        // It is asked after every line, and mostly there are none.
        if self.listens == 0 {
            return None;
        }
        self.calls.iter().filter_map(end).min()
    }

    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Call> {
        self.calls.iter()
    }

    fn take(&mut self, at: usize) -> Option<Call> {
        let call = self.calls.remove(at)?;
        self.kept -= call.kept.as_ref().map_or(0, Vec::len);
        self.listens -= usize::from(call.listen.is_some());
        Some(call)
    }
}

fn end(call: &Call) -> Option<Instant> {
    let (at, _) = call.listen.as_ref()?.end.as_ref()?;
    Some(*at)
}

/// A line that no server has had, or that the next one may have as well.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) line: Vec<u8>,
    /// The requests in it: none in a notification, several in a batch.
    pub(super) calls: Vec<Call>,
    /// `None`: it waits as long as it takes.
    pub(super) until: Option<Instant>,
}

/// Lines that wait for a server, in the order the client wrote them.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    held: VecDeque<Held>,
    bytes: usize,
    /// How many requests stand in them.
    requests: usize,
}

impl Waiting {
    /// Whoever hears the client looks for room first.
    pub(super) fn push(&mut self, held: Held) {
        self.count(&held);
        self.held.push_back(held);
    }

    /// What a server had goes before what none has had. There is room: it was kept all along.
    pub(super) fn push_front(&mut self, held: Held) {
        self.count(&held);
        self.held.push_front(held);
    }

    pub(super) fn pop(&mut self) -> Option<Held> {
        self.take(0)
    }

    /// Is there room for one more, however long it is?
    pub(super) fn has_room(&self, limits: &Limits) -> bool {
        self.held.len() < limits.waiting && self.bytes < limits.waiting_bytes
    }

    /// Takes out a request that is alone in its line.
    pub(super) fn remove(&mut self, id: &RequestId) -> Option<Held> {
        let is_it = |held: &Held| matches!(&held.calls[..], [call] if call.id == *id && call.batch.is_none());
        let at = self.held.iter().position(is_it)?;
        self.take(at)
    }

    /// Takes out something that has waited long enough.
    pub(super) fn take_late(&mut self, now: Instant) -> Option<Held> {
        let is_late = |held: &Held| held.until.is_some_and(|until| until <= now);
        let at = self.held.iter().position(is_late)?;
        self.take(at)
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.held.iter().filter_map(|held| held.until).min()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    pub(super) fn calls(&self) -> impl Iterator<Item = &Call> {
        self.held.iter().flat_map(|held| &held.calls)
    }

    /// How many requests wait.
    pub(super) fn requests(&self) -> usize {
        self.requests
    }

    fn count(&mut self, held: &Held) {
        self.bytes += held.line.len();
        self.requests += held.calls.len();
    }

    fn take(&mut self, at: usize) -> Option<Held> {
        let held = self.held.remove(at)?;
        self.bytes -= held.line.len();
        self.requests -= held.calls.len();
        Some(held)
    }
}
