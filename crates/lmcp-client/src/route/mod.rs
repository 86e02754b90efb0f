//! The ways to reach a server, and the open channel: lines are sent, and events are returned, in the same form for all ways.

mod child;
mod given;
#[cfg(unix)]
mod input;
mod lines;
#[cfg_attr(unix, path = "unix.rs")]
#[cfg_attr(windows, path = "windows.rs")]
mod system;

use std::{
    fmt,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use lmcp_wire::greeting::Greeting;

pub use child::Command;
pub use given::Given;

use crate::{Endpoint, Error, Event, Link, Secret};
use child::Child;
use lines::{Lines, Output};

/// A way to reach a server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Route {
    /// By HTTP.
    Url(Endpoint),
    /// On a unix socket, one message a line. Windows has none.
    Socket(PathBuf),
    /// On a unix socket whose server asks for a token: the first line shows the token, only to a server of this user or of
    /// root.
    SocketWithToken(PathBuf, Secret),
    /// As a process that is started for this, on its standard input and output. On unix the process and its group end with this program. On
    /// Windows only the process itself ends, and not if this program is ended by force.
    Command(Command),
    /// On a connection that the other side has made, one message a line.
    Given(Given),
}

impl Route {
    /// Connects, or starts the process. Nothing is sent to the server yet.
    ///
    /// # Errors
    /// The server cannot be reached or started.
    pub async fn open(&self) -> Result<Channel, Error> {
        Ok(Channel(match self {
            Self::Url(endpoint) => Way::Http(Box::new(endpoint.open().await?)),
            Self::Socket(path) => {
                let (reader, writer) = reached(path).await?;
                let name = path.display().to_string();
                Way::Socket(Box::new(Lines::new(reader, writer)), name)
            }
            Self::SocketWithToken(path, token) => {
                let (reader, writer) = reached(path).await?;
                let name = path.display().to_string();
                system::expect_own_server(&reader)
                    .map_err(|why| Error::Refused(format!("`{name}` {why}")))?;
                let mut lines = Lines::new(reader, writer);
                // The welcome that answers the greeting is not a message, and is skipped.
                lines.send(Greeting::new(token.expose()).to_line().into());
                Way::Socket(Box::new(lines), name)
            }
            Self::Command(command) => Way::Child(Box::new(command.start()?)),
            Self::Given(given) => {
                let name = given.name().to_owned();
                let gone = || Error::Unreachable(format!("`{name}` has hung up"));
                let (reader, writer) = tokio::io::split(given.take().ok_or_else(gone)?);
                Way::Socket(Box::new(Lines::new(reader, writer)), name)
            }
        }))
    }

    /// Returns whether the server keeps its state while connections to it come and go. A process that is started again does
    /// not, and a given connection exists only once.
    pub fn is_shared(&self) -> bool {
        !matches!(self, Self::Command(_) | Self::Given(_))
    }

    /// Returns the whole address of the server, which no other server has: for keys, not for people, because a URL may hold a secret.
    pub fn address(&self) -> String {
        match self {
            Self::Url(endpoint) => endpoint.0.address(),
            // A program with another working folder has another path in mind.
            Self::Socket(path) | Self::SocketWithToken(path, _) => {
                let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                path.as_os_str()
                    .as_encoded_bytes()
                    .escape_ascii()
                    .to_string()
            }
            Self::Command(_) | Self::Given(_) => self.to_string(),
        }
    }

    /// Returns how many requests the server gets at once; `None`: there is no limit.
    pub fn places(&self) -> Option<usize> {
        match self {
            Self::Url(endpoint) => Some(endpoint.0.requests),
            Self::Socket(_) | Self::SocketWithToken(..) | Self::Command(_) | Self::Given(_) => None,
        }
    }

    /// Returns whether the server is reached by HTTP.
    pub fn is_http(&self) -> bool {
        matches!(self, Self::Url(_))
    }
}

/// Writes the name of the server for people.
impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(endpoint) => f.write_str(endpoint.0.name()),
            Self::Socket(path) | Self::SocketWithToken(path, _) => path.display().fmt(f),
            Self::Command(command) => f.write_str(&command.name()),
            Self::Given(given) => f.write_str(given.name()),
        }
    }
}

async fn reached(path: &Path) -> Result<system::Socket, Error> {
    system::connect(path).await.map_err(|err| {
        let words = format!("cannot connect to `{}`: {err}", path.display());
        Error::Unreachable(words)
    })
}

/// An open channel to a server. Dropping it closes the connection; [`close`](Self::close) ends the session first.
pub struct Channel(Way);

enum Way {
    Http(Box<Link>),
    Socket(Box<Lines>, String),
    Child(Box<Child>),
}

impl Channel {
    /// Sends one message, once [`next`](Self::next) is waited for.
    pub fn send(&mut self, line: impl Into<Bytes>) {
        let line = line.into();
        match &mut self.0 {
            Way::Http(link) => link.send(line),
            Way::Socket(lines, _) => lines.send(line),
            Way::Child(child) => child.lines.send(line),
        }
    }

    /// Returns whether more lines should be sent. If not, [`Event::Room`] tells when.
    pub fn has_room(&self) -> bool {
        match &self.0 {
            Way::Http(link) => link.has_room(),
            Way::Socket(lines, _) => lines.has_room(),
            Way::Child(child) => child.lines.has_room(),
        }
    }

    /// Returns the next event. [`Event::Lost`], [`Event::Refused`] and [`Event::Unauthorized`] are the last, and are
    /// repeated.
    ///
    /// # Cancellation
    /// The future may be dropped, and `next` called again: nothing is lost.
    pub async fn next(&mut self) -> Event {
        match &mut self.0 {
            Way::Http(link) => link.next().await,
            Way::Socket(lines, name) => match lines.next().await {
                Output::Line(line) => Event::Line(line),
                Output::Refusal(line) => Event::Failure(line),
                Output::Unsent(line) => Event::Unsent(line),
                Output::Room => Event::Room,
                Output::Ended(why) => Event::Lost(format!("`{name}` {why}")),
            },
            Way::Child(child) => child.next().await,
        }
    }

    /// Closes the channel. Takes at most a few seconds; a process that has not ended by then is killed.
    pub async fn close(self) {
        match self.0 {
            Way::Http(link) => link.close().await,
            Way::Socket(mut lines, _) => lines.flush().await,
            Way::Child(child) => child.close().await,
        }
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Channel")
    }
}
