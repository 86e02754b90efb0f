//! `_meta`: members that travel with parameters and results, and the names of the two sides.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{Object, content::Icon};

/// Protocol revision of a request.
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// Capabilities of the client, for this request.
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// The name and version of the client.
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// Level from which the client wants log messages.
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// The name and version of the server.
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// The subscription a notification belongs to.
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
/// The name of the caller that a hub makes a request for. Part of lmcp, not of MCP.
pub const FOR: &str = "lmcp/for";
/// The key of a question, in revisions that have none. Part of lmcp, not of MCP, and only used inside of one process.
pub const KEY: &str = "lmcp/key";

/// A `_meta` object.
pub type Meta = Object;

/// The members of a request's `_meta` that this protocol defines, still raw: so the reader of a member can tell a wrong type
/// from an absent one.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(expecting = "an object")]
#[non_exhaustive]
pub struct RequestMeta<'a> {
    /// [`PROTOCOL_VERSION`]
    #[serde(borrow, default, rename = "io.modelcontextprotocol/protocolVersion")]
    pub protocol_version: Option<&'a RawValue>,
    /// [`CLIENT_CAPABILITIES`]
    #[serde(borrow, default, rename = "io.modelcontextprotocol/clientCapabilities")]
    pub client_capabilities: Option<&'a RawValue>,
    /// [`CLIENT_INFO`]
    #[serde(borrow, default, rename = "io.modelcontextprotocol/clientInfo")]
    pub client_info: Option<&'a RawValue>,
    /// [`LOG_LEVEL`]
    #[serde(borrow, default, rename = "io.modelcontextprotocol/logLevel")]
    pub log_level: Option<&'a RawValue>,
    /// [`FOR`]
    #[serde(borrow, default, rename = "lmcp/for")]
    pub beneficiary: Option<&'a RawValue>,
    /// The token that asks for progress.
    #[serde(borrow, default, rename = "progressToken")]
    pub progress_token: Option<&'a RawValue>,
}

impl RequestMeta<'_> {
    /// Whether the object has a member that only clients of 2026-07-28 send.
    pub fn is_modern(&self) -> bool {
        [
            self.protocol_version,
            self.client_capabilities,
            self.client_info,
            self.log_level,
        ]
        .iter()
        .any(Option::is_some)
    }
}

/// A program's name and version.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Implementation {
    /// The name for programs.
    pub name: String,
    /// The version of the program, not of the protocol.
    pub version: String,
    /// The name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// A description in one sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Pictures of the program.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub icons: Vec<Icon>,
    /// The address of a page about the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub website_url: Option<String>,
}

impl Implementation {
    /// Makes a name and version.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            version: version.into(),
            ..Self::default()
        }
    }
}

/// Whether this is a well-formed `_meta` key: an optional dotted prefix and `/`, then a name.
pub fn is_key(key: &str) -> bool {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let alphanumeric = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let label = |label: &str| {
        let bytes = label.as_bytes();
        bytes.first().is_some_and(u8::is_ascii_alphabetic)
            && alphanumeric(bytes.last())
            && bytes
                .iter()
                .all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
    };
    let named = name.is_empty()
        || alphanumeric(name.as_bytes().first())
            && alphanumeric(name.as_bytes().last())
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    prefix.is_none_or(|prefix| prefix.split('.').all(label)) && named
}

#[cfg(test)]
mod tests {
    use super::is_key;

    #[test]
    fn keys_follow_the_grammar() {
        for good in [
            "progressToken",
            "io.modelcontextprotocol/logLevel",
            "com.example/",
            "a-b.c/x_y.z",
        ] {
            assert!(is_key(good), "{good}");
        }
        for bad in ["/x", "1a/x", "a-/x", "a..b/x", "a/-x", "a/x/y", "a b"] {
            assert!(!is_key(bad), "{bad}");
        }
    }
}
