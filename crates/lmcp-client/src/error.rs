//! Why there is no way to a server.

use std::fmt;

/// Why there is no way to a server: a sentence for people, and whether to try again.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// It cannot be reached now.
    Unreachable(String),
    /// It cannot be reached so, however often it is tried.
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

/// An error with everything that caused it, in one line.
pub(crate) fn chain(err: &dyn std::error::Error) -> String {
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
