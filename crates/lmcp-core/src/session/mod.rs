//! A session, which begins with a handshake: the agreement of the handshake, and the state of the session now.
//!
//! The agreement never changes, so that a client can carry it (see [`SessionKey`]), and an abandoned session costs nothing. The
//! state, a [`SessionState`], exists only while the session needs one: for a question that waits, a log level, or a
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
    /// A request without a session: its client can neither be asked nor have anything kept.
    None,
    /// The session of a connection, which lasts as long as the connection.
    Own(Arc<SessionState>),
    /// A session that a transport finds by its id. Weak, because the state in the store holds sessions in turn.
    Kept(SessionId, Weak<dyn SessionStore>),
}

/// Holds the states of a transport's sessions.
#[doc(hidden)]
pub trait SessionStore: Send + Sync + 'static {
    /// Returns the state of the session, if it has one.
    fn find(&self, id: &SessionId) -> Option<Arc<SessionState>>;

    /// Returns the state of the session, and makes one if there is none.
    ///
    /// # Errors
    /// There is no room for another state.
    fn make(&self, id: &SessionId) -> Result<Arc<SessionState>, RpcError>;
}

/// The agreement of a client and this server in a handshake.
#[derive(Clone, Debug)]
#[doc(hidden)]
pub struct Agreement {
    pub(crate) version: ProtocolVersion,
    /// The time of the handshake, in microseconds since 1970.
    pub(crate) made: u64,
    /// Whether the transport can put questions to the client.
    pub(crate) can_ask: bool,
    /// A [`ClientProfile`] as JSON text, because hardly any request reads it.
    pub(crate) profile: Arc<str>,
}

impl Agreement {
    /// An empty agreement, for an id that only has to be unguessable.
    pub fn none() -> Self {
        Self {
            version: versions::LEGACY[0],
            made: 0,
            can_ask: false,
            profile: "".into(),
        }
    }

    /// The same agreement, with a client that cannot be asked: for a request whose answer has no room for questions.
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
    /// Makes the session of a connection, which lasts as long as the connection. A second handshake starts a new session, but
    /// questions of the first can still be answered.
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

    /// Makes a session that a transport finds again by its id.
    #[doc(hidden)]
    pub fn kept(agreement: Agreement, id: SessionId, keeper: Weak<dyn SessionStore>) -> Self {
        Self::with(agreement, State::Kept(id, keeper))
    }

    /// Makes the session of a client that made no handshake, in the revision that its HTTP header names. `None`: that revision
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

    /// Whether the revision that an HTTP header names has sessions.
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

    /// The id of the session, over HTTP.
    pub(crate) fn id(&self) -> Option<u128> {
        match &self.0.state {
            State::Kept(id, _) => Some(u128::from_be_bytes(*id)),
            _ => None,
        }
    }

    /// The revision of the agreement.
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

    /// Whether the client made no handshake.
    pub(crate) fn is_absent(&self) -> bool {
        matches!(self.0.state, State::None)
    }

    /// Whether the client can be asked anything while a call goes on.
    pub(crate) fn can_ask(&self) -> bool {
        self.0.agreement.can_ask && !self.is_absent()
    }

    /// Whether a client can close its connection and come back for the rest of an answer.
    pub(crate) fn can_come_back(&self) -> bool {
        self.has_priming() && matches!(self.0.state, State::Kept(..))
    }

    /// The time of the handshake, in microseconds since 1970.
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

    /// A name that no other session has. `None` where the connection is the session.
    pub(crate) fn name(&self) -> Option<String> {
        match &self.0.state {
            State::None | State::Own(_) => None,
            // Half of the random id is enough to tell sessions apart, and does not admit anybody.
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

    /// The name and version that the client claims, as JSON.
    pub(crate) fn client_info_text(&self) -> Option<&str> {
        self.profile("clientInfo").filter(|info| *info != "null")
    }

    /// The name that the client claims. Many calls need it, so nothing else of the profile is parsed.
    pub(crate) fn client_name(&self) -> Option<Cow<'_, str>> {
        name_of(self.client_info_text()?)
    }

    /// A member of the [`ClientProfile`], as JSON.
    fn profile(&self, member: &str) -> Option<&str> {
        scan::member(&self.0.agreement.profile, member)
    }

    /// Returns the state of the session, if it has one.
    pub(crate) fn find(&self) -> Option<Arc<SessionState>> {
        match &self.0.state {
            State::None => None,
            State::Own(live) => Some(Arc::clone(live)),
            State::Kept(id, keeper) => keeper.upgrade()?.find(id),
        }
    }

    /// Whether a question of this request waits for the client's answer.
    #[doc(hidden)]
    pub fn is_asked(&self, request: &RequestId) -> bool {
        self.find()
            .is_some_and(|live| !live.take_back(request).is_empty())
    }

    /// Returns the state of the session, and makes one if there is none.
    ///
    /// # Errors
    /// The client has no session, or there is no room for another state.
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

/// Reads the name from a client's `clientInfo`, and nothing else.
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
