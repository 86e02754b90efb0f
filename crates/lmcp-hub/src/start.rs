//! One start of a server, and the result of asking for its lists then. The lists may differ from one start to the next.

use lmcp_wire::RpcError;

/// Identifies one start of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) generation: u64,
    pub(crate) times_opened: u64,
}

/// The start for which the lists of a server were last asked, and the result.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    /// The start of the server that was asked. `None`: nobody has asked yet.
    pub(crate) start: Option<Start>,
    /// The reason why the lists could not be read.
    pub(crate) error: Option<RpcError>,
}
