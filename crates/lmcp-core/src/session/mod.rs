//! A conversation that opened with a handshake: what was agreed on, and what goes on in it now.
//!
//! What was agreed on never changes, so that a client can carry it (see [`SessionKey`]) and an abandoned session costs
//! nothing. What goes on, a [`SessionState`], exists only while something does: a question that waits, a log level, a
//! subscription.

mod state;
mod token;

use std::{
    borrow::Cow,
    fmt,
    sync::{Arc, Weak},
};

use lmcp_wire::{
    ClientCapabilities, Implementation, ProtocolVersion, RequestId, RpcError,
    legacy::ClientProfile, scan,
};
use serde::Deserialize;

#[doc(hidden)]
pub use state::{Ask, SessionState};
pub(crate) use state::{NoAnswer, Question, Waits};
#[doc(hidden)]
pub use token::{SessionId, SessionKey};

use crate::{clock, era::versions};

/// The session of a client, in a revision that has a handshake. Cheap to clone.
#[derive(Clone)]
pub struct Session(Arc<Inner>);

struct Inner {
    agreement: Agreement,
    state: State,
}

enum State {
    /// A request without a session: it can neither be asked back nor keep anything.
    None,
    /// Of a connection that is the session.
    Own(Arc<SessionState>),
    /// Kept by a transport that tells sessions by their id. Weak, because what it keeps holds sessions in turn.
    Kept(SessionId, Weak<dyn SessionStore>),
}

/// Where a transport keeps what goes on in its sessions.
#[doc(hidden)]
pub trait SessionStore: Send + Sync + 'static {
    /// What goes on, if anything does.
    fn find(&self, id: &SessionId) -> Option<Arc<SessionState>>;

    /// The same, made where there is nothing yet.
    ///
    /// # Errors
    /// There is no room for more.
    fn make(&self, id: &SessionId) -> Result<Arc<SessionState>, RpcError>;
}

/// What a client and this server agreed on in a handshake.
#[derive(Clone, Debug)]
#[doc(hidden)]
pub struct Agreement {
    pub(crate) version: ProtocolVersion,
    /// When, in microseconds since 1970.
    pub(crate) made: u64,
    /// Is there a way to ask the client what it says it can be asked?
    pub(crate) can_ask: bool,
    /// A [`ClientProfile`] as JSON: hardly any request looks at it.
    pub(crate) profile: Arc<str>,
}

impl Agreement {
    /// Nothing was agreed on: for an id that only has to be unguessable.
    pub fn none() -> Self {
        Self {
            version: versions::LEGACY[0],
            made: 0,
            can_ask: false,
            profile: "".into(),
        }
    }

    /// The same, with a client that can be asked nothing: for a request whose answer has no room for questions.
    #[must_use]
    pub fn without_questions(mut self) -> Self {
        self.can_ask = false;
        self
    }

    pub(crate) fn new(version: ProtocolVersion, profile: &ClientProfile) -> Self {
        Self {
            version,
            made: clock::micros(),
            can_ask: true,
            profile: serde_json::to_string(profile).unwrap_or_default().into(),
        }
    }
}

impl Session {
    /// The session of a connection, for as long as that lasts. A handshake after another begins anew, but what was asked
    /// before can still be answered.
    #[doc(hidden)]
    pub fn of_connection(agreement: Agreement, before: Option<&Self>) -> Self {
        let live = match before.map(|before| &before.0.state) {
            Some(State::Own(live)) => {
                live.forget_wishes();
                Arc::clone(live)
            }
            _ => Arc::default(),
        };
        Self::with(agreement, State::Own(live))
    }

    /// A session that a transport finds again by its id.
    #[doc(hidden)]
    pub fn kept(agreement: Agreement, id: SessionId, keeper: Weak<dyn SessionStore>) -> Self {
        Self::with(agreement, State::Kept(id, keeper))
    }

    /// For requests of a client that made no handshake, in the revision that its HTTP header names. `None`: that one
    /// has no handshake.
    ///
    /// # Errors
    /// The revision is not known.
    #[doc(hidden)]
    pub fn absent(header: Option<&str>) -> Result<Option<Self>, RpcError> {
        let version = versions::assumed(header)?;
        Ok(version.map(|version| {
            let agreement = Agreement {
                version,
                ..Agreement::none()
            };
            Self::with(agreement, State::None)
        }))
    }

    /// Does the revision that an HTTP header names have sessions?
    ///
    /// # Errors
    /// The revision is not known.
    #[doc(hidden)]
    pub fn may_be_meant(header: Option<&str>) -> Result<bool, RpcError> {
        Ok(versions::assumed(header)?.is_some())
    }

    fn with(agreement: Agreement, state: State) -> Self {
        Self(Arc::new(Inner { agreement, state }))
    }

