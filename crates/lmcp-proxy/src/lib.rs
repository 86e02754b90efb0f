//! Stdio for MCP clients, in front of a server that may come and go.
//!
//! A client that starts its servers as processes takes the end of one for the end of everything. [`run`] is the process
//! that does not end: it passes lines on to a server behind a socket, finds that server again when it was restarted, and
//! tells the next one what the client and the first agreed on. What the lost server was working on is answered with an
//! error that says so.
//!
//! | file | what lives there |
//! |---|---|
//! | `relay/` | what is said when: a state machine that reads and writes nothing itself |
//! | `proxy.rs` | what is done then: lines are moved, servers are looked for, an end is found |
//! | `socket.rs` | waiting for stdio and a socket, with `poll` |
//! | `url.rs`, `watch.rs` | waiting for stdio and a URL, on a runtime |
//! | `attach.rs`, `identity.rs`, `target.rs` | which socket, and who we are there |
//! | `stdio.rs`, `connection.rs` | the client's end, and an open connection to a server's socket |
//! | `notes.rs` | what people are told |
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

/// Passes on what comes on stdin and from the server until the client has gone, and says how that ended.
///
/// `note` is told of servers that go and come, a line at a time, for people. Nothing is started and no thread is made.
pub fn run(way: &Way, note: &mut dyn FnMut(&str)) -> Ending {
    socket::Driver::new(way, note).run()
}

/// The same for a server behind a URL, on a runtime of its own.
///
/// # Errors
/// There is no runtime or thread to be had.
pub fn run_url(endpoint: &Endpoint, note: &mut dyn FnMut(&str)) -> std::io::Result<Ending> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(url::Driver::new(endpoint, note).run())
}

/// How a proxy ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ending {
    /// The client went, and had every answer.
    Done,
    /// The client went without some answer, or got an error in its place because there was no server.
    Unanswered,
    /// The server does not let this identity in, and never will.
    Refused,
}

impl From<Ending> for ExitCode {
    /// 0, 1, and 77 for what is not permitted, as `sysexits.h` has it.
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Done => Self::SUCCESS,
            Ending::Unanswered => Self::FAILURE,
            Ending::Refused => Self::from(77),
        }
    }
}

/// Why there is no way to a server: a sentence for people.
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
