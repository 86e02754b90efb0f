//! The only file that speaks to people. Everything goes to stderr: stdout belongs to the protocol.

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

/// Why a command failed, and what may help.
#[derive(Debug)]
pub(crate) struct Failure {
    words: String,
    hint: Option<Cow<'static, str>>,
    code: u8,
}

impl Failure {
    /// Something did not work.
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

    /// What was said makes no sense: an option, a variable, a file of options.
    pub(crate) fn misuse(words: impl Into<String>) -> Self {
        Self::of(words).code(MISUSED)
    }

    /// A file that was named is of no use.
    pub(crate) fn cannot(what: &str, err: impl Error) -> Self {
        Self::new(&format!("cannot {what}"), err).code(MISUSED)
    }

    pub(crate) fn hint(mut self, hint: impl Into<Cow<'static, str>>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Does it stand for the answer of a server, and not for a mistake on the command line or a signal?
    pub(crate) fn is_answer(&self) -> bool {
        !self.words.is_empty() && self.code != MISUSED
    }

    /// The same in other words, which are made from each text that is shown.
    pub(crate) fn reworded(mut self, words: impl Fn(&str) -> String) -> Self {
        self.words = words(&self.words);
        self.hint = self.hint.map(|hint| words(&hint).into());
        self
    }

    /// Ends with its code, and says nothing.
    pub(crate) fn silent(mut self) -> Self {
        self.words.clear();
        self
    }

    /// Ends with this code instead.
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

/// Says what failed, and gives the exit code for it.
pub(crate) fn failure(failure: &Failure) -> ExitCode {
    if !failure.words.is_empty() {
        note(&format!("error: {failure}"));
    }
    if let Some(hint) = &failure.hint {
        note(&format!("hint: {hint}"));
    }
    ExitCode::from(failure.code)
}

/// Something worth knowing.
pub(crate) fn note(words: &str) {
    // Nobody has to listen: a client may close our stderr and still want its answers.
    let _ = stderr().write_all(format!("{words}\n").as_bytes());
}
