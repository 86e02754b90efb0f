//! `server/discover`, and the paging and caching members that list results share.

use serde::{Deserialize, Serialize};

use crate::{capability::ServerCapabilities, name::optional_name};

/// The description of a server, without the members that every result has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct DiscoverResult {
    /// Newest first.
    pub supported_versions: Vec<String>,
    /// The capabilities of the server.
    pub capabilities: ServerCapabilities,
    /// How to use it, for the model.
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
    /// From the page before; the empty string is a cursor, absence is not.
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
    /// Milliseconds; 0 is stale at once.
    pub ttl_ms: u64,
    /// By whom.
    pub cache_scope: CacheScope,
}

impl CacheHint {
    /// For everybody.
    pub const fn public(ttl_ms: u64) -> Self {
        Self {
            ttl_ms,
            cache_scope: CacheScope::Public,
        }
    }

    /// For this caller alone.
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
    /// The caller it was made for.
    Private,
}
