//! A tool that tells a caller its identity.

use lmcp_core::{CallerTransport, Cx, Json, NoArgs, Tool, ToolResult};
use schemars::JsonSchema;
use serde::Serialize;

/// Returns the tool `whoami`, which tells a caller its identity: `{"known": true, "id": …, "label": …, "role": …, "parent":
/// …, "transport": "unix", "pid": …}`.
///
/// `known` is false for a caller to whom this server gave no identity: `id`, `label`, `role` and `parent` are absent then. `parent` is the
/// id of the child that the caller was started for, and absent if there is none. `pid` is the process that made the
/// connection, such as `lmcp proxy`.
pub fn whoami() -> Tool {
    Tool::new("whoami", answer)
        .title("Who am I")
        .about("Returns the caller's own id, label, role and parent, as this server knows them.")
        .read_only()
}

/// Who calls.
#[derive(Serialize, JsonSchema)]
struct WhoAmI {
    /// Whether this server gave the caller an identity. Without one the other members about it are absent.
    known: bool,
    /// Tells it from all other callers.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// What people call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    /// What it may do.
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<String>,
    /// The id of the caller that it was started for.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<String>,
    /// How the call came.
    transport: &'static str,
    /// The process that made the connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<i32>,
}

async fn answer(_: NoArgs, cx: Cx) -> ToolResult<Json<WhoAmI>> {
    let (caller, identity) = (cx.caller(), cx.caller().identity());
    Ok(Json(WhoAmI {
        known: identity.is_some(),
        id: identity.map(|identity| identity.id.clone()),
        label: identity.map(|identity| identity.label.clone()),
        role: identity.map(|identity| identity.role.clone()),
        parent: identity.and_then(|identity| identity.parent.clone()),
        transport: match caller.transport() {
            CallerTransport::Stdio => "stdio",
            CallerTransport::Unix => "unix",
            CallerTransport::Http => "http",
            _ => "memory",
        },
        pid: caller.peer().and_then(|peer| peer.pid),
    }))
}
