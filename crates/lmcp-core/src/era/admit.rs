//! The way in: a message becomes a valid [`Request`] of some revision, here of the newest; those of sessions are `legacy/admit`.

use std::borrow::Cow;

use bytes::Bytes;
use lmcp_wire::{
    Incoming, ProtocolVersion, RequestId, RpcError, header, jsonrpc, meta, method::request,
    name::expect_short, params::Params,
};
use serde_json::{Value, json};

use super::{
    Admitted, legacy, optional,
    versions::{MODERN, SERVED},
};
use crate::{
    beneficiary,
    caller::{Caller, Transport},
    extensions::Extensions,
    message::Message,
    mirror::{check_name, differs, expect_header},
    request::{Members, Request, string, target},
    session::{Agreement, Session},
};

/// A request that a program makes for itself, under this name and in the newest revision.
///
/// # Errors
/// As for [`admit`].
pub fn own_request(
    program: &str,
    version: &str,
    method: &str,
    mut params: Value,
) -> Result<Request, RpcError> {
    params["_meta"] = json!({
        meta::PROTOCOL_VERSION: ProtocolVersion::NEWEST.as_str(),
        meta::CLIENT_INFO: { "name": program, "version": version },
        meta::CLIENT_CAPABILITIES: {},
    });
    let message = json!({ "jsonrpc": "2.0", "id": 0, "method": method, "params": params });
    let message = Bytes::from(message.to_string());
    match Incoming::parse(&message) {
        Ok(Incoming::Request { id, method, params }) => {
            let caller = Caller::new(Transport::Memory);
            admit(&message, id, &method, params, caller, None)
        }
        Ok(_) => Err(RpcError::internal("a request of our own is none")),
        Err(rejected) => Err(rejected.error),
    }
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
    // Past here names are copied, compared and repeated: one of megabytes does not get there.
    for (member, raw) in [
        ("name", params.name),
        ("uri", params.uri),
        ("taskId", params.task_id),
        (meta::PROTOCOL_VERSION, meta.protocol_version),
    ] {
        expect_short(member, raw)?;
    }
    let session = session.filter(|_| !meta.is_modern());
    let admitted = match session {
        Some(session) => legacy::admit::admit(&params, method, session)?,
        None => stands_alone(&params, method, &caller)?,
    };
    let caller = match beneficiary::read(meta.beneficiary)? {
        Some(name) => caller.acting_for(&name),
        None => caller,
    };
    Ok(Request {
        id,
        method: known(method),
        message: frame.clone(),
        members: Members::cut(frame, method, &params),
        version: admitted.version,
        wants_progress: admitted.progress_token.is_some(),
        progress_token: admitted.progress_token,
        log_level: admitted.log_level,
        flaw: admitted.flaw,
        session: session.cloned(),
        caller,
        extensions: Extensions::default(),
        weight: None,
        premises: None,
    })
}

/// What a request that stands alone must say of itself: version, capabilities, method and name, everything that can be checked
/// without knowing what the server offers. The order of the checks follows the specification's Streamable HTTP page: what a
/// peer gets wrong first is what it is told.
fn stands_alone(params: &Params<'_>, method: &str, caller: &Caller) -> Result<Admitted, RpcError> {
    let meta = params.meta.unwrap_or_default();
    let headers = caller.headers();
    // First of all, a modern request over HTTP has the header; that it agrees can be told only once there is a version.
    let mirrored = match headers {
        Some(headers) if meta.is_modern() => {
            Some(expect_header(headers, header::PROTOCOL_VERSION)?)
        }
        _ => None,
    };
    let Some(version) = meta
        .protocol_version
        .and_then(|raw| string(raw.get().as_bytes()))
    else {
        return Err(missing(meta::PROTOCOL_VERSION, "a string"));
    };
    if !meta
        .client_capabilities
        .is_some_and(|raw| raw.get().starts_with('{'))
    {
        return Err(missing(meta::CLIENT_CAPABILITIES, "an object"));
    }
    if let Some(mirrored) = mirrored.filter(|mirrored| *mirrored != version) {
        return Err(differs(
            header::PROTOCOL_VERSION,
            mirrored,
            meta::PROTOCOL_VERSION,
            &version,
        ));
    }
    let version = match version.parse() {
        Ok(version) if MODERN.contains(&version) => version,
        // One that is served, only not so.
        Ok(_) => {
            let mut error = RpcError::unsupported_version(&version, &MODERN);
            error.message =
                format!("`{version}` begins with `initialize`, not with `_meta`").into();
            return Err(error);
        }
        Err(_) => return Err(RpcError::unsupported_version(&version, &SERVED)),
    };
    if let Some(headers) = headers {
        let mirrored = expect_header(headers, header::METHOD)?;
        if mirrored != method {
            return Err(differs(header::METHOD, mirrored, "method", method));
        }
    }
    if is_removed(method) {
        return Err(RpcError::method_not_found(method));
    }
    // Whoever answers tells of a name that is no string.
    if let Some(headers) = headers.filter(|_| is_named(method))
        && let Some(name) = target(method, params).and_then(|raw| string(raw.get().as_bytes()))
    {
        check_name(headers, &name)?;
    }
    let token = optional(
        meta.progress_token,
        "progressToken",
        "a string or an integer",
    );
    let level = optional(meta.log_level, meta::LOG_LEVEL, "a log level");
    let (progress_token, log_level, flaw) = match (token, level) {
        (Ok(token), Ok(level)) => (token, level, None),
        (Err(error), _) | (_, Err(error)) => (None, None, Some(Box::new(error))),
    };
    Ok(Admitted {
        version,
        progress_token,
        log_level,
        flaw,
    })
}

fn missing(key: &str, expected: &str) -> RpcError {
    RpcError::invalid_params(format!("`params._meta[\"{key}\"]` must be {expected}"))
}

/// Whether the message opens a session. Then [`handshake`] reads it.
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

/// Does this revision have the method no longer?
fn is_removed(method: &str) -> bool {
    matches!(
        method,
        request::INITIALIZE
            | request::PING
            | request::SET_LEVEL
            | request::SUBSCRIBE
            | request::UNSUBSCRIBE
    )
}

/// Is the method about something that a header names, too?
fn is_named(method: &str) -> bool {
    matches!(
        method,
        request::TOOLS_CALL
            | request::RESOURCES_READ
            | request::PROMPTS_GET
            | request::TASKS_GET
            | request::TASKS_UPDATE
            | request::TASKS_CANCEL
    )
}
