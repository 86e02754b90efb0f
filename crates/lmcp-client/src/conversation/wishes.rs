//! The wishes of callers for notifications, which are told to every server again.

use std::collections::{BTreeMap, BTreeSet};

use lmcp_wire::{
    LoggingLevel, RequestId, RpcError, envelope::subscription, meta, method::request,
    progress::CancelledParams, subscribe::SubscriptionFilter,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::limits::WISHES;

use super::{Conversation, Output, Peer, Stage, notification};

/// The notifications that callers want.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Wishes {
    /// Log messages from this level on, from servers that are told the level once for all calls.
    pub level: Option<LoggingLevel>,
    /// Changed lists.
    pub lists: ListWishes,
    /// Changes of these resources.
    pub watched: Watched,
    /// New states of these tasks.
    pub tasks: Watched,
}

/// The lists whose changes callers want to know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListWishes {
    /// The list of tools.
    pub tools: bool,
    /// The list of prompts.
    pub prompts: bool,
    /// The list of resources.
    pub resources: bool,
}

/// Names that are watched. The cost of adding or removing a name does not depend on their number.
#[derive(Debug, Default)]
pub struct Watched {
    all: BTreeSet<String>,
    /// Names that are watched and the server was not told, and names that are not watched any more and the server was told.
    untold: BTreeSet<String>,
    /// Names that are watched, and of which the server refuses to tell.
    refused: BTreeMap<String, RpcError>,
}

impl Watched {
    /// Adds a name.
    pub fn insert(&mut self, name: &str) {
        if self.all.insert(name.to_owned()) {
            self.turn(name);
        }
    }

    /// Removes a name.
    pub fn remove(&mut self, name: &str) {
        let is_refused = self.refused.remove(name).is_some();
        // The server need not be told to stop what it never began.
        if self.all.remove(name) && !is_refused {
            self.turn(name);
        }
    }

    /// Returns the error with which the server has refused to tell of this name.
    pub fn refusal(&self, name: &str) -> Option<&RpcError> {
        self.refused.get(name)
    }

    fn refuse(&mut self, name: String, error: RpcError) {
        if self.all.contains(&name) {
            self.refused.insert(name, error);
        }
    }

    /// Notes a change of a name. Two changes cancel each other.
    fn turn(&mut self, name: &str) {
        if !self.untold.remove(name) {
            self.untold.insert(name.to_owned());
        }
    }

    /// Notes that the server was told nothing yet.
    fn begin_again(&mut self) {
        self.untold.clone_from(&self.all);
        self.refused.clear();
    }

    /// Returns the next names to tell: new ones, and ones that are not watched any more.
    fn tell(&mut self, most: usize) -> (Vec<String>, Vec<String>) {
        let Self { all, untold, .. } = self;
        let next = std::iter::from_fn(|| untold.pop_first()).take(most);
        next.partition(|name| all.contains(name))
    }

    /// Marks all names as told. Returns whether there was any to tell.
    fn skip(&mut self) -> bool {
        let untold = std::mem::take(&mut self.untold);
        !untold.is_empty()
    }

    /// Notes which names a stream tells of.
    fn granted(&mut self, told: &BTreeSet<&str>) {
        let Self { all, refused, .. } = self;
        refused.retain(|name, _| !told.contains(&**name));
        for name in all.iter().filter(|name| !told.contains(&***name)) {
            let error = || {
                RpcError::invalid_params(format!("the server does not tell of changes of {name}"))
            };
            refused.entry(name.clone()).or_insert_with(error);
        }
    }
}

impl Wishes {
    /// Returns whether there are no wishes.
    pub fn is_empty(&self) -> bool {
        self.level.is_none() && !self.has_changes()
    }

    /// Returns whether there are wishes other than for log messages.
    pub(super) fn has_changes(&self) -> bool {
        self.lists != ListWishes::default()
            || !self.watched.all.is_empty()
            || !self.tasks.all.is_empty()
    }

    /// Notes that the server is a new one.
    pub(super) fn begin_again(&mut self) {
        self.watched.begin_again();
        self.tasks.begin_again();
    }
}

/// The words with which a server begins a stream: what it will tell of.
#[derive(Deserialize)]
struct Acknowledged {
    notifications: SubscriptionFilter,
}

/// The wishes that the server was told, without the watched names.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    level: Option<LoggingLevel>,
    lists: ListWishes,
}

