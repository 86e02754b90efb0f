//! A server as programs name it: keeps what is known of the server, and opens links to it.

use std::{fmt, sync::Arc};

use crate::{error::Error, link::Link, pair::Pair, server::Server, settings::Settings};

/// A server behind a URL. It is cheap to clone, and keeps its knowledge about the server longer than any link.
#[derive(Clone)]
pub struct Endpoint(pub(crate) Arc<Server>);

impl Endpoint {
    /// Checks the settings. Nothing is connected yet.
    ///
    /// # Errors
    /// [`Error::Refused`]: the URL is not valid, a header cannot be sent, or a secret would be sent without protection.
    pub fn new(settings: Settings) -> Result<Self, Error> {
        Ok(Self(Arc::new(Server::new(settings)?)))
    }

    /// Connects to the server. Nothing is sent yet.
    ///
    /// # Errors
    /// The server cannot be reached, or is not the expected one.
    pub async fn open(&self) -> Result<Link, Error> {
        let server = Arc::clone(&self.0);
        if server.is_paired() {
            if let Some(pair) = Pair::open(&server).await? {
                return Ok(Link::paired(server, pair));
            }
            server.speaks_something_else();
        }
        let connection = server.connect().await?;
        Ok(Link::new(server).with(connection))
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Endpoint").field(&self.0.name()).finish()
    }
}
