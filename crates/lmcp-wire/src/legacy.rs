//! The parts that 2026-07-28 removed: the handshake, `ping`, `logging/setLevel` and subscriptions to single resources.

use serde::{Deserialize, Serialize};

use crate::{
    ClientCapabilities, Implementation, LoggingLevel, capability::ServerCapabilities,
    jsonrpc::RequestId, name::word,
};

/// The capabilities and the name of a client, from its handshake.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ClientProfile {
    /// The capabilities of the client: what it can be asked for.
    pub capabilities: ClientCapabilities,
    /// The name and version that the client claims.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_info: Option<Implementation>,
}

/// The answer to the handshake.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InitializeResult {
    /// The revision of the session.
    pub protocol_version: String,
    /// The capabilities of the server.
    pub capabilities: ServerCapabilities,
    /// The name and version of the server.
    pub server_info: Implementation,
    /// Advice to the model on how to use the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
}

impl InitializeResult {
    /// Makes the answer with a revision, and the capabilities and the name of the server.
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
    /// The lowest level of messages that the client wants from now on.
    #[serde(deserialize_with = "word")]
    pub level: LoggingLevel,
}

impl SetLevelParams {
    /// Asks for log messages of this level and above.
    pub fn new(level: LoggingLevel) -> Self {
        Self { level }
    }
}

/// `params` of `resources/subscribe` and `resources/unsubscribe`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SubscribeParams {
    /// The resource.
    pub uri: String,
}

impl SubscribeParams {
    /// Starts or stops watching this resource.
    pub fn new(uri: impl Into<String>) -> Self {
        Self { uri: uri.into() }
    }
}

/// `params` of `notifications/cancelled`. In 2025-11-25 the request may be absent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CancelledParams {
    /// The request to stop.
    #[serde(default)]
    pub request_id: Option<RequestId>,
}

impl CancelledParams {
    /// Stops this request.
    pub fn new(request_id: RequestId) -> Self {
        Self {
            request_id: Some(request_id),
        }
    }
}
