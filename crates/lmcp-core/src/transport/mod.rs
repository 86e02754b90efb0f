//! Where requests come from. All but HTTP share one connection loop over lines of JSON.

mod batch;
pub mod connections;
mod exchange;
mod gate;
mod in_flight;
mod intake;
mod lines;
mod outgoing;
mod said;
mod socket_file;
mod stdio;
mod streams;
mod unix;

pub use exchange::{Ended, Inlet, Outlet, exchange};
pub use gate::{Admitting, Gate};
pub use socket_file::is_served;
pub use stdio::{Stdio, stdio};
pub use streams::{Streams, streams};
pub use unix::{Unix, unix};

pub use crate::{
    endpoint::Transport,
    peer::{CheckingLocalPeer, LocalPeer, LocalSocket, Peer},
};
