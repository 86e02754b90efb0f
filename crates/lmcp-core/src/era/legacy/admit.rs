//! The handshake, and what a request of a session must be.

use bytes::Bytes;
use lmcp_wire::{
    ClientCapabilities, Implementation, LoggingLevel, Object, RpcError, jsonrpc,
    legacy::ClientProfile,
    method::request,
    name::{Beginning, Name},
    params::Params,
};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use crate::{
    era::{Admitted, optional, versions::LEGACY},
    session::{Agreement, Session},
};

/// From which level on messages are sent to a client that has not said.
const LEVEL: LoggingLevel = LoggingLevel::Info;

/// What a client of this size says of itself is kept as it is.
const USUAL_PROFILE: usize = 1024;
/// Bytes of a client's name that are kept of one that says too much.
const USUAL_NAME: usize = 64;

/// Capabilities of more bytes than this are not read: no client has so many, and a few bytes become many values.
const MOST_CAPABILITIES: usize = 16 << 10;

/// Settles on a revision: the one asked for, or the newest that has a handshake.
///
/// Everything else a client says is taken as far as it can be read: a client that says too much, or says it wrongly,
/// still wants to work.
pub(in crate::era) fn handshake(message: &Bytes) -> Result<Agreement, RpcError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Opening<'a> {
        #[serde(borrow)]
        protocol_version: Name<'a>,
        #[serde(borrow, default)]
        capabilities: Option<&'a RawValue>,
        #[serde(borrow, default)]
        client_info: Option<&'a RawValue>,
    }
    /// The rest, which may be long, is of no use here.
    #[derive(Deserialize)]
    struct Client<'a> {
        #[serde(borrow)]
        name: Name<'a>,
        #[serde(borrow)]
        version: Name<'a>,
    }
    let text = std::str::from_utf8(message).unwrap_or_default();
    let opening: Opening<'_> = jsonrpc::params(text).map_err(|err| {
        let err = Beginning(err);
        RpcError::invalid_params(format!("the params of `initialize` do not fit: {err}"))
    })?;
    let asked = opening.protocol_version.0.parse().ok();
    let version = asked.filter(|asked| LEGACY.contains(asked));
    let mut profile = ClientProfile::default();
    profile.capabilities = opening
        .capabilities
        .map_or_else(Default::default, capabilities);
    profile.client_info = opening
        .client_info
        .and_then(|info| serde_json::from_str(info.get()).ok())
        .map(|Client { name, version }| Implementation::new(name.0, version.0));
    let agreement = Agreement::new(version.unwrap_or(LEGACY[0]), &profile);
    if agreement.profile.len() <= USUAL_PROFILE {
        return Ok(agreement);
    }
    // The client is to carry this in a header: what nobody here can act on goes first.
    profile.capabilities.experimental = None;
    profile.capabilities.extensions = None;
    // Its name decides how results are presented.
    profile.client_info = profile.client_info.map(|info| {
        let name = info.name.get(..info.name.floor_char_boundary(USUAL_NAME));
        Implementation::new(name.unwrap_or(&info.name), "")
    });
    Ok(Agreement::new(agreement.version, &profile))
}

/// What can be read of it: a member that is `null` or wrong is not there, and takes no other with it.
fn capabilities(declared: &RawValue) -> ClientCapabilities {
    let members = Some(declared.get()).filter(|text| text.len() <= MOST_CAPABILITIES);
    let Some(Ok(Value::Object(members))) = members.map(serde_json::from_str) else {
        return ClientCapabilities::default();
    };
    let readable = |(name, value): &(String, Value)| {
        let alone = Value::Object([(name.clone(), value.clone())].into_iter().collect());
        !value.is_null() && serde_json::from_value::<ClientCapabilities>(alone).is_ok()
    };
    let there: Object = members.into_iter().filter(readable).collect();
    serde_json::from_value(Value::Object(there)).unwrap_or_default()
}

/// What a request of a session says in its `_meta`.
pub(in crate::era) fn admit(
    params: &Params<'_>,
    method: &str,
    session: &Session,
) -> Result<Admitted, RpcError> {
    let meta = params.meta.unwrap_or_default();
    // What only 2026-07-28 has.
    if matches!(method, request::DISCOVER | request::LISTEN) || method.starts_with("tasks/") {
        return Err(RpcError::method_not_found(method));
    }
    let token = optional(
        meta.progress_token,
        "progressToken",
        "a string or an integer",
    );
    let (progress_token, flaw) = match token {
        Ok(token) => (token, None),
        Err(error) => (None, Some(Box::new(error))),
    };
    Ok(Admitted {
        version: session.version(),
        progress_token,
        log_level: Some(LEVEL),
        flaw,
    })
}
