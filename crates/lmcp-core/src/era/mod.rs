//! Which revision a message is written in, and what an answer in that revision looks like.
//!
//! The only place of the workspace that compares versions. Past it a [`Request`] *is* valid.

pub(crate) mod modern;

use std::borrow::Cow;

use bytes::Bytes;
use lmcp_wire::{self as wire, ProtocolVersion, RequestId, RpcError, meta::RequestMeta, method};
use serde_json::value::RawValue;

use crate::request::{Caller, Request};

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
    params: Option<&RawValue>,
    caller: Caller,
) -> Result<Request, RpcError> {
    let head: wire::meta::ParamsHead<'_> = read("params", params)?;
    let meta: RequestMeta<'_> = read("_meta", head.meta)?;
    if method == method::request::INITIALIZE && !meta.is_modern() {
        return Err(RpcError::unsupported_version(&requested(params), &SERVED));
    }
    modern::admit(&meta, method, &caller).map(|admitted| Request {
        id,
        method: known(method),
        params: part(frame, params),
        meta: part(frame, head.meta),
        version: admitted.version,
        progress_token: admitted.progress_token,
        log_level: admitted.log_level,
        caller,
    })
}

/// The version a legacy client asks for, as far as it can be read.
fn requested(params: Option<&RawValue>) -> String {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Initialize {
        protocol_version: String,
    }
    let params = params.map_or("{}", RawValue::get);
    serde_json::from_str::<Initialize>(params)
        .map(|params| params.protocol_version)
        .unwrap_or_default()
}

fn read<'a, T: serde::Deserialize<'a> + Default>(
    what: &str,
    raw: Option<&'a RawValue>,
) -> Result<T, RpcError> {
    let Some(raw) = raw else {
        return Ok(T::default());
    };
    serde_json::from_str(raw.get())
        .map_err(|err| RpcError::invalid_params(format!("`{what}` does not fit: {err}")))
}

/// The same bytes as `raw`, kept alive by the message they stand in.
fn part(frame: &Bytes, raw: Option<&RawValue>) -> Bytes {
    raw.map_or(Bytes::from_static(b"{}"), |raw| {
        frame.slice_ref(raw.get().as_bytes())
    })
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
