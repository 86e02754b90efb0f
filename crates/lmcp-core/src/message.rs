//! One encoded message: what transports write.

use std::time::Duration;

use bytes::Bytes;
use lmcp_wire::{
    self as wire, RequestId, RpcError, jsonrpc, method::notification, progress::CancelledParams,
};

use crate::{
    budget::{Budget, Reservation},
    caller::Caller,
};

/// Up to this size an answer is not counted as memory of its caller.
pub(crate) const SMALL: usize = 4096;

/// What a message takes besides its bytes while it waits.
const BESIDES: usize = 256;

/// What is left of the words of an error that is not small, in bytes.
const WORDS: usize = 500;

/// An encoded message to the peer, and its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    json: Bytes,
    kind: MessageKind,
}

/// The kind of a [`Message`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MessageKind {
    /// Something on the way.
    Notification,
    /// A question to the client, in revisions that have a handshake: its answer comes as a message of its own.
    Request,
    /// No message: the client need not hold its connection, and may ask again after this time.
    Pause(Duration),
    /// The end, well.
    Result,
    /// The end, with this error code.
    Error(i64),
}

impl Message {
    /// A result response, already encoded.
    pub(crate) fn result(json: Vec<u8>) -> Self {
        Self::new(json, MessageKind::Result)
    }

    /// An error response.
    ///
    /// What it repeats of the peer's own words is cut short: an error is small, so that nobody need count it.
    pub fn error(id: Option<&RequestId>, error: &RpcError) -> Self {
        let mut json = jsonrpc::error(id, error);
        if json.len() > SMALL {
            json = jsonrpc::error(id, &shortened(error));
        }
        Self::new(json, MessageKind::Error(error.code))
    }

    /// A notification.
    pub(crate) fn notification(method: &str, params: &impl serde::Serialize) -> Self {
        let json = jsonrpc::notification(method, params);
        Self::new(json, MessageKind::Notification)
    }

    /// A notification whose parameters are JSON already.
    pub(crate) fn notification_with(method: &str, params: &[u8]) -> Self {
        let json = jsonrpc::notification_with(method, params);
        Self::new(json, MessageKind::Notification)
    }

    /// The notice that a question of this id need not be answered.
    pub fn taken_back(question: RequestId) -> Self {
        Self::notification(notification::CANCELLED, &CancelledParams::new(question))
    }

    /// A question, whose parameters are JSON already.
    pub(crate) fn request(id: &RequestId, method: &str, params: &[u8]) -> Self {
        let json = jsonrpc::request_with(id, method, params);
        Self::new(json, MessageKind::Request)
    }

    pub(crate) fn pause(time: Duration) -> Self {
        Self::new(Vec::new(), MessageKind::Pause(time))
    }

    /// The same message, which holds this memory until it is written. What is more than it takes is given back.
    #[must_use]
    pub fn held(mut self, mut counted: Reservation) -> Self {
        counted.shrink_to(self.json.len() + BESIDES);
        self.json = counted.hold(std::mem::take(&mut self.json));
        self
    }

    fn new(json: Vec<u8>, kind: MessageKind) -> Self {
        Self {
            json: json.into(),
            kind,
        }
    }

    /// The same message, counted as memory of the caller that it is for until it is written. Small ones are not: the
    /// limits on their number are enough.
    pub(crate) fn counted(mut self, budget: &Budget, caller: &Caller) -> Self {
        if self.json.len() > SMALL {
            let counted = budget.account(&caller.payer()).take(self.json.len());
            self.json = counted.hold(std::mem::take(&mut self.json));
        }
        self
    }

    /// What a copy of it takes, with the message itself if that is too small to be counted, in bytes.
    pub(crate) fn bytes_with_copy(&self) -> usize {
        match self.json.len() {
            small @ ..=SMALL => 2 * small,
            counted => counted,
        }
    }

    /// The kind of the message.
    pub fn kind(&self) -> MessageKind {
        self.kind
    }

    /// Whether the message ends the answer to a request.
    pub fn is_response(&self) -> bool {
        matches!(self.kind, MessageKind::Result | MessageKind::Error(_))
    }

    /// The message, one line of JSON without its end.
    pub fn json(&self) -> &[u8] {
        &self.json
    }

    /// The message itself. Its last copy gives back the memory that was counted for it.
    pub fn into_json(self) -> Bytes {
        self.json
    }

    /// The message, read again: for tests and for whoever must look inside.
    pub fn parse(&self) -> wire::Incoming<'_> {
        wire::Incoming::parse(&self.json).expect("a message is valid")
    }
}

/// An error with the beginning of its words, and without its data.
fn shortened(error: &RpcError) -> RpcError {
    let words = &error.message;
    let end = words.floor_char_boundary(WORDS);
    let cut = if end < words.len() { "…" } else { "" };
    let mut short = error.clone();
    short.message = format!("{}{cut}", &words[..end]).into();
    short.data = None;
    short
}
