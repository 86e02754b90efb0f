//! The only file that writes messages for people. All of them go to stderr, because stdout belongs to the protocol.

use std::{
    borrow::Cow,
    error::Error,
    fmt,
    io::{Write as _, stderr},
    process::ExitCode,
};

use lmcp::error::chain;

/// The exit codes, besides 0 and 128 + the number of a signal.
const FAILED: u8 = 1;
const MISUSED: u8 = 2;

/// The reason why a command failed, with a hint that may help.
#[derive(Debug)]
pub(crate) struct Failure {
    words: String,
    hint: Option<Cow<'static, str>>,
    code: u8,
}

impl Failure {
    /// Something failed.
    pub(crate) fn of(words: impl Into<String>) -> Self {
        Self {
            words: words.into(),
            hint: None,
            code: FAILED,
        }
    }

    pub(crate) fn new(words: &str, err: impl Error) -> Self {
        Self::of(format!("{words}: {}", chain(&err)))
    }

    /// The user made a mistake: in an option, a variable or a file of options.
    pub(crate) fn misuse(words: impl Into<String>) -> Self {
        Self::of(words).code(MISUSED)
    }

    /// A named file cannot be used.
    pub(crate) fn cannot(what: &str, err: impl Error) -> Self {
        Self::new(&format!("cannot {what}"), err).code(MISUSED)
    }

    pub(crate) fn hint(mut self, hint: impl Into<Cow<'static, str>>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Returns whether this stands for the answer of a server, and not for a mistake on the command line or a signal.
    pub(crate) fn is_answer(&self) -> bool {
        !self.words.is_empty() && self.code != MISUSED
    }

    /// Returns the same failure with changed words.
    pub(crate) fn reworded(mut self, words: impl Fn(&str) -> String) -> Self {
        self.words = words(&self.words);
        self.hint = self.hint.map(|hint| words(&hint).into());
        self
    }

    /// Keeps the code, and removes all words.
    pub(crate) fn silent(mut self) -> Self {
        self.words.clear();
        self
    }

    /// Sets the exit code.
    pub(crate) fn code(mut self, code: u8) -> Self {
        self.code = code;
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl From<lmcp_wiring::Error> for Failure {
    fn from(err: lmcp_wiring::Error) -> Self {
        let words = err.to_string();
        let failure = if err.is_misuse() {
            Self::misuse(words)
        } else {
            Self::of(words)
        };
        match err.hint() {
            Some(hint) => failure.hint(hint.to_owned()),
            None => failure,
        }
    }
}

impl From<lmcp::Error> for Failure {
    fn from(err: lmcp::Error) -> Self {
        Self::of(chain(&err))
    }
}

/// Writes the failure, and returns its exit code.
pub(crate) fn failure(failure: &Failure) -> ExitCode {
    if !failure.words.is_empty() {
        note(&format!("error: {failure}"));
    }
    if let Some(hint) = &failure.hint {
        note(&format!("hint: {hint}"));
    }
    ExitCode::from(failure.code)
}

/// Writes a note for people.
pub(crate) fn note(words: &str) {
    // A failed write does not matter: a client may close our stderr and still want its answers.
    let _ = stderr().write_all(format!("{words}\n").as_bytes());
}
