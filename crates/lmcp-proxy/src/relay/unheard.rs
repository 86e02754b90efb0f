//! What a server was told before it said anything. If all it says is that it has troubles of its own, it did nothing of
//! that, and the next one may have it.

use std::time::Instant;

use lmcp_wire::{Envelope, Incoming, RpcError, error::INTERNAL_ERROR, method::notification};

use serde_json::Value;

use super::{Relay, calls::Held, message::batch};
use crate::limits::{Limits, REASON_CHARACTERS};

#[derive(Debug, Default)]
pub(super) struct Unheard {
    lines: Vec<Vec<u8>>,
    bytes: usize,
    /// It has said something that was not about the connection.
    has_spoken: bool,
    /// What it said about that, if nothing else.
    reason: Option<Reason>,
}

#[derive(Debug)]
struct Reason {
    words: String,
    /// The server's trouble is not with what it was told.
    is_its_own: bool,
}

/// What an error says that names no request.
pub(super) enum Said {
    /// The server has troubles of its own, and will not listen.
    Busy,
    /// It does not listen to us, and never will.
    Never(RpcError),
    /// Something about what it was told.
    Other,
}

impl Unheard {
    /// The client's line goes out.
    pub(super) fn told(&mut self, line: &[u8], limits: &Limits) {
        let bytes = self.bytes + line.len();
        if !self.has_spoken && bytes <= limits.kept_bytes {
            self.bytes = bytes;
            self.lines.push(line.to_vec());
        }
    }

    /// The server has spoken.
    pub(super) fn heard(&mut self) {
        if !self.has_spoken {
            *self = Self {
                has_spoken: true,
                ..Self::default()
            };
        }
    }

    /// The server says an error that names no request.
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

    /// It is gone: why, if it said so, and what it surely did not look at.
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

/// Does it say that trying again is of no use?
fn is_final(error: &RpcError) -> bool {
    let retriable = error.data.as_ref().and_then(|data| data.get("retriable"));
    retriable.and_then(Value::as_bool) == Some(false)
}

impl Relay {
    /// Takes back what a server did not look at, to wait for the next one as long as if it had been lost.
    pub(super) fn take_back(&mut self, lines: Vec<Vec<u8>>, now: Instant) -> Vec<Held> {
        let until = now + self.limits.wait;
        let mut again = Vec::new();
        for line in lines {
            let messages = batch(&line).unwrap_or_default();
            let messages = messages.into_iter().map(|message| message.get().as_bytes());
            let alone = Some(&line[..]).filter(|_| messages.len() == 0);
            let (mut calls, mut is_wanted) = (Vec::new(), false);
            for message in messages.chain(alone) {
                is_wanted |= match Envelope::read(message) {
                    // One that is not there any more was cancelled.
                    Envelope::Request { id, .. } => {
                        let call = self.sent.remove(&id);
                        let is_there = call.is_some();
                        calls.extend(call);
                        is_there
                    }
                    // What these are about was that server's.
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
            if is_wanted {
                let first = calls.iter().filter_map(|call| call.until).min();
                let until = first.or(Some(until));
                again.push(Held { line, calls, until });
            }
        }
        again
    }
}
