//! The reasons why a program cannot be wired.

use std::{borrow::Cow, error, fmt};

/// The reason why a program cannot be started so that it finds the server: a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    words: String,
    hint: Option<Cow<'static, str>>,
    is_misuse: bool,
}

impl Error {
    /// Returns a hint that may help.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Returns whether a person wrote something wrong. `false`: something failed.
    pub fn is_misuse(&self) -> bool {
        self.is_misuse
    }

    pub(crate) fn of(words: impl Into<String>) -> Self {
        Self {
            words: words.into(),
            hint: None,
            is_misuse: false,
        }
    }

    pub(crate) fn new(words: &str, err: impl error::Error) -> Self {
        Self::of(format!("{words}: {err}"))
    }

    pub(crate) fn misuse(words: impl Into<String>) -> Self {
        Self {
            is_misuse: true,
            ..Self::of(words)
        }
    }

    pub(crate) fn cannot(what: &str, err: impl error::Error) -> Self {
        Self::misuse(format!("cannot {what}: {err}"))
    }

    pub(crate) fn hinted(mut self, hint: impl Into<Cow<'static, str>>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl error::Error for Error {}
