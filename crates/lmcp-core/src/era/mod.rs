//! Which revision a message is written in, and what an answer in that revision looks like.
//!
//! The only place of the workspace that compares versions. Past it a [`Request`] *is* valid.

pub(crate) mod modern;

use std::borrow::Cow;

use bytes::Bytes;
use lmcp_wire::{ProtocolVersion, RequestId, RpcError, jsonrpc, method, params::Params};
use serde_json::value::RawValue;

use crate::request::{Caller, Members, Request, target_name};

/// The revisions served, newest first.
pub(crate) const SERVED: [ProtocolVersion; 1] = [ProtocolVersion::V2026_07_28];

/// Turns a request message into a valid [`Request`], or says what is wrong with it.
///
/// `frame` is the message that `method` and `params` were read from.
///
/// # Errors
/// The JSON-RPC error to answer with.
pub fn admit(
    frame: &Bytes,
    id: RequestId,
    method: &str,
    params: Params<'_>,
    caller: Caller,
) -> Result<Request, RpcError> {
    let meta = params.meta.unwrap_or_default();
    if method == method::request::INITIALIZE && !meta.is_modern() {
        let mut error = RpcError::unsupported_version(&requested(frame), &SERVED);
        error.message = "`initialize` is not served: 2026-07-28 has no handshake; \
                         send `server/discover`, with `_meta`"
            .into();
        return Err(error);
    }
    let admitted = modern::admit(&meta, method, &caller)?;
    let target = match target_name(method) {
        "uri" => params.uri,
        "taskId" => params.task_id,
        _ => params.name,
    };
    // The same bytes, kept alive by the message they stand in.
    let part = |raw: &RawValue| frame.slice_ref(raw.get().as_bytes());
    Ok(Request {
        id,
        method: known(method),
        message: frame.clone(),
        members: Members {
            target: target.map(part),
            arguments: params.arguments.map(part),
            input_responses: params.input_responses.map(part),
            request_state: params.request_state.map(part),
        },
        version: admitted.version,
        progress_token: admitted.progress_token,
        log_level: admitted.log_level,
        flaw: admitted.flaw,
        caller,
    })
}

/// The version a legacy client asks for, as far as it can be read.
fn requested(frame: &Bytes) -> String {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Initialize {
        protocol_version: String,
    }
    let text = std::str::from_utf8(frame).unwrap_or_default();
    jsonrpc::params::<Initialize>(text)
        .map(|params| params.protocol_version)
        .unwrap_or_default()
}

fn known(method: &str) -> Cow<'static, str> {
    match method::request::ALL
        .into_iter()
        .find(|known| *known == method)
    {
        Some(known) => Cow::Borrowed(known),
        None => Cow::Owned(method.into()),
    }
}
