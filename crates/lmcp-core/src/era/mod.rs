//! Which revision a message is written in, and what an answer in that revision looks like.
//!
//! The only place of the workspace that compares versions. Past it a [`Request`] *is* valid.

pub(crate) mod legacy;
pub(crate) mod modern;

use std::borrow::Cow;

use bytes::Bytes;
use lmcp_wire::{
    self as wire, LoggingLevel, ProgressToken, ProtocolVersion, RequestId, RpcError,
    method::request, params::Params, progress::ProgressParams,
};
use serde_json::{json, value::RawValue};

use crate::{
    caller::Caller,
    outcome::Outcome,
    request::{Members, Request, target_name},
    service::Reply,
    session::{Agreement, Session},
};

/// The revisions served, newest first.
pub(crate) const SERVED: [ProtocolVersion; 5] = [
    ProtocolVersion::V2026_07_28,
    ProtocolVersion::V2025_11_25,
    ProtocolVersion::V2025_06_18,
    ProtocolVersion::V2025_03_26,
    ProtocolVersion::V2024_11_05,
];

/// What a request says of itself, beside what it wants.
pub(crate) struct Admitted {
    pub(crate) version: ProtocolVersion,
    pub(crate) progress_token: Option<ProgressToken>,
    pub(crate) log_level: Option<LoggingLevel>,
    /// What is wrong and told only after what weighs more.
    pub(crate) flaw: Option<Box<RpcError>>,
}

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
        Some(session) => legacy::admit(&meta, method, session)?,
        None => modern::admit(&meta, method, &caller)?,
    };
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
        session: session.cloned(),
        caller,
        weight: None,
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
    legacy::handshake(frame)
}

/// The answer to a request that neither stands alone nor belongs to a session. `None`: it does stand alone.
pub(crate) fn no_way_in(id: &RequestId, method: &str, params: &Params<'_>) -> Option<Reply> {
    if params.meta.is_some_and(|meta| meta.is_modern()) {
        return None;
    }
    // Anybody may ask whether somebody is there.
    if method == request::PING {
        let pong = Outcome::Acknowledged;
        return Some(legacy::shape::encode(legacy::SERVED[0], id, pong, None));
    }
    let words =
        "send `initialize` first, or put version and capabilities into `_meta` as 2026-07-28 does";
    let supported: Vec<_> = SERVED.iter().map(|version| version.as_str()).collect();
    let error = RpcError::invalid_params(words).with_data(json!({ "supported": supported }));
    Some(Reply::error(Some(id), &error))
}

/// A whole response, in the revision of the request.
pub(crate) fn encode(
    request: &Request,
    outcome: Outcome,
    extra: Option<wire::Meta>,
    server_info: &str,
) -> Reply {
    match request.session {
        Some(_) => legacy::shape::encode(request.version, &request.id, outcome, extra),
        None => modern::encode(&request.id, outcome, extra, server_info),
    }
}

/// There is no resource at a URI.
pub(crate) fn no_resource(request: &Request, uri: &str) -> RpcError {
    match request.session {
        Some(_) => legacy::shape::no_resource(uri),
        None => RpcError::invalid_params(format!("there is no resource `{uri}`"))
            .with_data(json!({ "uri": uri })),
    }
}

/// Progress, in the revision of the request.
pub(crate) fn shape_progress(request: &Request, params: &mut ProgressParams) {
    if request.session.is_some() {
        legacy::shape::progress(request.version, params);
    }
}

/// The place of a revision among those that lists are written for.
pub(crate) fn place(version: ProtocolVersion) -> usize {
    let place = SERVED.iter().position(|served| *served == version);
    place.unwrap_or_default()
}

/// How one item of a list looks in a revision.
pub(crate) trait Shown: Clone {
    /// As it is, or without what the revision does not know.
    fn shown(&self, version: ProtocolVersion) -> Cow<'_, Self>;
}

macro_rules! shown {
    ($($kind:ty => $shape:path),+ $(,)?) => {$(
        impl Shown for $kind {
            fn shown(&self, version: ProtocolVersion) -> Cow<'_, Self> {
                if legacy::SERVED.contains(&version) {
                    $shape(version, self)
                } else {
                    Cow::Borrowed(self)
                }
            }
        }
    )+};
}

shown! {
    wire::Tool => legacy::shape::tool,
    wire::Prompt => legacy::shape::prompt,
    wire::Resource => legacy::shape::resource,
    wire::ResourceTemplate => legacy::shape::template,
}

fn optional<T: serde::de::DeserializeOwned>(
    raw: Option<&RawValue>,
    key: &str,
    expected: &str,
) -> Result<Option<T>, RpcError> {
    let Some(raw) = raw else { return Ok(None) };
    let wrong = |_| RpcError::invalid_params(format!("`_meta[\"{key}\"]` must be {expected}"));
    serde_json::from_str(raw.get()).map(Some).map_err(wrong)
}

fn known(method: &str) -> Cow<'static, str> {
    match request::ALL.into_iter().find(|known| *known == method) {
        Some(known) => Cow::Borrowed(known),
        None => Cow::Owned(method.into()),
    }
}
