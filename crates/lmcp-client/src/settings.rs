//! The operator's settings for a server.

use std::{fmt, time::Duration};

use http::HeaderMap;

/// The address of a server, and how to speak to it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// `http://` or `https://`.
    pub url: String,
    /// Sent as `Authorization: Bearer …` with every request.
    pub bearer: Option<Secret>,
    /// Headers that are sent with every request, except those that the protocol sets itself. Each counts as a secret.
    pub headers: HeaderMap,
    /// Sends secrets over plain `http` to other machines, where everybody on the network path can read them, and to servers
    /// of other users on this machine.
    pub plain_secrets: bool,
    /// Certificates to trust, the client's own certificate, and proxies.
    pub outbound: lmcp_outbound::Settings,
    /// How long connecting may take. 10 s.
    pub connect_wait: Duration,
    /// How many requests run at once; others wait. 16: each is a connection.
    pub requests: usize,
    /// The longest message of the server, in bytes. 16 MiB: twice the limit of our own server.
    pub message_bytes: usize,
}

impl Settings {
    /// Returns settings for a server that needs no token.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            bearer: None,
            headers: HeaderMap::new(),
            plain_secrets: false,
            outbound: lmcp_outbound::Settings::default(),
            connect_wait: Duration::from_secs(10),
            requests: 16,
            message_bytes: 16 << 20,
        }
    }
}

/// A token, which `Debug` does not show.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Makes a secret of a text, without the space around it.
    pub fn new(text: impl AsRef<str>) -> Self {
        Self(text.as_ref().trim().to_owned())
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}
