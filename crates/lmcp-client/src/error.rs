//! Why there is no way to a server.

use std::fmt;

/// Why there is no way to a server: a sentence for people, and whether to try again.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The server cannot be reached now.
    Unreachable(String),
    /// The server cannot be reached in this way, however often it is tried.
    Refused(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(words) | Self::Refused(words) => f.write_str(words),
        }
    }
}

impl std::error::Error for Error {}

/// Why there is no connection.
impl From<lmcp_outbound::Error> for Error {
    fn from(err: lmcp_outbound::Error) -> Self {
        let words = err.to_string();
        match err {
            lmcp_outbound::Error::Insecure(_) => Self::Refused(format!(
                "{words}; is the address right? more certificates are trusted with SSL_CERT_FILE"
            )),
            err if err.is_final() => Self::Refused(words),
            _ => Self::Unreachable(words),
        }
    }
}
