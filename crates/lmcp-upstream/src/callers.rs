//! The callers that have used one server: decides whether a question that names no call can be meant for another caller.
//!
//! A server with sessions may ask late: after it answered, or although the call was cancelled. So all callers since the
//! server was opened count, and not only those that call now.

use lmcp_core::{CallerTransport, Request};
use lmcp_wire::method::request;

/// The client of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Client {
    /// The owner of the client. One owner may have several conversations, one after the other or at once.
    pub(crate) owner: Box<str>,
    pub(crate) conversation: Box<str>,
}

impl Client {
    /// Returns the client of a request. `None`: this process asks for itself, as a hub does to learn the lists of a server
    /// and their changes.
    pub(crate) fn of(request: &Request) -> Option<Self> {
        let is_housekeeping = matches!(
            request.method(),
            request::LISTEN
                | request::TOOLS_LIST
                | request::PROMPTS_LIST
                | request::RESOURCES_LIST
                | request::RESOURCE_TEMPLATES_LIST
        );
        let is_own = is_housekeeping && request.caller().transport() == CallerTransport::Memory;
        (!is_own).then(|| Self {
            owner: request.caller().owner().into(),
            conversation: request.conversation().into(),
        })
    }
}

/// All owners that one server knows of.
#[derive(Debug, Default)]
pub(crate) struct Callers {
    called: Owners,
    /// Subscriptions are repeated to the next server, so these owners are never forgotten.
    subscribed: Owners,
}

impl Callers {
    pub(crate) fn called(&mut self, client: &Client) {
        self.called.note(&client.owner);
    }

    pub(crate) fn subscribed(&mut self, client: &Client) {
        self.subscribed.note(&client.owner);
    }

    /// Begins again with a new server, which knows only the clients whose calls wait for it.
    pub(crate) fn begin_again<'a>(&mut self, waiting: impl Iterator<Item = &'a Client>) {
        self.called = Owners::None;
        waiting.for_each(|client| self.called(client));
    }

    /// Returns whether the server knows of this owner only.
    pub(crate) fn are_only(&self, owner: &str) -> bool {
        self.called.are_only(owner) && self.subscribed.are_only(owner)
    }
}

#[derive(Debug, Default)]
enum Owners {
    #[default]
    None,
    One(Box<str>),
    Several,
}

impl Owners {
    fn note(&mut self, owner: &str) {
        match self {
            Self::None => *self = Self::One(owner.into()),
            Self::One(known) if **known == *owner => {}
            Self::One(_) | Self::Several => *self = Self::Several,
        }
    }

    fn are_only(&self, owner: &str) -> bool {
        match self {
            Self::None => true,
            Self::One(known) => **known == *owner,
            Self::Several => false,
        }
    }
}
