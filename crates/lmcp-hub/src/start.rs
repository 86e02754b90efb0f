//! One start of a server, and how its lists were asked for at it. What a server offers may differ from one start to the next.

use lmcp_wire::RpcError;

/// One start of a server, apart from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) generation: u64,
    pub(crate) times_opened: u64,
}

/// How the lists of a server were last asked for.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    /// The start of the server that was asked. `None`: nobody has asked yet.
    pub(crate) start: Option<Start>,
    /// Why they could not be read.
    pub(crate) error: Option<RpcError>,
}
