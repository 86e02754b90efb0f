//! The reason why there is no connection.

use std::fmt;

/// The reason why there is no connection, as a sentence for people. It never contains the password of a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The guard does not allow this connection. The words are its own.
    Forbidden(String),
    /// The host is not found here, and the guard wants to check its addresses before a proxy is asked for it.
    Unchecked(String),
    /// The host is not found.
    NotFound(String),
    /// No server is there, or the server closed the connection.
    Unreachable(String),
    /// The server cannot prove its identity, or does not accept our certificate.
    Insecure(String),
    /// The settings do not work: a file cannot be read, or a proxy does not do its task.
    Refused(String),
    /// Time ran out during this step: `looking up …`.
    Late(String),
}

impl Error {
    /// Whether the error will be the same, however often the connection is tried.
    pub fn is_final(&self) -> bool {
        match self {
            Self::Forbidden(_) | Self::Insecure(_) | Self::Refused(_) => true,
            Self::Unchecked(_) | Self::NotFound(_) | Self::Unreachable(_) | Self::Late(_) => false,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forbidden(words)
            | Self::Unchecked(words)
            | Self::NotFound(words)
            | Self::Unreachable(words)
            | Self::Insecure(words)
            | Self::Refused(words) => f.write_str(words),
            Self::Late(step) => write!(f, "timed out, {step}"),
        }
    }
}

impl std::error::Error for Error {}

/// Writes an error and its causes in one line.
pub fn chain(err: &dyn std::error::Error) -> String {
    let mut words = err.to_string();
    let mut cause = err.source();
    while let Some(err) = cause {
        let more = err.to_string();
        // Some errors repeat the words of their cause.
        if !words.contains(&more) {
            words = format!("{words}: {more}");
        }
        cause = err.source();
    }
    words
}
