//! What a request must say of itself.
//!
//! The order of the checks follows the specification's Streamable HTTP page: what a peer gets wrong first is what it
//! is told.

use lmcp_wire::{RpcError, header, meta, method::request, params::Params};

use crate::{
    caller::Caller,
    era::{
        Admitted, optional, target,
        versions::{MODERN, SERVED},
    },
    mirror::{check_name, differs, expect_header},
    request::string,
};

/// Version, capabilities, method and name: everything that can be checked without knowing what the server offers.
pub(in crate::era) fn admit(
    params: &Params<'_>,
    method: &str,
    caller: &Caller,
) -> Result<Admitted, RpcError> {
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
