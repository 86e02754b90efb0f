//! The exchanges that run in a link, and the agreement of its handshake.

use std::sync::{Arc, atomic::AtomicBool};

use http::{HeaderMap, HeaderValue};
use lmcp_wire::{RequestId, header as wire};
use tokio::task::AbortHandle;

/// The agreement of a handshake.
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
    /// A request that ends with an answer.
    Request,
    /// A request that ends with an answer, and that closing the connection cancels.
    Modern,
    /// A stream without an end.
    Listen,
    Standing,
    /// The stream of HTTP+SSE, on which all messages of the server arrive.
    Pair,
    Initialized,
    /// Cancels another exchange, which is not waited for after that.
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
    /// Returns whether the exchange takes one of the places for requests.
    pub(crate) fn is_asking(self) -> bool {
        matches!(self, Self::Request | Self::Modern | Self::Listen)
    }

    /// Returns whether to wait a moment for its answer when nothing else will come.
    pub(crate) fn is_waited_for(self) -> bool {
        matches!(self, Self::Request | Self::Modern)
    }

    pub(crate) fn is_telling(self) -> bool {
        matches!(self, Self::Initialized | Self::Cancel(_) | Self::Other)
    }
}
