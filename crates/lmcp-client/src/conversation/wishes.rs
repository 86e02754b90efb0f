//! What callers wish to hear of beside their answers, said again to every server.

use std::collections::BTreeSet;

use lmcp_wire::{
    LoggingLevel, RequestId, envelope::subscription, meta, method::request,
    progress::CancelledParams,
};
use serde_json::{Value, json};

use super::{Conversation, Output, Peer, Stage, notification};

/// What is to be heard of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Wishes {
    /// Log messages from this level on, of servers that are told it once and for all.
    pub level: Option<LoggingLevel>,
    /// Changed lists of tools.
    pub tools: bool,
    /// Changed lists of prompts.
    pub prompts: bool,
    /// Changed lists of resources.
    pub resources: bool,
    /// Changes of these resources.
    pub watched: BTreeSet<String>,
    /// New states of these tasks.
    pub tasks: BTreeSet<String>,
}

impl Wishes {
    /// Is there nothing?
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn has_changes(&self) -> bool {
        self.tools
            || self.prompts
            || self.resources
            || !self.watched.is_empty()
            || !self.tasks.is_empty()
    }
}

impl Conversation {
    /// From now on this is wished for.
    pub fn wish(&mut self, wishes: Wishes) {
        self.wishes = wishes;
        self.tell_wishes();
    }

    /// What is wished for.
    pub fn wishes(&self) -> &Wishes {
        &self.wishes
    }

    /// Does the server know of all that is wished for, as far as it wants to? If not, [`Output::Granted`] tells when.
    pub fn is_granted(&self) -> bool {
        self.is_open() && self.unconfirmed.is_empty()
    }

    /// The server has taken in something of the wishes, or has refused it.
    pub(super) fn confirm(&mut self, id: i64) {
        if !self.unconfirmed.remove(&id) {
            return;
        }
        if self.listening == Some(id) {
            self.retire();
        }
        if self.unconfirmed.is_empty() {
            self.out.push_back(Output::Granted);
        }
    }

    /// A stream has begun.
    pub(super) fn acknowledged(&mut self, params: &str) {
        let id = match subscription(params) {
            Some(RequestId::Number(id)) => Some(id),
            _ => self.listening,
        };
        if let Some(id) = id {
            self.confirm(id);
        }
    }

    /// Ends the streams that another one stands for.
    fn retire(&mut self) {
        for before in std::mem::take(&mut self.retiring) {
            let params = CancelledParams::new(before.into());
            self.tell(notification::CANCELLED, &params);
        }
    }

    fn wish_for(&mut self, method: &str, params: &Value) -> i64 {
        let id = self.ask(method, params);
        self.unconfirmed.insert(id);
        id
    }

    pub(super) fn tell_wishes(&mut self) {
        let Stage::Open(peer) = self.stage.clone() else {
            return;
        };
        if self.wishes == self.told {
            return;
        }
        let told = std::mem::replace(&mut self.told, self.wishes.clone());
        if peer.version.has_handshake() {
            self.tell_one_by_one(&peer, &told);
        } else {
            self.tell_as_one(&told);
        }
    }

    fn tell_one_by_one(&mut self, peer: &Peer, told: &Wishes) {
        let offered = &peer.capabilities;
        if let Some(level) = self.wishes.level
            && self.wishes.level != told.level
            && offered.logging.is_some()
        {
            self.wish_for(request::SET_LEVEL, &json!({ "level": level }));
        }
        let resources = offered.resources.and_then(|offered| offered.subscribe);
        if resources != Some(true) {
            return;
        }
        let new: Vec<_> = self
            .wishes
            .watched
            .difference(&told.watched)
            .cloned()
            .collect();
        let old: Vec<_> = told
            .watched
            .difference(&self.wishes.watched)
            .cloned()
            .collect();
        for uri in new {
            self.wish_for(request::SUBSCRIBE, &json!({ "uri": uri }));
        }
        for uri in old {
            self.wish_for(request::UNSUBSCRIBE, &json!({ "uri": uri }));
        }
    }

    /// One stream for all, opened anew when something else is wished for.
    fn tell_as_one(&mut self, told: &Wishes) {
        let wishes = self.wishes.clone();
        let same = Wishes {
            level: wishes.level,
            ..told.clone()
        } == wishes;
        if same && (self.listening.is_some() || !wishes.has_changes()) {
            return;
        }
        if let Some(before) = self.listening.take() {
            self.unconfirmed.remove(&before);
            self.retiring.push(before);
        }
        if !wishes.has_changes() {
            return self.retire();
        }
        let mut filter = json!({});
        for (name, wished) in [
            ("toolsListChanged", wishes.tools),
            ("promptsListChanged", wishes.prompts),
            ("resourcesListChanged", wishes.resources),
        ] {
            if wished {
                filter[name] = json!(true);
            }
        }
        if !wishes.watched.is_empty() {
            filter["resourceSubscriptions"] = json!(wishes.watched);
        }
        if !wishes.tasks.is_empty() {
            filter["taskIds"] = json!(wishes.tasks);
        }
        let mut capabilities = json!(self.profile.capabilities);
        if !wishes.tasks.is_empty() {
            capabilities["extensions"] = json!({ lmcp_wire::task::EXTENSION: {} });
        }
        let head = json!({
            meta::PROTOCOL_VERSION: lmcp_wire::ProtocolVersion::NEWEST.as_str(),
            meta::CLIENT_INFO: self.profile.info,
            meta::CLIENT_CAPABILITIES: capabilities,
        });
        let params = json!({ "notifications": filter, "_meta": head });
        self.listening = Some(self.wish_for(request::LISTEN, &params));
    }
}
