//! What callers wish to hear of beside their answers, said again to every server.

use std::collections::BTreeSet;

use lmcp_wire::{
    LoggingLevel, RequestId, envelope::subscription, meta, method::request,
    progress::CancelledParams,
};
use serde_json::{Value, json};

use crate::limits::WISHES;

use super::{Conversation, Output, Peer, Stage, notification};

/// What is to be heard of.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Wishes {
    /// Log messages from this level on, of servers that are told it once and for all.
    pub level: Option<LoggingLevel>,
    /// Changed lists.
    pub lists: ListWishes,
    /// Changes of these resources.
    pub watched: Watched,
    /// New states of these tasks.
    pub tasks: Watched,
}

/// The lists whose changes are to be heard of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListWishes {
    /// Of tools.
    pub tools: bool,
    /// Of prompts.
    pub prompts: bool,
    /// Of resources.
    pub resources: bool,
}

/// Names of what is watched. A name more or less costs the same however many there are.
#[derive(Debug, Default)]
pub struct Watched {
    all: BTreeSet<String>,
    /// Those that are watched and were not told of, and those that are not and were.
    untold: BTreeSet<String>,
}

impl Watched {
    /// Watches this, too.
    pub fn insert(&mut self, name: &str) {
        if self.all.insert(name.to_owned()) {
            self.turn(name);
        }
    }

    /// Watches this no longer.
    pub fn remove(&mut self, name: &str) {
        if self.all.remove(name) {
            self.turn(name);
        }
    }

    /// Twice is as if nothing had been.
    fn turn(&mut self, name: &str) {
        if !self.untold.remove(name) {
            self.untold.insert(name.to_owned());
        }
    }

    /// Nobody was told of anything.
    fn begin_again(&mut self) {
        self.untold.clone_from(&self.all);
    }

    /// The next names that are to be told: those that are new, and those that are watched no longer.
    fn tell(&mut self, most: usize) -> (Vec<String>, Vec<String>) {
        let Self { all, untold } = self;
        let next = std::iter::from_fn(|| untold.pop_first()).take(most);
        next.partition(|name| all.contains(name))
    }

    /// All are told in another way, or not at all. Was there anything to tell?
    fn skip(&mut self) -> bool {
        let untold = std::mem::take(&mut self.untold);
        !untold.is_empty()
    }
}

impl Wishes {
    /// Is there nothing?
    pub fn is_empty(&self) -> bool {
        self.level.is_none() && !self.has_changes()
    }

    /// Is anything to be heard of but log messages?
    pub(super) fn has_changes(&self) -> bool {
        self.lists != ListWishes::default()
            || !self.watched.all.is_empty()
            || !self.tasks.all.is_empty()
    }

    /// The server is another one.
    pub(super) fn begin_again(&mut self) {
        self.watched.begin_again();
        self.tasks.begin_again();
    }
}

/// What the server was told of the wishes, beside what is watched.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    level: Option<LoggingLevel>,
    lists: ListWishes,
}

impl Conversation {
    /// What is wished for, to be changed. The server is told of all changes at once, with the next [`output`](Self::output).
    pub fn wishes(&mut self) -> &mut Wishes {
        &mut self.wishes
    }

    /// Does the server know of all that is wished for, as far as it wants to? If not, [`Output::Granted`] tells when.
    pub fn is_granted(&self) -> bool {
        self.is_open() && self.unconfirmed.is_empty() && !self.has_untold()
    }

    /// Was the server not told of all that is wished for?
    fn has_untold(&self) -> bool {
        let Wishes { level, lists, .. } = self.wishes;
        self.told != Told { level, lists }
            || !self.wishes.watched.untold.is_empty()
            || !self.wishes.tasks.untold.is_empty()
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
        if !self.has_untold() {
            return;
        }
        let Wishes { level, lists, .. } = self.wishes;
        let told = std::mem::replace(&mut self.told, Told { level, lists });
        if peer.version.has_handshake() {
            self.tell_one_by_one(&peer, &told);
        } else {
            self.tell_as_one(&told);
        }
        if self.unconfirmed.is_empty() {
            self.out.push_back(Output::Granted);
        }
    }

    fn tell_one_by_one(&mut self, peer: &Peer, told: &Told) {
        let offered = &peer.capabilities;
        if let Some(level) = self.wishes.level
            && self.wishes.level != told.level
            && offered.logging.is_some()
        {
            self.wish_for(request::SET_LEVEL, &json!({ "level": level }));
        }
        let subscribes = offered.resources.and_then(|offered| offered.subscribe);
        self.wishes.tasks.skip();
        if subscribes != Some(true) {
            self.wishes.watched.skip();
            return;
        }
        // Not all at once: a server that is asked too much does not read, and others wait for their turn.
        let room = WISHES.saturating_sub(self.unconfirmed.len());
        let (new, old) = self.wishes.watched.tell(room);
        for uri in new {
            self.wish_for(request::SUBSCRIBE, &json!({ "uri": uri }));
        }
        for uri in old {
            self.wish_for(request::UNSUBSCRIBE, &json!({ "uri": uri }));
        }
    }

    /// One stream for all, opened anew when something else is wished for.
    fn tell_as_one(&mut self, told: &Told) {
        let others_are_watched = self.wishes.watched.skip() | self.wishes.tasks.skip();
        let is_same = !others_are_watched && self.wishes.lists == told.lists;
        if is_same && (self.listening.is_some() || !self.wishes.has_changes()) {
            return;
        }
        if let Some(before) = self.listening.take() {
            self.unconfirmed.remove(&before);
            self.retiring.push(before);
        }
        if !self.wishes.has_changes() {
            return self.retire();
        }
        let params = self.stream_params();
        self.listening = Some(self.wish_for(request::LISTEN, &params));
    }

    /// The parameters of a stream for all that is wished for.
    fn stream_params(&self) -> Value {
        let Wishes {
            lists,
            watched,
            tasks,
            ..
        } = &self.wishes;
        let mut filter = json!({});
        for (name, wished) in [
            ("toolsListChanged", lists.tools),
            ("promptsListChanged", lists.prompts),
            ("resourcesListChanged", lists.resources),
        ] {
            if wished {
                filter[name] = json!(true);
            }
        }
        if !watched.all.is_empty() {
            filter["resourceSubscriptions"] = json!(watched.all);
        }
        if !tasks.all.is_empty() {
            filter["taskIds"] = json!(tasks.all);
        }
        let mut capabilities = json!(self.profile.capabilities);
        if !tasks.all.is_empty() {
            capabilities["extensions"] = json!({ lmcp_wire::task::EXTENSION: {} });
        }
        let head = json!({
            meta::PROTOCOL_VERSION: lmcp_wire::ProtocolVersion::NEWEST.as_str(),
            meta::CLIENT_INFO: self.profile.info,
            meta::CLIENT_CAPABILITIES: capabilities,
        });
        json!({ "notifications": filter, "_meta": head })
    }
}
