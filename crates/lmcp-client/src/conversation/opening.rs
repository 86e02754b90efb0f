//! Opens a conversation: with `server/discover` if the server knows it, else with a handshake.
//!
//! Specification: `basic/versioning`. The way that worked is used first the next time.

use std::sync::Arc;

use lmcp_wire::{
    Object, ProtocolVersion, RpcError, ServerCapabilities,
    capability::ListCapability,
    envelope::agreed_version,
    error, meta,
    method::{notification, request},
};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, json, value::RawValue};

use super::{Conversation, Output, Peer, failures};
use crate::limits::OPENING_BYTES;

/// The state of the opening.
#[derive(Clone, Debug)]
pub(super) enum Stage {
    Closed,
    /// `server/discover` was sent.
    Probing {
        id: i64,
        is_second: bool,
    },
    /// The handshake was sent. The answer to the earlier probe may also still come.
    Greeting {
        id: i64,
        probe: Option<i64>,
        unknown: bool,
    },
    Open(Arc<Peer>),
}

impl Conversation {
    /// Notes that the connection is open.
    pub fn opened(&mut self) {
        let first = self.profile.pinned.or(self.known);
        match first {
            Some(version) if version.has_handshake() => self.greet(None, false),
            _ => self.probe(false),
        }
    }

    /// Returns whether it is not known yet which kind of server this is. If so, call [`Conversation::probe_expired`] after
    /// [`PROBE_WAIT`](super::PROBE_WAIT).
    pub fn is_probing(&self) -> bool {
        matches!(self.stage, Stage::Probing { .. })
    }

    /// Notes that the server has not answered the probe.
    pub fn probe_expired(&mut self) {
        if let Stage::Probing { id, .. } = self.stage
            && self.may_greet()
        {
            self.greet(Some(id), false);
        }
    }

    /// Returns whether another way to open may work, after the connection was closed before the server had opened.
    pub fn reopens(&self) -> bool {
        matches!(self.stage, Stage::Probing { .. }) && self.may_greet()
    }

    /// Notes how the opening ended. A server that closes the connection at `server/discover` does not know it.
    pub(super) fn note_how_it_ended(&mut self, stage: &Stage) {
        match stage {
            Stage::Probing { .. } if self.may_greet() => self.known = Some(NEWEST_WITH_HANDSHAKE),
            // The server may know the other way by now.
            Stage::Greeting { .. } => self.known = None,
            _ => {}
        }
    }

    /// Takes an answer to the opening. `false`: it is another answer.
    pub(super) fn hear_opening(
        &mut self,
        answered: Option<i64>,
        outcome: &Result<&RawValue, RpcError>,
    ) -> bool {
        let is = |id: i64| answered.is_none_or(|answered| answered == id);
        match self.stage.clone() {
            Stage::Probing { id, is_second } if is(id) => self.probed(id, is_second, outcome),
            Stage::Greeting { id, unknown, .. } if is(id) => self.greeted(unknown, outcome),
            Stage::Greeting {
                probe: Some(probe), ..
            } if answered == Some(probe) => {
                if let Ok(result) = outcome {
                    self.discovered(result);
                }
            }
            _ => return false,
        }
        true
    }

    fn may_greet(&self) -> bool {
        self.profile
            .pinned
            .is_none_or(ProtocolVersion::has_handshake)
    }

    fn probe(&mut self, is_second: bool) {
        let head = json!({
            meta::PROTOCOL_VERSION: ProtocolVersion::NEWEST.as_str(),
            meta::CLIENT_INFO: self.profile.info,
            meta::CLIENT_CAPABILITIES: self.profile.capabilities,
        });
        let id = self.ask(request::DISCOVER, &json!({ "_meta": head }));
        self.stage = Stage::Probing { id, is_second };
    }

    fn probed(&mut self, id: i64, is_second: bool, outcome: &Result<&RawValue, RpcError>) {
        let error = match outcome {
            Ok(result) => return self.discovered(result),
            Err(error) => error,
        };
        let speaks = |newest: bool| {
            let data = error.data.as_ref();
            let supported = data.and_then(|data| data["supported"].as_array());
            let mut known = supported
                .into_iter()
                .flatten()
                .filter_map(|known| known.as_str()?.parse::<ProtocolVersion>().ok());
            known.any(|known| newest != known.has_handshake())
        };
        match error.code {
            // Some servers refuse the first request whatever it says, and accept the second.
            error::UNSUPPORTED_VERSION if speaks(true) && !is_second => self.probe(true),
            error::UNSUPPORTED_VERSION if speaks(false) && self.may_greet() => {
                self.greet(Some(id), false);
            }
            error::UNSUPPORTED_VERSION
            | error::HEADER_MISMATCH
            | error::MISSING_CLIENT_CAPABILITY => self.refused(error),
            _ if self.may_greet() => {
                self.greet(Some(id), error.code == error::METHOD_NOT_FOUND);
            }
            _ => self.refused(error),
        }
    }

