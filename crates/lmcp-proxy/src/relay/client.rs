//! Lines of the client.

use std::time::Instant;

use lmcp_wire::{
    Envelope, Incoming, RequestId,
    envelope::{cancelled, glimpse, replace},
    jsonrpc,
    method::{notification, request},
};

use super::{
    Link, Relay,
    calls::{Call, Held},
    failures,
    message::{batch, join},
    session::Session,
};

/// The decision about a message.
enum Taken {
    /// The message is passed on as it is; it may be a request.
    Pass(Option<Call>),
    /// Other words are passed on.
    Changed(Vec<u8>),
    Nothing,
}

impl Relay {
    /// Takes a line of the client.
    pub(crate) fn client_line(&mut self, line: Vec<u8>, now: Instant) {
        let messages = batch(&line).filter(|messages| self.has_batches() && !messages.is_empty());
        match messages {
            Some(messages) => {
                let taken: Vec<(Vec<u8>, Taken)> = messages
                    .into_iter()
                    .map(|message| message.get().as_bytes())
                    .map(|message| (message.to_vec(), self.take_from_batch(message)))
                    .collect();
                self.pass_batch(line, taken, now);
            }
            None => match self.take(&line) {
                Taken::Pass(call) => self.pass(line, call.into_iter().collect(), now),
                Taken::Changed(line) => self.pass(line, Vec::new(), now),
                Taken::Nothing => {}
            },
        }
    }

    /// Takes a line of the client that is too long. `head` and `tail` are its two ends.
    pub(crate) fn client_long_line(&mut self, head: &[u8], tail: &[u8]) {
        let error = failures::too_long(self.limits.line_bytes);
        let seen = glimpse(head, tail);
        let is_answer = |id: &&RequestId| seen.method.is_none() && self.ids.is_own(id);
        let Some(question) = seen.id.as_ref().filter(is_answer) else {
            return self.tell_client(jsonrpc::error(seen.id.as_ref(), &error));
        };
        // It is an answer to a question, and the server waits for it.
        let theirs = self.questions.answered(question);
        let theirs = theirs.and_then(|raw| serde_json::from_str::<RequestId>(&raw).ok());
        if let Some(theirs) = theirs {
            self.tell_server(jsonrpc::error(Some(&theirs), &error));
        }
    }

    /// Notes that the client will write nothing more.
    pub(crate) fn client_eof(&mut self) {
        self.client_ended = true;
        self.end_if_done();
    }

    /// Decides about one message of a batch. The server answers messages that cannot be read, together with the others.
    fn take_from_batch(&mut self, message: &[u8]) -> Taken {
        match Envelope::read(message) {
            Envelope::Nameless | Envelope::Hollow { .. } | Envelope::Unreadable => {
                Taken::Pass(None)
            }
            Envelope::Request { .. }
            | Envelope::Notification { .. }
            | Envelope::Response { .. } => self.take(message),
        }
    }

    /// Decides about one message.
    fn take(&mut self, message: &[u8]) -> Taken {
        match Envelope::read(message) {
            Envelope::Request {
                id, method, params, ..
            } => {
                if *method == *request::INITIALIZE {
                    self.begin_anew();
                }
                Taken::Pass(Some(Call::new(id, &method, params)))
            }
            Envelope::Notification { method, params } => self.take_notification(&method, params),
            Envelope::Response { id, raw_id, .. } => match self.questions.answered(&id) {
                Some(theirs) => Taken::Changed(replace(message, raw_id, &theirs)),
                // There was no such question, or the server that asked it is gone.
                None => Taken::Nothing,
            },
            Envelope::Nameless | Envelope::Hollow { .. } | Envelope::Unreadable
                if self.is_open() =>
            {
                self.sent_unreadable = true;
                Taken::Pass(None)
            }
            Envelope::Nameless => Taken::Nothing,
            Envelope::Hollow { .. } | Envelope::Unreadable => {
                if let Err(rejected) = Incoming::parse(message) {
                    self.tell_client(jsonrpc::error(rejected.id.as_ref(), &rejected.error));
                }
                Taken::Nothing
            }
        }
    }

