//! The way in: a message becomes a valid [`Request`] of some revision.

use std::borrow::Cow;

use bytes::Bytes;
use lmcp_wire::{RequestId, RpcError, jsonrpc, method::request, params::Params};
use serde_json::{json, value::RawValue};

use super::{legacy, modern, target, versions::SERVED};
use crate::{
    caller::Caller,
    message::Message,
    request::{Members, Part, Request},
    session::{Agreement, Session},
};

/// Turns a request message into a valid [`Request`], or says what is wrong with it.
///
/// `frame` is the message that `method` and `params` were read from. A message that says in its `_meta` that it stands
/// alone does so; any other belongs to the session, if there is one.
///
/// # Errors
/// The JSON-RPC error to answer with.
pub fn admit(
    frame: &Bytes,
    id: RequestId,
    method: &str,
    params: Params<'_>,
    caller: Caller,
    session: Option<&Session>,
) -> Result<Request, RpcError> {
    let meta = params.meta.unwrap_or_default();
    let session = session.filter(|_| !meta.is_modern());
    let admitted = match session {
        Some(session) => legacy::admit::admit(&params, method, session)?,
        None => modern::admit::admit(&params, method, &caller)?,
    };
    let part = |raw: &RawValue| Part::of(frame, raw.get());
    Ok(Request {
        id,
        method: known(method),
        message: frame.clone(),
        members: Members {
            target: target(method, &params).and_then(part),
            arguments: params.arguments.and_then(part),
            input_responses: params.input_responses.and_then(part),
            request_state: params.request_state.and_then(part),
            client_capabilities: meta.client_capabilities.and_then(part),
            client_info: meta.client_info.and_then(part),
        },
        version: admitted.version,
        wants_progress: admitted.progress_token.is_some(),
        progress_token: admitted.progress_token,
        log_level: admitted.log_level,
        flaw: admitted.flaw,
        session: session.cloned(),
        caller,
        weight: None,
        premises: None,
    })
}

/// Does a client open with this? Then [`handshake`] reads it.
pub fn is_handshake(method: &str, params: &Params<'_>) -> bool {
    method == request::INITIALIZE && !params.meta.is_some_and(|meta| meta.is_modern())
}

/// Reads the opening of a client and settles on a revision.
///
/// # Errors
/// It names no revision at all.
pub fn handshake(frame: &Bytes) -> Result<Agreement, RpcError> {
    legacy::admit::handshake(frame)
}

/// The answer to a request that neither stands alone nor belongs to a session. `None`: it does stand alone.
pub(crate) fn no_way_in(id: &RequestId, method: &str, params: &Params<'_>) -> Option<Message> {
    if params.meta.is_some_and(|meta| meta.is_modern()) {
        return None;
    }
    // Anybody may ask whether somebody is there.
    if method == request::PING {
        return Some(Message::result(jsonrpc::result(id, &json!({}))));
    }
    let words =
        "send `initialize` first, or put version and capabilities into `_meta` as 2026-07-28 does";
    let supported: Vec<_> = SERVED.iter().map(|version| version.as_str()).collect();
    let error = RpcError::invalid_params(words).with_data(json!({ "supported": supported }));
    Some(Message::error(Some(id), &error))
}

fn known(method: &str) -> Cow<'static, str> {
    match request::ALL.into_iter().find(|known| *known == method) {
        Some(known) => Cow::Borrowed(known),
        None => Cow::Owned(method.into()),
    }
}