impl Conversation {
    /// Returns the wishes, so that they can be changed. The server is told all changes together, with the next
    /// [`output`](Self::output).
    pub fn wishes(&mut self) -> &mut Wishes {
        &mut self.wishes
    }

    /// Returns whether the server has confirmed or refused all wishes. If not, [`Output::Granted`] tells when.
    pub fn is_granted(&self) -> bool {
        self.is_open() && self.unconfirmed.is_empty() && !self.has_untold()
    }

    /// Returns whether there are wishes that the server was not told.
    fn has_untold(&self) -> bool {
        let Wishes { level, lists, .. } = self.wishes;
        self.told != Told { level, lists }
            || !self.wishes.watched.untold.is_empty()
            || !self.wishes.tasks.untold.is_empty()
    }

    /// Notes that the server has confirmed or refused a wish.
    pub(super) fn confirm(&mut self, id: i64, outcome: Result<(), RpcError>) {
        let Some(watched) = self.unconfirmed.remove(&id) else {
            return;
        };
        if let (Some(name), Err(error)) = (watched, outcome) {
            self.wishes.watched.refuse(name, error);
        }
        if self.listening == Some(id) {
            self.retire();
        }
        if self.unconfirmed.is_empty() {
            self.out.push_back(Output::Granted);
        }
    }

    /// Notes that a stream has begun.
    pub(super) fn acknowledged(&mut self, params: &str) {
        let id = match subscription(params) {
            Some(RequestId::Number(id)) => Some(id),
            _ => self.listening,
        };
        if let Some(id) = id {
            if self.listening == Some(id) && !self.unconfirmed.contains_key(&id) {
                self.out.push_back(Output::ListensAgain);
            }
            if self.listening == Some(id)
                && let Ok(Acknowledged { notifications }) = serde_json::from_str(params)
            {
                let told = notifications.resource_subscriptions.unwrap_or_default();
                self.wishes
                    .watched
                    .granted(&told.iter().map(|name| &**name).collect());
            }
            self.confirm(id, Ok(()));
        }
    }

    /// Returns whether a server of 2026-07-28 was asked for a stream of changes that it has not ended.
    pub fn is_listening(&self) -> bool {
        self.listening.is_some()
    }

    /// Notes that the server has ended the stream with this id, or has refused it.
    pub(super) fn listening_ended(&mut self, id: i64, outcome: Result<(), RpcError>) {
        // The stream before was not retired yet if the server has refused this one.
        self.listening = self.retiring.pop_if(|_| outcome.is_err());
        self.out.push_back(match outcome {
            Err(error) if self.listening.is_some() => Output::WishesRefused(error),
            outcome => Output::ListeningEnded(outcome),
        });
        self.confirm(id, Ok(()));
        if self.listening.is_none() {
            self.retire();
        }
    }

    /// Ends the streams that a new one replaces.
    fn retire(&mut self) {
        for before in std::mem::take(&mut self.retiring) {
            let params = CancelledParams::new(before.into());
            self.tell(notification::CANCELLED, &params);
        }
    }

    /// Sends a request about a wish. `watched`: the name that it asks the server to tell of.
    fn wish_for(&mut self, method: &str, params: &Value, watched: Option<String>) -> i64 {
        let id = self.ask(method, params);
        self.unconfirmed.insert(id, watched);
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
            self.wish_for(request::SET_LEVEL, &json!({ "level": level }), None);
        }
        let subscribes = offered.resources.and_then(|offered| offered.subscribe);
        self.wishes.tasks.skip();
        if subscribes != Some(true) {
            self.wishes.watched.skip();
            return;
        }
        // They are sent in parts: a server that gets too many requests stops reading, and other requests wait.
        let room = WISHES.saturating_sub(self.unconfirmed.len());
        let (new, old) = self.wishes.watched.tell(room);
        for uri in new {
            let params = json!({ "uri": uri });
            self.wish_for(request::SUBSCRIBE, &params, Some(uri));
        }
        for uri in old {
            self.wish_for(request::UNSUBSCRIBE, &json!({ "uri": uri }), None);
        }
    }

    /// Opens one stream for all wishes, and a new one when they change.
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
        self.listening = Some(self.wish_for(request::LISTEN, &params, None));
    }

    /// Returns the parameters of a stream for all wishes.
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
