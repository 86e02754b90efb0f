//! `server/discover`, and the paging and caching members that list results share.

use serde::{Deserialize, Serialize};

use crate::{capability::ServerCapabilities, name::optional_name};

/// The description of a server, without the members that every result has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct DiscoverResult {
    /// The revisions that the server speaks, newest first.
    pub supported_versions: Vec<String>,
    /// The capabilities of the server.
    pub capabilities: ServerCapabilities,
    /// Advice to the model on how to use the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
}

impl DiscoverResult {
    /// The revisions and the capabilities of a server.
    pub fn new(supported_versions: Vec<String>, capabilities: ServerCapabilities) -> Self {
        Self {
            supported_versions,
            capabilities,
            instructions: None,
        }
    }
}

/// `params` of the list requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PaginatedParams {
    /// The cursor of the page before. An empty string is a cursor, too.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "optional_name"
    )]
    pub cursor: Option<String>,
}

/// How long, and by whom, a result may be reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CacheHint {
    /// The time in milliseconds. With 0, the result is stale at once.
    pub ttl_ms: u64,
    /// The callers that may reuse the result.
    pub cache_scope: CacheScope,
}

impl CacheHint {
    /// A result that everybody may reuse.
    pub const fn public(ttl_ms: u64) -> Self {
        Self {
            ttl_ms,
            cache_scope: CacheScope::Public,
        }
    }

    /// A result that only this caller may reuse.
    pub const fn private(ttl_ms: u64) -> Self {
        Self {
            ttl_ms,
            cache_scope: CacheScope::Private,
        }
    }
}

/// The callers that may reuse a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum CacheScope {
    /// Everybody.
    Public,
    /// The caller that the result was made for.
    Private,
}
