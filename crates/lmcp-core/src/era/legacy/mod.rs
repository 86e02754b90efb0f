//! 2024-11-05 to 2025-11-25: a handshake first, and then a session in which both sides may ask.
//!
//! | file | what lives there |
//! |---|---|
//! | `mod` | the handshake, and what a request of a session must be |
//! | `shape` | results, lists and notifications as each revision knows them |
//! | `question` | what a client is asked, likewise |

pub(crate) mod question;
pub(crate) mod shape;

use bytes::Bytes;
use lmcp_wire::{
    ClientCapabilities, Implementation, LoggingLevel, Object, ProtocolVersion, RpcError, jsonrpc,
    legacy::ClientProfile, meta::RequestMeta, method::request,
};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::{Admitted, optional};
use crate::session::{Agreement, Session};

/// The revisions with a handshake, newest first.
pub(crate) const SERVED: [ProtocolVersion; 4] = [
    ProtocolVersion::V2025_11_25,
    ProtocolVersion::V2025_06_18,
    ProtocolVersion::V2025_03_26,
    ProtocolVersion::V2024_11_05,
];

/// From which level on messages are sent to a client that has not said.
pub(crate) const LEVEL: LoggingLevel = LoggingLevel::Info;

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
pub(crate) fn handshake(message: &Bytes) -> Result<Agreement, RpcError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Opening<'a> {
        protocol_version: String,
        #[serde(borrow, default)]
        capabilities: Option<&'a RawValue>,
        #[serde(borrow, default)]
        client_info: Option<&'a RawValue>,
    }
    /// The rest, which may be long, is of no use here.
    #[derive(Deserialize)]
    struct Name {
        name: String,
        version: String,
    }
    let text = std::str::from_utf8(message).unwrap_or_default();
    let opening: Opening<'_> = jsonrpc::params(text).map_err(|err| {
        RpcError::invalid_params(format!("the params of `initialize` do not fit: {err}"))
    })?;
    let asked = opening.protocol_version.parse().ok();
    let version = asked.filter(|asked| SERVED.contains(asked));
    let mut profile = ClientProfile::default();
    profile.capabilities = opening
        .capabilities
        .map_or_else(Default::default, capabilities);
    profile.client_info = opening
        .client_info
        .and_then(|info| serde_json::from_str(info.get()).ok())
        .map(|Name { name, version }| Implementation::new(name, version));
    let agreement = Agreement::new(version.unwrap_or(SERVED[0]), &profile);
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
pub(crate) fn admit(
    meta: &RequestMeta<'_>,
    method: &str,
    session: &Session,
) -> Result<Admitted, RpcError> {
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
        log_level: None,
        flaw,
    })
}

/// The revision of an HTTP request that has no session, by its header. `None`: one in which requests stand alone.
pub(crate) fn assumed(header: Option<&str>) -> Result<Option<ProtocolVersion>, RpcError> {
    let Some(header) = header else {
        // The specification's word for clients that say nothing.
        return Ok(Some(ProtocolVersion::V2025_03_26));
    };
    match header.trim().parse() {
        Ok(version) => Ok(Some(version).filter(|known| SERVED.contains(known))),
        Err(_) => Err(RpcError::unsupported_version(header, &super::SERVED)),
    }
}

pub(crate) fn has_batches(version: ProtocolVersion) -> bool {
    version == ProtocolVersion::V2025_03_26
}

pub(crate) fn has_priming(version: ProtocolVersion) -> bool {
    version >= ProtocolVersion::V2025_11_25
}

/// Takes away what the revision does not have, whatever a client declares.
pub(crate) fn trim_capabilities(version: ProtocolVersion, capabilities: &mut ClientCapabilities) {
    if version < ProtocolVersion::V2025_06_18 {
        capabilities.elicitation = None;
    }
    if version < ProtocolVersion::V2025_11_25 {
        if let Some(modes) = &mut capabilities.elicitation {
            modes.url = None;
            modes.form = Some(Object::new());
        }
        if let Some(sampling) = &mut capabilities.sampling {
            sampling.tools = None;
        }
    }
    // Tasks as they are today came with 2026-07-28.
    if let Some(extensions) = &mut capabilities.extensions {
        extensions.remove(lmcp_wire::task::EXTENSION);
    }
}