    fn take_notification(&mut self, method: &str, params: &str) -> Taken {
        let is_open = self.is_open();
        match method {
            notification::INITIALIZED => {
                self.session.is_now_ready();
                // If the handshake will be repeated, this message will be, too.
                if is_open || !self.session.is_open() || self.is_shaking_hands() {
                    return Taken::Pass(None);
                }
                Taken::Nothing
            }
            notification::CANCELLED => {
                let id = cancelled(params).map(|(id, _)| id);
                let Some(id) = id.filter(|id| !self.is_handshake(id)) else {
                    return Taken::Pass(None);
                };
                let was_alone = self.waiting.remove(&id).is_some();
                let waits = self.waiting.calls().any(|call| call.id == id);
                let was_sent = self.sent.remove(&id).is_some();
                // If no server has had the request, no server is told of its end.
                if !was_alone && (was_sent || waits || is_open) {
                    return Taken::Pass(None);
                }
                Taken::Nothing
            }
            // The progress is for a question of a server that is gone.
            notification::PROGRESS if !is_open => Taken::Nothing,
            _ => Taken::Pass(None),
        }
    }

    /// Begins a new handshake. If every server refused the earlier agreement, the next one is not bound by it.
    fn begin_anew(&mut self) {
        self.session.begins();
        if self.rejection.is_some() && matches!(self.link, Link::Away) {
            self.session = Session::default();
            self.rejection = None;
        }
    }

    /// Returns whether arrays of messages may be understood. Before the answer to a handshake, that is not known.
    fn has_batches(&self) -> bool {
        self.session.has_batches() || self.is_shaking_hands()
    }

    /// Returns whether a handshake of the client waits for its answer.
    fn is_shaking_hands(&self) -> bool {
        let mut calls = self.sent.iter().chain(self.waiting.calls());
        calls.any(|call| *call.method == *request::INITIALIZE)
    }

    /// Returns whether a request is a handshake, which cannot be cancelled.
    fn is_handshake(&mut self, id: &RequestId) -> bool {
        let call = self.sent.find(id);
        call.is_some_and(|call| *call.method == *request::INITIALIZE)
    }

    /// Passes on a batch. The line stays as it is if all of its messages do.
    fn pass_batch(&mut self, line: Vec<u8>, taken: Vec<(Vec<u8>, Taken)>, now: Instant) {
        self.batches += 1;
        let (mut calls, mut left, mut is_whole) = (Vec::new(), Vec::new(), true);
        for (message, taken) in taken {
            match taken {
                Taken::Pass(call) => {
                    left.push(message);
                    calls.extend(call);
                }
                Taken::Changed(message) => {
                    is_whole = false;
                    left.push(message);
                }
                Taken::Nothing => is_whole = false,
            }
        }
        for call in &mut calls {
            call.batch = Some(self.batches);
        }
        if !left.is_empty() {
            self.pass(if is_whole { line } else { join(&left) }, calls, now);
        }
    }

    /// Sends a line to the server, or keeps it for the next one.
    fn pass(&mut self, line: Vec<u8>, calls: Vec<Call>, now: Instant) {
        if let Some(error) = &self.rejection {
            let error = error.clone();
            return self.fail(&calls, |_| error.clone());
        }
        let (pending, most) = (
            self.sent.len() + self.waiting.requests(),
            self.limits.pending,
        );
        if !calls.is_empty() && pending + calls.len() > most {
            return self.fail(&calls, |call| failures::too_many_calls(&call.method, most));
        }
        let held = Held {
            line,
            calls,
            until: Some(now + self.limits.wait),
        };
        match self.link {
            Link::Open => self.send(held),
            Link::Away | Link::Opening(..) | Link::Refused => self.waiting.push(held),
        }
        self.crowd.counts(self.is_full(), now, self.limits.hold);
    }
}
