//! Stdio for MCP clients, in front of a server that may come and go.
//!
//! A client that starts its servers as processes treats the end of the process as the end of the server. [`run`] is a
//! process that does not end: it passes lines on to a server behind a socket, finds that server again after a restart, and
//! repeats to the next one what the client and the first agreed on. Requests that the lost server was working on are
//! answered with an error that says so.
//!
//! | file | what lives there |
//! |---|---|
//! | `relay/` | decides what is sent and when: a state machine that reads and writes nothing itself |
//! | `proxy.rs` | carries that out: moves lines, looks for servers, finds the end |
//! | `socket.rs` | waiting for stdio and a socket, with `poll` |
//! | `url.rs`, `watch.rs` | waiting for stdio and a URL, on a runtime |
//! | `attach.rs`, `identity.rs`, `target.rs` | find the socket, and the identity for it |
//! | `stdio.rs`, `connection.rs` | the client's end, and an open connection to a server's socket |
//! | `notes.rs` | notes for people |
//! | `outbox.rs`, `limits.rs` | lines into bytes, in bounded memory |

mod attach;
mod connection;
mod identity;
mod limits;
mod notes;
mod outbox;
mod proxy;
mod relay;
mod socket;
mod stdio;
mod target;
mod url;
mod watch;

use std::{fmt, process::ExitCode};

pub use attach::Way;
pub use identity::Identity;
pub use lmcp_client::{
    Endpoint, Secret, Settings, outbound::ClientCertificate, outbound::Settings as Outbound,
};
pub use target::Target;

/// Passes lines between stdin and the server until the client has gone, and returns how that ended.
///
/// `note` is called with a line for people when a server goes or comes. No process is started and no thread is made.
pub fn run(way: &Way, note: &mut dyn FnMut(&str)) -> Ending {
    socket::Driver::new(way, note).run()
}

/// Passes lines as [`run`] does, for a server behind a URL, on a runtime of its own.
///
/// # Errors
/// A runtime or thread cannot be made.
pub fn run_url(endpoint: &Endpoint, note: &mut dyn FnMut(&str)) -> std::io::Result<Ending> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(url::Driver::new(endpoint, note).run())
}

/// The way in which a proxy ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ending {
    /// The client has gone, and had every answer.
    Done,
    /// The client has gone without some answer, or got an error instead because there was no server.
    Unanswered,
    /// The server refuses this identity, now and later.
    Refused,
}

impl From<Ending> for ExitCode {
    /// 0, 1, and 77 for a missing permission, as in `sysexits.h`.
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Done => Self::SUCCESS,
            Ending::Unanswered => Self::FAILURE,
            Ending::Refused => Self::from(77),
        }
    }
}

/// The reason why there is no way to a server: a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(String);

impl Error {
    pub(crate) fn new(words: impl Into<String>) -> Self {
        Self(words.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}
