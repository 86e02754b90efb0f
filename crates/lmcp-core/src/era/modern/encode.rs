//! Responses of 2026-07-28: what a request came to, between the members that every result has.

use lmcp_wire::{
    Meta, RequestId, RpcError,
    discover::{CacheHint, DiscoverResult},
    error, jsonrpc,
    members::{Members, splice},
    meta,
    method::request,
};
use serde_json::value::RawValue;

use crate::{
    era::{members, versions},
    outcome::{Outcome, Payload},
};

/// A whole response.
pub(in crate::era) fn result(
    id: &RequestId,
    method: &str,
    mut outcome: Outcome,
) -> Result<Vec<u8>, RpcError> {
    if method == request::LISTEN {
        let subscription = serde_json::to_value(id).unwrap_or_default();
        let meta = outcome.meta.get_or_insert_default();
        meta.insert(meta::SUBSCRIPTION_ID.to_owned(), subscription);
    }
    let mut out = Vec::with_capacity(320);
    jsonrpc::open_result(&mut out, id);
    write(&mut out, method, outcome)?;
    out.push(b'}');
    Ok(out)
}

/// An error, as this revision says it.
pub(in crate::era) fn error(mut error: RpcError) -> RpcError {
    if error.code == error::RESOURCE_NOT_FOUND {
        error.code = error::INVALID_PARAMS;
    }
    error
}

/// The parameters of a notification that belongs to this subscription.
pub(in crate::era) fn stamped(subscription: &RequestId, params: &str) -> Vec<u8> {
    let mut params = Members::read(params).unwrap_or_default();
    let told = params.take("_meta");
    let mut told = read_meta(told.as_deref());
    told.set(meta::SUBSCRIPTION_ID, subscription);
    let mut out = b"{\"_meta\":".to_vec();
    jsonrpc::append(&mut out, &told);
    params.write(&mut out);
    out.push(b'}');
    out
}

/// A result without its envelope.
pub(in crate::era) fn write(
    out: &mut Vec<u8>,
    method: &str,
    mut outcome: Outcome,
) -> Result<(), RpcError> {
    let info = outcome.server_info.as_deref();
    let told = match &mut outcome.payload {
        Payload::Raw(raw) => return write_raw(out, method, raw, outcome.meta, info),
        Payload::CallTool(result) => result.meta.take(),
        _ => None,
    };
    out.extend_from_slice(b"{\"resultType\":\"");
    out.extend_from_slice(result_type(&outcome.payload).as_bytes());
    out.push(b'"');
    if let Payload::Discover(discovery, _) = &outcome.payload {
        let mut result = DiscoverResult::new(versions::names(), discovery.capabilities.clone());
        result.instructions.clone_from(&discovery.instructions);
        splice(out, &result);
    }
    members::write(out, &outcome.payload);
    if let Some(hint) = members::cache_hint(&outcome.payload) {
        splice(out, &hint);
    }
    let merged = match (told, outcome.meta) {
        (Some(mut told), Some(more)) => {
            told.extend(more);
            Some(told)
        }
        (told, more) => told.or(more),
    };
    write_meta(out, merged, info);
    out.push(b'}');
    Ok(())
}

/// `_meta`, with who answered.
fn write_meta(out: &mut Vec<u8>, told: Option<Meta>, info: Option<&str>) {
    let Some(info) = info else {
        if let Some(told) = told.filter(|told| !told.is_empty()) {
            out.extend_from_slice(b",\"_meta\":");
            jsonrpc::append(out, &told);
        }
        return;
    };
    out.extend_from_slice(b",\"_meta\":{\"io.modelcontextprotocol/serverInfo\":");
    out.extend_from_slice(info.as_bytes());
    if let Some(mut told) = told {
        told.remove(meta::SERVER_INFO);
        splice(out, &told);
    }
    out.push(b'}');
}

/// A result that is passed on: as it is, with what every result must have and this one may lack.
fn write_raw(
    out: &mut Vec<u8>,
    method: &str,
    raw: &RawValue,
    more: Option<Meta>,
    info: Option<&str>,
) -> Result<(), RpcError> {
    let no_object = |_| RpcError::internal("the result that is passed on is no object");
    let mut result = Members::read(raw.get()).map_err(no_object)?;
    let kind = result.take("resultType");
    let kind = kind.as_ref().map_or("\"complete\"", |kind| kind.get());
    let told = result.take("_meta");
    let mut told = read_meta(told.as_deref());
    if method == request::DISCOVER {
        // The answer to a handshake says the same in other words.
        result.take("protocolVersion");
        if let Some(info) = result.take("serverInfo") {
            told.set(meta::SERVER_INFO, &*info);
        }
        result.set("supportedVersions", &versions::names());
    }
    if kind == "\"complete\"" && members::CACHED.contains(&method) && result.get("ttlMs").is_none()
    {
        let hint = CacheHint::private(0);
        result.set("ttlMs", &hint.ttl_ms);
        result.set("cacheScope", &hint.cache_scope);
    }
    for (key, value) in more.into_iter().flatten() {
        told.set(key, &value);
    }
    let info = info.and_then(|info| serde_json::from_str::<&RawValue>(info).ok());
    if let Some(info) = info.filter(|_| told.get(meta::SERVER_INFO).is_none()) {
        told.set(meta::SERVER_INFO, info);
    }
    out.extend_from_slice(b"{\"resultType\":");
    out.extend_from_slice(kind.as_bytes());
    result.write(out);
    if !told.is_empty() {
        out.extend_from_slice(b",\"_meta\":");
        jsonrpc::append(out, &told);
    }
    out.push(b'}');
    Ok(())
}

fn read_meta(meta: Option<&RawValue>) -> Members<'_> {
    let members = meta.and_then(|meta| Members::read(meta.get()).ok());
    members.unwrap_or_default()
}

fn result_type(payload: &Payload) -> &'static str {
    match payload {
        Payload::InputRequired(_) => "input_required",
        Payload::TaskCreated(_) => "task",
        Payload::CallTool(_)
        | Payload::GetPrompt(_)
        | Payload::ReadResource(..)
        | Payload::Complete(_)
        | Payload::Discover(..)
        | Payload::List(..)
        | Payload::Task(_)
        | Payload::Acknowledged
        | Payload::Raw(_) => "complete",
    }
}
