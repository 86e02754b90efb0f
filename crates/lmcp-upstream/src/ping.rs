//! Whether a server is there: asked on the way that calls take.

use std::{future::pending, sync::Arc};

use lmcp_client::conversation::{self, Peer};
use lmcp_wire::{RpcError, meta, method::request};
use serde_json::json;
use tokio::time::sleep;

use crate::{
    call::Call,
    limits::PING_SILENCE,
    state::{Origin, Shared},
};

/// Asks the server whether it is there, in whatever words it knows.
pub(crate) async fn ping(shared: &Arc<Shared>) -> Result<(), RpcError> {
    let peer = shared.peer().await?;
    if !peer.version.has_handshake() {
        return ask(shared, &peer, request::DISCOVER).await;
    }
    tokio::select! {
        answered = ask(shared, &peer, request::PING) => answered,
        answered = ask_for_a_list(shared, &peer) => answered,
    }
}

/// Asks a server that says nothing to a ping for what it offers: some servers pass over requests that they do not know.
async fn ask_for_a_list(shared: &Arc<Shared>, peer: &Peer) -> Result<(), RpcError> {
    let offered = &peer.capabilities;
    let lists = [
        (offered.tools.is_some(), request::TOOLS_LIST),
        (offered.prompts.is_some(), request::PROMPTS_LIST),
        (offered.resources.is_some(), request::RESOURCES_LIST),
    ];
    sleep(PING_SILENCE).await;
    match lists.into_iter().find(|(is_offered, _)| *is_offered) {
        Some((_, method)) => ask(shared, peer, method).await,
        None => pending().await,
    }
}

/// Dropping it takes the question back.
async fn ask(shared: &Arc<Shared>, peer: &Peer, method: &str) -> Result<(), RpcError> {
    let params = match peer.version.has_handshake() {
        true => json!({}),
        false => json!({ "_meta": {
            meta::PROTOCOL_VERSION: peer.version.as_str(),
            meta::CLIENT_INFO: shared.profile.info,
            meta::CLIENT_CAPABILITIES: {},
        } }),
    };
    let params = params.to_string();
    let call = conversation::Call::new(shared.ids.next(), method, params.as_bytes(), peer);
    let asked = Call::begin(shared, call, Origin::default())?;
    asked.answered().await.map(drop)
}
