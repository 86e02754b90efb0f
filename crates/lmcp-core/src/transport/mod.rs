//! Transports, where requests come from. All but HTTP share one connection loop over lines of JSON.
//!
//! Windows has no unix sockets here: the standard library offers none.

mod batch;
#[doc(hidden)]
pub mod connections;
mod exchange;
mod in_flight;
mod intake;
mod lines;
mod outgoing;
mod said;
mod stdio;
mod streams;
#[cfg(unix)]
mod unix;

pub use exchange::{Closed, Inlet, Outlet, exchange};
pub use stdio::{Stdio, stdio};
pub use streams::{Streams, streams};
#[cfg(unix)]
pub use unix::{Admitting, Gate, Unix, is_served, unix};

pub use crate::{
    endpoint::Transport,
    peer::{CheckingLocalPeer, LocalPeer, LocalSocket, Peer},
};
