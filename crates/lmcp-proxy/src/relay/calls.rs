//! Requests of the client: those that a server has, and those that wait for one.

use std::{collections::VecDeque, time::Instant};

use lmcp_wire::{RequestId, method::request, subscribe::SubscriptionFilter};

use super::message::is_repeatable;
use crate::limits::{Limits, METHOD_CHARACTERS};

/// A request that has no answer yet.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) id: RequestId,
    /// The method, of which the first bytes are enough.
    pub(super) method: Box<str>,
    /// The batch that the request came in, if it came in one.
    pub(super) batch: Option<u64>,
    /// The line, if it may be sent again, or if its content must be known later. Only set for requests that a server has.
    pub(super) kept: Option<Vec<u8>>,
    pub(super) listen: Option<Box<Listen>>,
    /// The request has lost a server, and waits for another one until this time.
    pub(super) until: Option<Instant>,
}

/// The state of `subscriptions/listen`, which is answered when it is over.
#[derive(Debug)]
pub(super) struct Listen {
    pub(super) filter: SubscriptionFilter,
    /// The client was told that the subscription is open.
    pub(super) acknowledged: bool,
    /// The server said that the subscription is over. The client gets these lines at this time.
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

    /// Returns whether it is an open subscription. Nobody waits for its answer.
    pub(super) fn is_open(&self) -> bool {
        self.listen
            .as_ref()
            .is_some_and(|listen| listen.acknowledged)
    }
}

/// The requests that the server has, in the order in which they were sent.
#[derive(Debug, Default)]
pub(super) struct Sent {
    calls: VecDeque<Call>,
    /// The number of bytes of the lines that are kept.
    kept: usize,
    /// The number of subscriptions.
    listens: usize,
}

impl Sent {
    /// Adds a request that is sent in this line.
    pub(super) fn push(&mut self, mut call: Call, line: &[u8], limits: &Limits) {
        let keeps = call.batch.is_none() && is_repeatable(&call.method);
        if keeps && self.kept + line.len() <= limits.kept_bytes {
            self.kept += line.len();
            call.kept = Some(line.to_vec());
        }
        self.listens += usize::from(call.listen.is_some());
        self.calls.push_back(call);
    }

    /// Removes the first request with this id.
    pub(super) fn remove(&mut self, id: &RequestId) -> Option<Call> {
        let at = self.calls.iter().position(|call| call.id == *id)?;
        self.take(at)
    }

    /// Removes the oldest batch. Returns whether there was one.
    pub(super) fn remove_batch(&mut self) -> bool {
        let Some(batch) = self.calls.iter().find_map(|call| call.batch) else {
            return false;
        };
        // Its lines are not kept, and nobody waits for the end of its subscriptions.
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

    /// Returns the lines of a subscription whose end need not be held back any longer.
    pub(super) fn take_ended(&mut self, now: Instant) -> Option<Vec<Vec<u8>>> {
        self.deadline().filter(|end| *end <= now)?;
        let is_over = |call: &Call| end(call).is_some_and(|end| end <= now);
        let at = self.calls.iter().position(is_over)?;
        let (_, lines) = self.take(at)?.listen?.end?;
        Some(lines)
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        // This is called after every line, and usually there are no subscriptions.
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

/// A line that no server has had, or that the next one may get again.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) line: Vec<u8>,
    /// The requests in the line: none in a notification, several in a batch.
    pub(super) calls: Vec<Call>,
    /// `None`: the line waits without a limit.
    pub(super) until: Option<Instant>,
}

/// Lines that wait for a server, in the order the client wrote them.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    held: VecDeque<Held>,
    bytes: usize,
    /// The number of requests in these lines.
    requests: usize,
}

impl Waiting {
    /// Adds a line at the end. The caller has checked that there is room.
    pub(super) fn push(&mut self, held: Held) {
        self.count(&held);
        self.held.push_back(held);
    }

    /// Adds a line that a server had before lines that none has had. There is room, because the line was kept before.
    pub(super) fn push_front(&mut self, held: Held) {
        self.count(&held);
        self.held.push_front(held);
    }

    pub(super) fn pop(&mut self) -> Option<Held> {
        self.take(0)
    }

    /// Returns whether there is room for one more line of any length.
    pub(super) fn has_room(&self, limits: &Limits) -> bool {
        self.held.len() < limits.waiting && self.bytes < limits.waiting_bytes
    }

    /// Removes a request that is alone in its line.
    pub(super) fn remove(&mut self, id: &RequestId) -> Option<Held> {
        let is_it = |held: &Held| matches!(&held.calls[..], [call] if call.id == *id && call.batch.is_none());
        let at = self.held.iter().position(is_it)?;
        self.take(at)
    }

    /// Removes a line that has waited long enough.
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

    /// Returns how many requests wait.
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
