//! What an operator says about a server.

use std::{fmt, time::Duration};

use http::HeaderMap;

/// Where a server is, and how to speak to it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// `http://` or `https://`.
    pub url: String,
    /// Sent as `Authorization: Bearer …` with every request.
    pub bearer: Option<Secret>,
    /// Sent with every request. Not those that the protocol uses itself. Each counts as a secret.
    pub headers: HeaderMap,
    /// Sends secrets over plain `http` to other machines, where everybody on the way can read them, and to servers of other
    /// users on this one.
    pub plain_secrets: bool,
    /// Whom to trust, who we are, and through which proxy.
    pub outbound: lmcp_outbound::Settings,
    /// How long a connection may take to be made. 10 s.
    pub connect_wait: Duration,
    /// How many requests are on their way at once; others wait. 16: each is a connection.
    pub requests: usize,
    /// Longest message of the server, in bytes. 16 MiB: twice what a server of ours takes.
    pub message_bytes: usize,
}

impl Settings {
    /// A server that wants no token.
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
