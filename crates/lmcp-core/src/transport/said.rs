//! The meaning of one message of a connection, as far as it can be read without the connection: only the caller and the session
//! are needed.
//!
//! The values own their data, so a long message can be read on another thread than the one that all callers share.

use bytes::Bytes;
use lmcp_wire::{
    Incoming, RequestId, RpcError, jsonrpc,
    legacy::CancelledParams,
    method::{notification, request},
};
use serde_json::value::RawValue;

use crate::{caller::Caller, era, message::Message, request::Request, session::Session};

/// The meaning of a message.
pub(super) enum Said {
    /// A request that can be started.
    Request(Request),
    /// The handshake of an older revision, with the session it opens.
    Handshake(Session, Request),
    /// A notification.
    Notification(Notification),
    /// A message that is refused, with the answer.
    Refused(Message),
    /// A message that needs no further work.
    Nothing,
}

/// A notification that needs work.
pub(super) enum Notification {
    Cancelled(RequestId),
    Initialized,
    RootsChanged,
}

/// The place of a message.
#[derive(Clone, Copy)]
pub(super) enum Place {
    /// The message is a line.
    Alone,
    /// The message is in a batch with others.
    InBatch,
}

impl Said {
    /// Reads one message. The response to a question goes to the handler that waits for it.
    pub(super) fn read(
        message: &Bytes,
        caller: &Caller,
        session: Option<&Session>,
        place: Place,
    ) -> Self {
        let (id, method, params) = match Incoming::parse(message) {
            Ok(Incoming::Request { id, method, params }) => (id, method, params),
            Ok(Incoming::Notification { method, params }) => return Self::noticed(&method, params),
            Ok(Incoming::Response { id, outcome }) => {
                let live = session.and_then(|session| session.live().ok());
                if !live.is_some_and(|live| live.answer(id.as_ref(), outcome)) {
                    tracing::debug!("a response nobody waits for");
                }
                return Self::Nothing;
            }
            Ok(_) => return Self::Nothing,
            Err(rejected) => {
                return Self::Refused(Message::error(rejected.id.as_ref(), &rejected.error));
            }
        };
        let refused = |error: &RpcError| Self::Refused(Message::error(Some(&id), error));
        let caller = caller.clone();
        if era::is_handshake(&method, &params) {
            if matches!(place, Place::InBatch) {
                return refused(&RpcError::invalid_request(
                    "`initialize` stands in no batch",
                ));
            }
            let opened = era::handshake(message).and_then(|agreement| {
                let session = Session::of_connection(agreement, session);
                let (id, name) = (id.clone(), request::INITIALIZE);
                let request = era::admit(message, id, name, params, caller, Some(&session))?;
                Ok(Self::Handshake(session, request))
            });
            return opened.unwrap_or_else(|error| refused(&error));
        }
        if session.is_none()
            && let Some(reply) = era::no_way_in(&id, &method, &params)
        {
            return Self::Refused(reply);
        }
        era::admit(message, id.clone(), &method, params, caller, session)
            .map_or_else(|error| refused(&error), Self::Request)
    }

    fn noticed(method: &str, params: Option<&RawValue>) -> Self {
        match method {
            notification::CANCELLED => {
                let params = serde_json::from_str(params.map_or("{}", RawValue::get));
                match params {
                    Ok(CancelledParams {
                        request_id: Some(id),
                        ..
                    }) => Self::Notification(Notification::Cancelled(id)),
                    _ => Self::Nothing,
                }
            }
            notification::INITIALIZED => Self::Notification(Notification::Initialized),
            notification::ROOTS_CHANGED => Self::Notification(Notification::RootsChanged),
            _ => {
                tracing::debug!(method, "a notification that needs nothing done");
                Self::Nothing
            }
        }
    }
}

/// Cuts a batch (2025-03-26) into its messages, which are not parsed yet.
///
/// # Errors
/// The batch is not JSON, or has no messages or too many.
pub(super) fn cut(batch: &Bytes, most: usize) -> Result<Vec<Bytes>, RpcError> {
    let messages = jsonrpc::batch(batch, most).unwrap_or(Ok(Vec::new()))?;
    if messages.is_empty() || messages.len() > most {
        let words = format!("a batch has 1 to {most} messages");
        return Err(RpcError::invalid_request(words));
    }
    let messages = messages.iter();
    Ok(messages
        .map(|message| batch.slice_ref(message.get().as_bytes()))
        .collect())
}
