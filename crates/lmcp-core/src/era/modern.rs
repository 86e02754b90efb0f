//! 2026-07-28: every request stands alone, with its version, capabilities and, on HTTP, mirrored headers.
//!
//! The order of the checks follows the specification's Streamable HTTP page: what a peer gets wrong first is what it
//! is told.

use lmcp_wire::{
    self as wire, ProtocolVersion, RequestId, RpcError, header, jsonrpc, meta, meta::RequestMeta,
};
use serde_json::Value;

use super::{Admitted, optional};
use crate::{
    caller::{Caller, HeaderValue, Headers},
    outcome::Outcome,
    request::{Request, string},
    service::Reply,
};

/// The revisions in which every request stands alone.
const SERVED: [ProtocolVersion; 1] = [ProtocolVersion::V2026_07_28];

/// Version, capabilities and method: everything that can be checked without knowing what the server offers.
pub(crate) fn admit(
    meta: &RequestMeta<'_>,
    method: &str,
    caller: &Caller,
) -> Result<Admitted, RpcError> {
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
        Ok(version) if SERVED.contains(&version) => version,
        // One that is served, only not so.
        Ok(_) => {
            let mut error = RpcError::unsupported_version(&version, &SERVED);
            error.message =
                format!("`{version}` begins with `initialize`, not with `_meta`").into();
            return Err(error);
        }
        Err(_) => return Err(RpcError::unsupported_version(&version, &super::SERVED)),
    };
    if let Some(headers) = headers {
        let mirrored = expect_header(headers, header::METHOD)?;
        if mirrored != method {
            return Err(differs(header::METHOD, mirrored, "method", method));
        }
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

/// The headers that repeat parts of the body: over HTTP, and only in this revision.
fn mirrors_of(request: &Request) -> Option<&dyn Headers> {
    request
        .caller
        .headers()
        .filter(|_| request.session.is_none())
}

/// `Mcp-Name` repeats the tool, prompt, resource or task of the body.
pub(crate) fn check_name(request: &Request, name: &str) -> Result<(), RpcError> {
    let Some(headers) = mirrors_of(request) else {
        return Ok(());
    };
    let mirrored = expect_header(headers, header::NAME)?;
    let Some(decoded) = header::decode(mirrored) else {
        return Err(undecodable(header::NAME, mirrored));
    };
    if decoded == name {
        Ok(())
    } else {
        Err(differs(header::NAME, &decoded, "the body", name))
    }
}

/// `Mcp-Param-*` repeats the arguments whose schema asks for it.
pub(crate) fn check_params(
    request: &Request,
    mirrored: &[lmcp_schema::HeaderParam],
    arguments: &Value,
) -> Result<(), RpcError> {
    let Some(headers) = mirrors_of(request) else {
        return Ok(());
    };
    for param in mirrored {
        let name = format!(
            "{}{}",
            header::PARAM_PREFIX,
            param.name.to_ascii_lowercase()
        );
        let value = param
            .path
            .iter()
            .try_fold(arguments, |value, key| value.get(key))
            .filter(|value| !value.is_null());
        // What cannot be mirrored at all is for the schema to refuse, in words a model can act on.
        if value.is_some_and(|value| value.is_array() || value.is_object()) {
            continue;
        }
        match (headers.get(&name), value) {
            (HeaderValue::Absent, None) => {}
            (HeaderValue::Absent, Some(_)) => return Err(absent(&name)),
            (HeaderValue::Malformed, _) => return Err(malformed(&name)),
            (HeaderValue::Text(text), value) => {
                let Some(decoded) = header::decode(text) else {
                    return Err(undecodable(&name, text));
                };
                if !value.is_some_and(|value| mirrors(&decoded, value)) {
                    let value = value.map_or_else(|| "nothing".into(), Value::to_string);
                    return Err(differs(&name, &decoded, "the body", &value));
                }
            }
        }
    }
    Ok(())
}

/// A header repeats a value: integers by number, everything else by its text.
fn mirrors(text: &str, value: &Value) -> bool {
    match value {
        Value::String(string) => string == text,
        Value::Bool(flag) => text == if *flag { "true" } else { "false" },
        // Only integers that a double holds exactly may be mirrored, so that everybody compares the same.
        Value::Number(number) => {
            let number = number
                .as_f64()
                .filter(|number| number.abs() < 9_007_199_254_740_992.0);
            number.is_some() && text.parse().ok() == number
        }
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    }
}

fn expect_header<'a>(headers: &'a dyn Headers, name: &str) -> Result<&'a str, RpcError> {
    match headers.get(name) {
        HeaderValue::Text(text) => Ok(text.trim_matches([' ', '\t'])),
        HeaderValue::Absent => Err(absent(name)),
        HeaderValue::Malformed => Err(malformed(name)),
    }
}

fn missing(key: &str, expected: &str) -> RpcError {
    RpcError::invalid_params(format!("`params._meta[\"{key}\"]` must be {expected}"))
}

fn absent(name: &str) -> RpcError {
    RpcError::header_mismatch(format!("header `{name}` is missing"))
}

fn malformed(name: &str) -> RpcError {
    RpcError::header_mismatch(format!(
        "header `{name}` must be sent once, as visible ASCII"
    ))
}

fn undecodable(name: &str, value: &str) -> RpcError {
    RpcError::header_mismatch(format!("header `{name}` is not a valid value: `{value}`"))
}

fn differs(name: &str, mirrored: &str, place: &str, value: &str) -> RpcError {
    RpcError::header_mismatch(format!(
        "header `{name}` says `{mirrored}` where {place} has `{value}`"
    ))
}

/// A whole response in this revision.
pub(crate) fn encode(
    id: &RequestId,
    outcome: Outcome,
    extra: Option<wire::Meta>,
    server_info: &str,
) -> Reply {
    let mut out = Vec::with_capacity(320);
    jsonrpc::open_result(&mut out, id);
    write_body(&mut out, outcome, extra, server_info);
    out.push(b'}');
    Reply::encoded_result(out)
}

/// A result: its own members between the ones every result of this revision has.
pub(crate) fn write_body(
    out: &mut Vec<u8>,
    mut outcome: Outcome,
    extra: Option<wire::Meta>,
    server_info: &str,
) {
    let told = outcome.take_meta();
    out.extend_from_slice(b"{\"resultType\":\"");
    out.extend_from_slice(outcome.result_type().as_bytes());
    out.push(b'"');
    outcome.write_members(out);
    if let Some(hint) = outcome.cache_hint() {
        splice(out, &hint);
    }
    out.extend_from_slice(b",\"_meta\":{\"io.modelcontextprotocol/serverInfo\":");
    out.extend_from_slice(server_info.as_bytes());
    if let Some(mut merged) = told.or_else(|| extra.is_some().then(wire::Meta::new)) {
        merged.extend(extra.into_iter().flatten());
        merged.remove(meta::SERVER_INFO);
        splice(out, &merged);
    }
    out.extend_from_slice(b"}}");
}

/// Writes the members of an object behind those already there: `,"a":1` for `{"a":1}`.
pub(crate) fn splice<T: serde::Serialize + ?Sized>(out: &mut Vec<u8>, object: &T) {
    let start = out.len();
    jsonrpc::append(out, object);
    if out.len() - start <= "{}".len() {
        out.truncate(start);
    } else {
        out[start] = b',';
        out.pop();
    }
}
