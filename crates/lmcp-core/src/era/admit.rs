//! The way in: turns a message into a valid [`Request`]. This file knows the newest revision; `legacy/admit` knows those with
//! sessions.

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

/// Makes a request of a program's own, under the name of the program and in the newest revision.
///
/// # Errors
/// The same as for [`admit`].
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
/// `frame` is the message that `method` and `params` were read from. If the `_meta` of a message says that it stands alone, it
/// stands alone. Any other message belongs to the session, if there is one.
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
    // After this point names are copied, compared and repeated: a name of megabytes must not get there.
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

/// Checks the members that a request that stands alone must have: version, capabilities, method and name, everything that can
/// be checked without the offers of the server. The checks are in the order of the specification's Streamable HTTP page, and
/// the peer is told the first fault.
fn stands_alone(params: &Params<'_>, method: &str, caller: &Caller) -> Result<Admitted, RpcError> {
    let meta = params.meta.unwrap_or_default();
    let headers = caller.headers();
    // The first check: a modern request over HTTP must have the header. The two can be compared only once the version is read.
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
        // This revision is served, but its requests do not stand alone.
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
    // A name that is no string is reported later, by the code that answers the method.
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

/// Whether the message opens a session. In this case [`handshake`] reads it.
pub fn is_handshake(method: &str, params: &Params<'_>) -> bool {
    method == request::INITIALIZE && !params.meta.is_some_and(|meta| meta.is_modern())
}

/// Reads the handshake of a client and agrees on a revision.
///
/// # Errors
/// The message names no revision.
pub fn handshake(frame: &Bytes) -> Result<Agreement, RpcError> {
    legacy::admit::handshake(frame)
}

/// The error for a request that neither stands alone nor belongs to a session. `None`: the request stands alone.
pub(crate) fn no_way_in(id: &RequestId, method: &str, params: &Params<'_>) -> Option<Message> {
    if params.meta.is_some_and(|meta| meta.is_modern()) {
        return None;
    }
    // A ping is answered without a session.
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

/// Whether this revision has removed the method.
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

/// Whether a header repeats the name that the method is about.
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
