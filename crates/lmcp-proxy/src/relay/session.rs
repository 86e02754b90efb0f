//! The agreement of a client of the older revisions with its server, which is repeated to the next one.

use lmcp_wire::{
    Envelope, ProtocolVersion, RequestId,
    envelope::{agreed_version, replace},
    jsonrpc,
    legacy::SubscribeParams,
    method::{notification, request},
};
use serde::Deserialize;
use serde_json::{json, value::RawValue};

use super::Ids;
use crate::limits::Limits;

#[derive(Debug, Default)]
pub(super) struct Session {
    agreed: Option<Agreed>,
    /// The client said that it is ready.
    initialized: bool,
    /// The client said so after its last handshake, which may still be refused.
    is_ready: bool,
    /// The parameters of the last `logging/setLevel`.
    level: Option<Vec<u8>>,
    watched: Vec<String>,
}

/// A handshake that was answered.
#[derive(Debug)]
struct Agreed {
    version: String,
    /// The client's parameters, changed to ask for that version.
    params: Vec<u8>,
    /// The lists for which the first server announced notifications.
    announced: Vec<&'static str>,
}

impl Session {
    /// Learns from the request in this line and its result.
    pub(super) fn learn(&mut self, line: &[u8], result: &str, limits: &Limits) {
        let Envelope::Request { method, params, .. } = Envelope::read(line) else {
            return;
        };
        match &*method {
            request::INITIALIZE => {
                *self = Self {
                    agreed: agreed(params, result),
                    initialized: self.is_ready,
                    is_ready: self.is_ready,
                    ..Self::default()
                };
            }
            request::SET_LEVEL => self.level = Some(params.as_bytes().to_vec()),
            request::SUBSCRIBE => self.watch(params, limits),
            request::UNSUBSCRIBE => {
                if let Ok(gone) = serde_json::from_str::<SubscribeParams>(params) {
                    self.watched.retain(|uri| *uri != gone.uri);
                }
            }
            _ => {}
        }
    }

    fn watch(&mut self, params: &str, limits: &Limits) {
        let Ok(SubscribeParams { uri, .. }) = serde_json::from_str(params) else {
            return;
        };
        let bytes = self.watched.iter().map(String::len).sum::<usize>() + uri.len();
        let room = self.watched.len() < limits.watched && bytes <= limits.watched_bytes;
        if room && !self.watched.contains(&uri) {
            self.watched.push(uri);
        }
    }

    /// Begins a handshake. Until the answer, the earlier agreement holds.
    pub(super) fn begins(&mut self) {
        self.is_ready = false;
    }

    /// Notes that the client is ready.
    pub(super) fn is_now_ready(&mut self) {
        (self.initialized, self.is_ready) = (true, true);
    }

    /// Returns whether the client said so after its last handshake.
    pub(super) fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// Returns whether there was a handshake.
    pub(super) fn is_open(&self) -> bool {
        self.agreed.is_some()
    }

    /// Returns whether arrays of messages are understood.
    pub(super) fn has_batches(&self) -> bool {
        let agreed = self.agreed.as_ref();
        let version = agreed.and_then(|agreed| agreed.version.parse().ok());
        version.is_some_and(ProtocolVersion::has_batches)
    }

    /// Returns the handshake for the next server, if there was one.
    pub(super) fn handshake(&self, id: &RequestId) -> Option<Vec<u8>> {
        let agreed = self.agreed.as_ref()?;
        Some(jsonrpc::request_with(
            id,
            request::INITIALIZE,
            &agreed.params,
        ))
    }

    /// Checks whether the next server's answer to the handshake agrees with the first one's. If not, returns the revisions
    /// of both.
    pub(super) fn agrees(&self, result: &str) -> Result<(), (String, &str)> {
        let ours = self.agreed.as_ref().map_or("", |agreed| &agreed.version);
        match agreed_version(result) {
            Some(theirs) if theirs == ours => Ok(()),
            Some(theirs) => Err((theirs, ours)),
            None => Err(("nothing that is known".to_owned(), ours)),
        }
    }

    /// Returns all lines that follow the handshake, each request with an id of its own.
    pub(super) fn rest(&self, ids: &mut Ids) -> Vec<Vec<u8>> {
        let mut lines = Vec::new();
        if self.initialized {
            lines.push(initialized());
        }
        if let Some(level) = &self.level {
            lines.push(jsonrpc::request_with(
                &ids.next(),
                request::SET_LEVEL,
                level,
            ));
        }
        for uri in &self.watched {
            let params = json!({ "uri": uri }).to_string();
            lines.push(jsonrpc::request_with(
                &ids.next(),
                request::SUBSCRIBE,
                params.as_bytes(),
            ));
        }
        lines
    }

    /// Returns notifications for the client: the next server may have other lists, and watched resources may have changed
    /// meanwhile.
    pub(super) fn news(&self) -> Vec<Vec<u8>> {
        let Some(agreed) = self.agreed.as_ref().filter(|_| self.initialized) else {
            return Vec::new();
        };
        let changed = agreed.announced.iter();
        let changed = changed.map(|method| jsonrpc::notification(method, &json!({})));
        let updated = self.watched.iter().map(|uri| {
            jsonrpc::notification(notification::RESOURCE_UPDATED, &json!({ "uri": uri }))
        });
        changed.chain(updated).collect()
    }
}

/// Returns the notification that the client is ready.
pub(super) fn initialized() -> Vec<u8> {
    jsonrpc::notification(notification::INITIALIZED, &json!({}))
}

#[derive(Default, Deserialize)]
struct Offer {
    capabilities: Capabilities,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Capabilities {
    tools: Option<Announces>,
    prompts: Option<Announces>,
    resources: Option<Announces>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Announces {
    list_changed: Option<bool>,
}

fn agreed(params: &str, result: &str) -> Option<Agreed> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Asked<'a> {
        #[serde(borrow)]
        protocol_version: &'a RawValue,
    }
    let version = agreed_version(result)?;
    // Capabilities that cannot be read are ones that the client does not rely on.
    let Offer { capabilities } = serde_json::from_str(result).unwrap_or_default();
    let asked: Asked<'_> = serde_json::from_str(params).ok()?;
    let said = serde_json::to_string(&version).ok()?;
    let params = replace(params.as_bytes(), asked.protocol_version.get(), &said);
    let announced = [
        (capabilities.tools, notification::TOOLS_CHANGED),
        (capabilities.prompts, notification::PROMPTS_CHANGED),
        (capabilities.resources, notification::RESOURCES_CHANGED),
    ];
    let announced = announced
        .into_iter()
        .filter(|(list, _)| list.as_ref().and_then(|list| list.list_changed) == Some(true));
    Some(Agreed {
        version,
        params,
        announced: announced.map(|(_, method)| method).collect(),
    })
}
