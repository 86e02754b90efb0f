//! What 2026-07-28 removed: the handshake, `ping`, `logging/setLevel` and subscriptions to single resources.

use serde::{Deserialize, Serialize};

use crate::{
    ClientCapabilities, Implementation, LoggingLevel, capability::ServerCapabilities,
    jsonrpc::RequestId, name::word,
};

/// What a client says of itself when it opens, beside the revision it asks for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ClientProfile {
    /// What it can be asked for.
    pub capabilities: ClientCapabilities,
    /// Who it says it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_info: Option<Implementation>,
}

/// The answer to the handshake.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InitializeResult {
    /// The revision that will be spoken.
    pub protocol_version: String,
    /// What is on offer.
    pub capabilities: ServerCapabilities,
    /// Who the server is.
    pub server_info: Implementation,
    /// How to use it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
}

impl InitializeResult {
    /// A revision, what is offered in it, and by whom.
    pub fn new(
        protocol_version: String,
        capabilities: ServerCapabilities,
        server_info: Implementation,
    ) -> Self {
        Self {
            protocol_version,
            capabilities,
            server_info,
            instructions: None,
        }
    }
}

/// `params` of `logging/setLevel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SetLevelParams {
    /// From here on.
    #[serde(deserialize_with = "word")]
    pub level: LoggingLevel,
}

/// `params` of `resources/subscribe` and `resources/unsubscribe`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SubscribeParams {
    /// The resource.
    pub uri: String,
}

/// `params` of `notifications/cancelled`: 2025-11-25 lets the request be left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CancelledParams {
    /// The request to stop.
    #[serde(default)]
    pub request_id: Option<RequestId>,
}