    fn discovered(&mut self, result: &RawValue) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Found {
            supported_versions: Vec<String>,
        }
        if self.leaves_long(request::DISCOVER, result) {
            return;
        }
        let newest = ProtocolVersion::NEWEST;
        let found = serde_json::from_str::<Found>(result.get());
        match found {
            Ok(found)
                if found
                    .supported_versions
                    .iter()
                    .any(|one| one == newest.as_str()) =>
            {
                self.open(newest, result.to_owned());
            }
            _ if self.may_greet() => self.greet(None, false),
            _ => self.unfit("it does not speak the revision that is wanted"),
        }
    }

    fn greet(&mut self, probe: Option<i64>, unknown: bool) {
        let wanted = self.profile.pinned.unwrap_or(NEWEST_WITH_HANDSHAKE);
        let id = self.ask(
            request::INITIALIZE,
            &json!({
                "protocolVersion": wanted.as_str(),
                "capabilities": self.profile.capabilities,
                "clientInfo": self.profile.info,
            }),
        );
        self.stage = Stage::Greeting { id, probe, unknown };
    }

    fn greeted(&mut self, unknown: bool, outcome: &Result<&RawValue, RpcError>) {
        let result = match outcome {
            Ok(result) => result,
            // The server knows neither: it is a server without sessions and without `server/discover`.
            Err(error) if unknown && error.code == error::METHOD_NOT_FOUND => {
                return self.open(ProtocolVersion::NEWEST, raw(&json!({})));
            }
            Err(error) => return self.refused(error),
        };
        if self.leaves_long(request::INITIALIZE, result) {
            return;
        }
        let Some(agreed) = agreed_version(result.get()) else {
            return self.unfit("its answer to the handshake names no revision");
        };
        match agreed.parse() {
            Ok(version) if ProtocolVersion::has_handshake(version) => {
                self.tell(notification::INITIALIZED, &json!({}));
                self.open(version, (*result).to_owned());
            }
            _ => self.unfit(&format!("it answers in the revision `{agreed}`")),
        }
    }

    /// Opens the conversation: calls can be made from now on, and waiting calls are sent.
    fn open(&mut self, version: ProtocolVersion, result: Box<RawValue>) {
        self.known = Some(version);
        let peer = Arc::new(Peer {
            version,
            capabilities: offered(&result),
            result,
        });
        self.stage = Stage::Open(Arc::clone(&peer));
        self.out.push_back(Output::Ready(peer));
        self.tell_wishes();
        let waiting: Vec<_> = self.pending.keys().copied().collect();
        for id in waiting {
            if let Some(pending) = self.pending.remove(&id) {
                self.begin(pending);
            }
        }
    }

    /// Ends the opening, because the server refused the handshake, or the connection broke before its answer.
    fn refused(&mut self, error: &RpcError) {
        let data = error.data.as_ref();
        let is_lost = data.is_some_and(|data| data["retriable"] == true);
        match is_lost {
            true => self.give_up_opening(failures::unopened(&error.to_string())),
            false => self.unfit(&error.to_string()),
        }
    }

    /// Gives up a server whose answer to the opening is too long. `false`: the answer is not too long.
    fn leaves_long(&mut self, method: &str, answer: &RawValue) -> bool {
        let bytes = answer.get().len();
        let is_long = bytes > OPENING_BYTES;
        if is_long {
            let words = format!(
                "its answer to `{method}` has {bytes} bytes; at most {OPENING_BYTES} are read"
            );
            self.unfit(&words);
        }
        is_long
    }

    fn unfit(&mut self, why: &str) {
        self.give_up_opening(failures::unfit(why));
    }

    fn give_up_opening(&mut self, error: RpcError) {
        self.close();
        self.known = None;
        self.give_up(&error);
        self.out.push_back(Output::Unfit(error));
    }
}

/// Reads the capabilities that a server declares. All other members stay text: as values, they would take far more memory.
fn offered(result: &RawValue) -> ServerCapabilities {
    #[derive(Default, Deserialize)]
    struct Said {
        #[serde(default)]
        capabilities: Offered,
    }
    #[derive(Default, Deserialize)]
    struct Offered {
        tools: Option<ListCapability>,
        prompts: Option<ListCapability>,
        resources: Option<ListCapability>,
        logging: Option<IgnoredAny>,
    }
    let said: Said = serde_json::from_str(result.get()).unwrap_or_default();
    let mut offered = ServerCapabilities::default();
    offered.tools = said.capabilities.tools;
    offered.prompts = said.capabilities.prompts;
    offered.resources = said.capabilities.resources;
    offered.logging = said.capabilities.logging.map(|_| Object::new());
    offered
}

fn raw(value: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// The revision in the request for a handshake.
const NEWEST_WITH_HANDSHAKE: ProtocolVersion = ProtocolVersion::V2025_11_25;
