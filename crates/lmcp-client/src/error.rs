//! The reasons why a server cannot be reached.

use std::fmt;

/// The reason why a server cannot be reached: a sentence for people, and whether to try again.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The server cannot be reached now.
    Unreachable(String),
    /// The server cannot be reached in this way, and another try does not help.
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

/// Turns the reason of a failed connection into an error.
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
