//! An encoded message, which a transport writes.

use std::time::Duration;

use bytes::Bytes;
use lmcp_wire::{
    self as wire, RequestId, RpcError, jsonrpc, method::notification, progress::CancelledParams,
};

use crate::{
    budget::{Budget, Reservation},
    caller::Caller,
};

/// An answer up to this size is not counted as memory of its caller.
pub(crate) const SMALL: usize = 4096;

/// The bytes that a waiting message takes besides its text.
const BESIDES: usize = 256;

/// The most bytes of words in an error that is not small.
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
    pub(crate) fn result(mut json: Vec<u8>) -> Self {
        // The budget counts the length of an answer, so the spare capacity of a long answer is given back.
        if json.len() > SMALL {
            json.shrink_to_fit();
        }
        Self::new(json, MessageKind::Result)
    }

    /// An error response.
    ///
    /// Long text of the peer that the error repeats is cut: an error is small, so its memory need not be counted.
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

    /// The same message, which holds this memory until it is written. Memory that it does not need is given back.
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

    /// The same message, counted as memory of its caller until it is written. Small messages are not counted: their number is
    /// limited.
    pub(crate) fn counted(mut self, budget: &Budget, caller: &Caller) -> Self {
        if self.json.len() > SMALL {
            let counted = budget.account(&caller.payer()).take(self.json.len());
            self.json = counted.hold(std::mem::take(&mut self.json));
        }
        self
    }

    /// The bytes that a copy of the message takes, together with the message itself if that is too small to be counted.
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

    /// Parses the message again, for tests and for code that must look inside.
    pub fn parse(&self) -> wire::Incoming<'_> {
        wire::Incoming::parse(&self.json).expect("a message is valid")
    }
}

/// Returns the error with the beginning of its words, and without its data.
fn shortened(error: &RpcError) -> RpcError {
    let words = &error.message;
    let end = words.floor_char_boundary(WORDS);
    let cut = if end < words.len() { "…" } else { "" };
    let mut short = error.clone();
    short.message = format!("{}{cut}", &words[..end]).into();
    short.data = None;
    short
}