    /// Its id, over HTTP.
    pub(crate) fn id(&self) -> Option<u128> {
        match &self.0.state {
            State::Kept(id, _) => Some(u128::from_be_bytes(*id)),
            _ => None,
        }
    }

    /// The revision that was agreed on.
    pub fn version(&self) -> ProtocolVersion {
        self.0.agreement.version
    }

    /// Whether the revision has batches.
    pub fn has_batches(&self) -> bool {
        self.0.agreement.version.has_batches()
    }

    /// Whether a stream may begin with an event that has an id and nothing else, so that the client can come back for the rest.
    #[doc(hidden)]
    pub fn has_priming(&self) -> bool {
        versions::has_priming(self.0.agreement.version)
    }

    /// Is there none: did the client make no handshake?
    pub(crate) fn is_absent(&self) -> bool {
        matches!(self.0.state, State::None)
    }

    /// Can the client be asked anything at all, while a call goes on?
    pub(crate) fn can_ask(&self) -> bool {
        self.0.agreement.can_ask && !self.is_absent()
    }

    /// Can a client let go of its connection and come back for the rest?
    pub(crate) fn can_come_back(&self) -> bool {
        self.has_priming() && matches!(self.0.state, State::Kept(..))
    }

    /// When the handshake was made, in microseconds since 1970.
    pub(crate) fn made(&self) -> u64 {
        self.0.agreement.made
    }

    /// The capabilities of the client, as far as the revision has them.
    pub fn capabilities(&self) -> ClientCapabilities {
        let declared = self.profile("capabilities").map(serde_json::from_str);
        let mut capabilities: ClientCapabilities =
            declared.and_then(Result::ok).unwrap_or_default();
        if !self.0.agreement.can_ask {
            capabilities.elicitation = None;
            capabilities.sampling = None;
            capabilities.roots = None;
        }
        versions::trim_capabilities(self.0.agreement.version, &mut capabilities);
        capabilities
    }

    /// Tells it from all others, where a transport finds it again by its id.
    pub(crate) fn name(&self) -> Option<String> {
        match &self.0.state {
            State::None | State::Own(_) => None,
            // Half of what is random in it tells sessions apart, and lets nobody in.
            State::Kept(id, _) => {
                let half = id.iter().take(id.len() / 2);
                Some(half.map(|byte| format!("{byte:02x}")).collect())
            }
        }
    }

    /// The name and version that the client claims.
    pub fn client_info(&self) -> Option<Implementation> {
        serde_json::from_str(self.client_info_text()?).ok()
    }

    /// The same as JSON.
    pub(crate) fn client_info_text(&self) -> Option<&str> {
        self.profile("clientInfo").filter(|info| *info != "null")
    }

    /// The name that the client gives itself, and nothing else of what it says: asked for on many calls.
    pub(crate) fn client_name(&self) -> Option<Cow<'_, str>> {
        name_of(self.client_info_text()?)
    }

    /// A member of the [`ClientProfile`], as JSON.
    fn profile(&self, member: &str) -> Option<&str> {
        scan::member(&self.0.agreement.profile, member)
    }

    /// What goes on, if anything does.
    pub(crate) fn find(&self) -> Option<Arc<SessionState>> {
        match &self.0.state {
            State::None => None,
            State::Own(live) => Some(Arc::clone(live)),
            State::Kept(id, keeper) => keeper.upgrade()?.find(id),
        }
    }

    /// Does a question of this request wait for the client's answer?
    #[doc(hidden)]
    pub fn is_asked(&self, request: &RequestId) -> bool {
        self.find()
            .is_some_and(|live| !live.take_back(request).is_empty())
    }

    /// What goes on, made where there is nothing yet.
    ///
    /// # Errors
    /// This is no session, or there is no room for more.
    #[doc(hidden)]
    pub fn live(&self) -> Result<Arc<SessionState>, RpcError> {
        match &self.0.state {
            State::None => Err(RpcError::invalid_request(
                "this needs a session: send `initialize` first, and its `Mcp-Session-Id` from then on",
            )),
            State::Own(live) => Ok(Arc::clone(live)),
            State::Kept(id, keeper) => {
                let closed = || RpcError::internal("the server is closing");
                keeper.upgrade().ok_or_else(closed)?.make(id)
            }
        }
    }
}

/// The name in a client's `clientInfo`, and nothing else of it.
pub(crate) fn name_of(info: &str) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Named<'a> {
        #[serde(borrow)]
        name: Cow<'a, str>,
    }
    let named: Named<'_> = serde_json::from_str(info).ok()?;
    Some(named.name)
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("version", &self.0.agreement.version)
            .finish_non_exhaustive()
    }
}
