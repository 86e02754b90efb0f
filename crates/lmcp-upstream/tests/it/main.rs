//! A client and an upstream, tested with servers of every kind, over every link.

mod asking;
mod client;
mod crossing;
mod ends;
mod headers;
mod hostile;
mod not_found;
mod pings;
mod process;
mod questions;
#[path = "../probe/server.rs"]
mod server;
mod sessions;
mod starts;
mod support;
mod tokens;
mod waiting;
