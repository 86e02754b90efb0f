//! A connection to a fresh fixture: messages go out, messages come in, and at the end nothing is left over.

pub(crate) mod lines;
pub(crate) mod server;

use lines::Lines;
use serde_json::Value;

use crate::{
    expand::Outgoing,
    http::Http,
    transcript::{Era, HttpPart, Transport},
};

pub(crate) enum Link {
    Lines(Lines),
    Http(Box<Http>),
}

impl Link {
    /// Starts a server and connects to it.
    pub(crate) async fn open(transport: Transport, era: Era) -> Result<Self, String> {
        let lines = match transport {
            Transport::Memory => server::memory()?,
            Transport::Stdio => server::stdio()?,
            Transport::Unix => server::unix().await?,
            Transport::Http => return Ok(Self::Http(Box::new(Http::open(era).await?))),
        };
        Ok(Self::Lines(lines))
    }

    /// Sends one message, as a client of the transport would.
    pub(crate) async fn send(&mut self, outgoing: &Outgoing, http: HttpPart) -> Result<(), String> {
        match self {
            Self::Lines(lines) => lines.send(&outgoing.bytes).await,
            Self::Http(link) => link.send(outgoing, http).await,
        }
    }

    /// Opens the way on which a session hears of changes. Lines have but one way.
    pub(crate) async fn listen(&mut self, http: &HttpPart) -> Result<(), String> {
        match self {
            Self::Lines(_) => Ok(()),
            Self::Http(link) => link.listen(http).await,
        }
    }

    /// The next message; `None` at the end of the connection.
    pub(crate) async fn next(&mut self) -> Result<Option<Value>, String> {
        match self {
            Self::Lines(lines) => lines.next().await,
            Self::Http(link) => link.next().await.map(Some),
        }
    }

    /// Waits until the server has taken in all that was sent, and returns what came meanwhile.
    pub(crate) async fn settle(&mut self) -> Result<Vec<Value>, String> {
        match self {
            Self::Lines(lines) => lines.settle().await,
            Self::Http(link) => link.settle().await,
        }
    }

    /// Ends the connection, and returns what still came.
    pub(crate) async fn finish(&mut self) -> Result<Vec<Value>, String> {
        match self {
            Self::Lines(lines) => lines.finish().await,
            Self::Http(link) => link.settle().await,
        }
    }

    /// Puts another server, of the same key, in the place of this one.
    pub(crate) async fn restart(&mut self) -> Result<(), String> {
        match self {
            Self::Lines(_) => Err("a connection of lines ends with its server".into()),
            Self::Http(link) => link.restart().await,
        }
    }

    /// The ids of all sessions so far, on HTTP.
    pub(crate) fn sessions(&self) -> &[String] {
        match self {
            Self::Lines(_) => &[],
            Self::Http(link) => link.sessions(),
        }
    }

    /// The server's address, on HTTP.
    pub(crate) fn host(&self) -> Option<String> {
        match self {
            Self::Lines(_) => None,
            Self::Http(link) => Some(link.host()),
        }
    }
}
