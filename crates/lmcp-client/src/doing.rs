//! What goes on in a link, and what its handshake agreed on.

use std::sync::{Arc, atomic::AtomicBool};

use http::{HeaderMap, HeaderValue};
use lmcp_wire::{RequestId, header as wire};
use tokio::task::AbortHandle;

/// What a handshake agreed on.
#[derive(Default)]
pub(crate) struct Session {
    pub(crate) id: Option<HeaderValue>,
    pub(crate) version: Option<HeaderValue>,
    pub(crate) standing: Option<u64>,
}

/// One exchange.
pub(crate) struct Running {
    pub(crate) ids: Vec<RequestId>,
    pub(crate) kind: Doing,
    pub(crate) cancelled: Arc<AtomicBool>,
    pub(crate) abort: AbortHandle,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doing {
    /// It ends with an answer.
    Request,
    /// The same, and hanging up is cancelling.
    Modern,
    /// A stream without an end.
    Listen,
    Standing,
    /// The stream of HTTP+SSE, where everything comes that the server says.
    Pair,
    Initialized,
    /// It stops another one, which need not be waited for then.
    Cancel(Option<u64>),
    Other,
}

impl Session {
    pub(crate) fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if let Some(id) = &self.id {
            headers.insert(wire::SESSION_ID, id.clone());
        }
        if let Some(version) = &self.version {
            headers.insert(wire::PROTOCOL_VERSION, version.clone());
        }
        headers
    }
}

impl Doing {
    /// Does it take one of the places that there are for requests?
    pub(crate) fn is_asking(self) -> bool {
        matches!(self, Self::Request | Self::Modern | Self::Listen)
    }

    /// Is it worth waiting a moment for, when nothing else will come?
    pub(crate) fn is_waited_for(self) -> bool {
        matches!(self, Self::Request | Self::Modern)
    }

    pub(crate) fn is_telling(self) -> bool {
        matches!(self, Self::Initialized | Self::Cancel(_) | Self::Other)
    }
}
