//! A client and an upstream against servers of every kind, over every link.

mod asking;
mod client;
mod crossing;
mod headers;
mod hostile;
mod not_found;
mod process;
mod questions;
#[path = "../probe/server.rs"]
mod server;
mod sessions;
mod starts;
mod support;
mod tokens;
mod waiting;
