//! The server that the transcripts talk to: small, deterministic, one of everything.
//!
//! Not an example of good tools. What each does is in its description; the transcripts show the rest.

mod asking;
mod calls;
mod changes;
mod content;
mod journal;
mod prompts;
mod resources;
mod shapes;
mod tasks;

use std::time::Duration;

use lmcp::{Limits, Server};

/// The server of the transcripts.
pub fn fixture() -> Server {
    let server = Server::new("transcripts", "1.0.0")
        .title("Transcripts")
        .instructions("Call the tools; nothing is real.")
        .key([7; 32])
        .limits(limits());
    let groups = [
        asking::add,
        calls::add,
        changes::add,
        content::add,
        journal::add,
        prompts::add,
        resources::add,
        shapes::add,
        tasks::add,
    ];
    groups.into_iter().fold(server, |server, add| add(server))
}

/// Bounds so low that a short transcript meets them, and no time that a result could depend on.
fn limits() -> Limits {
    let mut limits = Limits::default();
    limits.line_bytes = 32 << 10;
    limits.body_bytes = 32 << 10;
    limits.requests_in_flight = 4;
    limits.admission_wait = Duration::ZERO;
    limits.list_page = 13;
    limits.progress_interval = Duration::ZERO;
    limits.ask_rounds = 3;
    // A caller alone gets three of them.
    limits.listeners = 4;
    limits.watched = 2;
    limits.tasks = 2;
    limits
}
