//! Why there is no connection.

use std::fmt;

/// Why there is no connection, as a sentence for people. No password of a proxy is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The guard does not let us go there, in its own words.
    Forbidden(String),
    /// The host is not found here, and the guard wants to see its addresses before a proxy is asked for it.
    Unchecked(String),
    /// The host is not found.
    NotFound(String),
    /// Nobody is there, or somebody hung up.
    Unreachable(String),
    /// Who is there cannot prove to be the right one, or does not take us for who we should be.
    Insecure(String),
    /// It cannot be done so: a file cannot be read, or a proxy does not do what it should.
    Refused(String),
    /// Time ran out during this step: `looking up …`.
    Late(String),
}

impl Error {
    /// Will it be the same, however often it is tried?
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

/// An error with everything that caused it, in one line.
pub fn chain(err: &dyn std::error::Error) -> String {
    let mut words = err.to_string();
    let mut cause = err.source();
    while let Some(err) = cause {
        let more = err.to_string();
        // Some repeat their cause in their own words.
        if !words.contains(&more) {
            words = format!("{words}: {more}");
        }
        cause = err.source();
    }
    words
}
