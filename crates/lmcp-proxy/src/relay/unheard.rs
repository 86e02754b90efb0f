//! The lines that a server got before it sent anything. If it then only reports troubles of its own, it did nothing with
//! them, and the next server may get them.

use std::time::Instant;

use lmcp_wire::{Envelope, Incoming, RpcError, error::INTERNAL_ERROR, method::notification};

use serde_json::Value;

use super::{Relay, calls::Held, message::batch};
use crate::limits::{Limits, REASON_CHARACTERS};

#[derive(Debug, Default)]
pub(super) struct Unheard {
    lines: Vec<Vec<u8>>,
    bytes: usize,
    /// The server has sent something that was not about the connection.
    has_spoken: bool,
    /// Its error about the connection, if it sent nothing else.
    reason: Option<Reason>,
}

#[derive(Debug)]
struct Reason {
    words: String,
    /// The server's trouble does not come from the lines.
    is_its_own: bool,
}

/// The meaning of an error that names no request.
pub(super) enum Said {
    /// The server has troubles of its own, and does not read.
    Busy,
    /// The server refuses us for ever.
    Never(RpcError),
    /// The error is about a line that it got.
    Other,
}

impl Unheard {
    /// Keeps a line of the client that is sent.
    pub(super) fn told(&mut self, line: &[u8], limits: &Limits) {
        let bytes = self.bytes + line.len();
        if !self.has_spoken && bytes <= limits.kept_bytes {
            self.bytes = bytes;
            self.lines.push(line.to_vec());
        }
    }

    /// Forgets lines that were not sent after all.
    pub(super) fn forget(&mut self, unsent: &[Vec<u8>]) {
        self.lines.retain(|line| !unsent.contains(line));
    }

    /// Notes that the server has sent a message.
    pub(super) fn heard(&mut self) {
        if !self.has_spoken {
            *self = Self {
                has_spoken: true,
                ..Self::default()
            };
        }
    }

    /// Takes an error that names no request.
    pub(super) fn heard_nameless(&mut self, message: &[u8]) -> Said {
        let Ok(Incoming::Response {
            outcome: Err(error),
            ..
        }) = Incoming::parse(message)
        else {
            return Said::Other;
        };
        if self.has_spoken || self.reason.is_some() {
            return Said::Other;
        }
        let is_its_own = error.code == INTERNAL_ERROR;
        if !is_its_own && is_final(&error) {
            return Said::Never(error);
        }
        let words = error.message.chars().take(REASON_CHARACTERS).collect();
        self.reason = Some(Reason { words, is_its_own });
        if is_its_own { Said::Busy } else { Said::Other }
    }

    /// Ends with the server. Returns its reason, if it gave one, and the lines that it certainly did not look at.
    pub(super) fn end(&mut self) -> (Option<String>, Vec<Vec<u8>>) {
        match std::mem::take(self) {
            Self {
                reason: Some(reason),
                lines,
                ..
            } => {
                let lines = if reason.is_its_own { lines } else { Vec::new() };
                (Some(reason.words), lines)
            }
            Self { reason: None, .. } => (None, Vec::new()),
        }
    }
}

/// Returns whether the error says that another try does not help.
fn is_final(error: &RpcError) -> bool {
    let retriable = error.data.as_ref().and_then(|data| data.get("retriable"));
    retriable.and_then(Value::as_bool) == Some(false)
}

impl Relay {
    /// Takes back lines that a server did not look at. They wait for the next one as long as after a loss.
    pub(super) fn take_back(&mut self, lines: Vec<Vec<u8>>, now: Instant) -> Vec<Held> {
        let until = now + self.limits.wait;
        let mut again = Vec::new();
        for line in lines {
            let messages = batch(&line).unwrap_or_default();
            let messages = messages.into_iter().map(|message| message.get().as_bytes());
            let alone = Some(&line[..]).filter(|_| messages.len() == 0);
            let (mut calls, mut is_wanted, mut is_over) = (Vec::new(), false, false);
            for message in messages.chain(alone) {
                is_wanted |= match Envelope::read(message) {
                    // A request that is not in the list any more was cancelled.
                    Envelope::Request { id, .. } => {
                        let call = self.sent.remove(&id);
                        let is_there = call.is_some();
                        is_over |= !is_there;
                        calls.extend(call);
                        is_there
                    }
                    // These notifications are about requests of the lost server.
                    Envelope::Notification { method, .. } => {
                        ![notification::CANCELLED, notification::PROGRESS].contains(&&*method)
                    }
                    Envelope::Response { .. } => false,
                    Envelope::Hollow { .. } | Envelope::Nameless | Envelope::Unreadable => true,
                };
            }
            for call in &mut calls {
                call.kept = None;
                call.until.get_or_insert(until);
            }
            // Other messages in an array go where its requests go.
            if is_wanted && !(is_over && calls.is_empty()) {
                let first = calls.iter().filter_map(|call| call.until).min();
                let until = first.or(Some(until));
                again.push(Held { line, calls, until });
            }
        }
        again
    }
}
