//! JSON-RPC errors, and every numeric code of the project.
//!
//! The specification describes on its page `basic/index` what a code means, and when a server may send it. No other file of the
//! workspace writes a code as a number.

use std::{borrow::Cow, fmt};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    capability::ClientCapabilities, name::Beginning, shape::present, version::ProtocolVersion,
};

/// The line was not JSON.
pub const PARSE_ERROR: i64 = -32700;
/// The JSON was not a JSON-RPC message this server takes.
pub const INVALID_REQUEST: i64 = -32600;
/// The method is not known, or belongs to a feature that is not offered.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// The parameters are wrong: also an unknown tool, prompt, resource, task or cursor.
pub const INVALID_PARAMS: i64 = -32602;
/// The server failed.
pub const INTERNAL_ERROR: i64 = -32603;
/// There is no such resource. Older revisions; since 2026-07-28 that is [`INVALID_PARAMS`].
pub const RESOURCE_NOT_FOUND: i64 = -32002;
/// A header and the body disagree, or a header is missing or malformed.
pub const HEADER_MISMATCH: i64 = -32020;
/// The request needs a client capability that it did not declare.
pub const MISSING_CLIENT_CAPABILITY: i64 = -32021;
/// The protocol revision is not served.
pub const UNSUPPORTED_VERSION: i64 = -32022;

/// The `error` member of a response, which the peer *program* reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RpcError {
    /// The code: one of this module, or one that the application defines outside of -32768…-32000.
    pub code: i64,
    /// The message: one sentence.
    pub message: Cow<'static, str>,
    /// Data that a program can act on. `null` is a value, too.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub data: Option<Value>,
}

impl RpcError {
    /// An error of any code.
    pub fn new(code: i64, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            message: message.into(),
            data: None,
        }
    }

    /// The same error with `data`.
    #[must_use]
    pub fn with_data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    /// [`PARSE_ERROR`]
    pub fn parse(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(PARSE_ERROR, message)
    }

    /// [`INVALID_REQUEST`]
    pub fn invalid_request(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(INVALID_REQUEST, message)
    }

    /// [`METHOD_NOT_FOUND`]
    pub fn method_not_found(method: &str) -> Self {
        Self::new(
            METHOD_NOT_FOUND,
            format!(
                "method `{}` is not offered by this server",
                Beginning(method)
            ),
        )
    }

    /// [`INVALID_PARAMS`]
    pub fn invalid_params(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(INVALID_PARAMS, message)
    }

    /// [`INTERNAL_ERROR`]
    pub fn internal(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(INTERNAL_ERROR, message)
    }

    /// [`HEADER_MISMATCH`]
    pub fn header_mismatch(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(HEADER_MISMATCH, message)
    }

    /// [`MISSING_CLIENT_CAPABILITY`], which names the capabilities that are needed.
    pub fn missing_capability(needed: &ClientCapabilities) -> Self {
        let data = json!({ "requiredCapabilities": needed });
        let names = data["requiredCapabilities"].to_string();
        Self::new(
            MISSING_CLIENT_CAPABILITY,
            format!("the client did not declare a capability this needs: {names}"),
        )
        .with_data(data)
    }

    /// [`UNSUPPORTED_VERSION`], which names the revisions that are supported.
    pub fn unsupported_version(requested: &str, supported: &[ProtocolVersion]) -> Self {
        let supported: Vec<_> = supported.iter().map(|version| version.as_str()).collect();
        let requested = Beginning(requested).to_string();
        Self::new(
            UNSUPPORTED_VERSION,
            format!(
                "protocol version `{requested}` is not supported; use {}",
                supported.join(" or ")
            ),
        )
        .with_data(json!({ "supported": supported, "requested": requested }))
    }
}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl std::error::Error for RpcError {}
