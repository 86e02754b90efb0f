//! The handshake, and the checks of a request in a session.

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

/// The lowest level of messages that are sent to a client that has named no level.
const LEVEL: LoggingLevel = LoggingLevel::Info;

/// A description of a client up to this size is kept as it is.
const USUAL_PROFILE: usize = 1024;
/// The bytes that are kept of a client's name if the description is longer.
const USUAL_NAME: usize = 64;

/// Capabilities of more bytes than this are not read: no client needs so many, and a few bytes can become many values.
const MOST_CAPABILITIES: usize = 16 << 10;

/// Agrees on a revision: the one that the client asks for, or the newest that has a handshake.
///
/// All other members are read as far as they can be: a client that sends too much, or sends it wrongly, still wants to work.
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
    /// Of the client's description only these members are used; the others may be long.
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
    // The client must send the description in a header later, so the members that the server does not use are removed first.
    profile.capabilities.experimental = None;
    profile.capabilities.extensions = None;
    // The name is kept, because it decides how results are presented.
    profile.client_info = profile.client_info.map(|info| {
        let name = info.name.get(..info.name.floor_char_boundary(USUAL_NAME));
        Implementation::new(name.unwrap_or(&info.name), "")
    });
    Ok(Agreement::new(agreement.version, &profile))
}

/// Reads the capabilities. A member that is `null` or cannot be read is left out, and the others are kept.
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

/// Reads the `_meta` of a request in a session.
pub(in crate::era) fn admit(
    params: &Params<'_>,
    method: &str,
    session: &Session,
) -> Result<Admitted, RpcError> {
    let meta = params.meta.unwrap_or_default();
    // Only 2026-07-28 has these methods.
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
