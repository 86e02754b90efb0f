//! The only file that speaks to people. Everything goes to stderr: stdout belongs to the protocol.

#![expect(clippy::print_stderr, reason = "this is the place for it")]

use std::{error::Error, process::ExitCode};

use lmcp::error::chain;

/// Why a command failed, and what may help.
#[derive(Debug)]
pub(crate) struct Failure {
    words: String,
    hint: Option<&'static str>,
}

impl Failure {
    pub(crate) fn of(words: String) -> Self {
        Self { words, hint: None }
    }

    pub(crate) fn new(words: &str, err: impl Error) -> Self {
        Self::of(format!("{words}: {}", chain(&err)))
    }

    pub(crate) fn hint(mut self, hint: &'static str) -> Self {
        self.hint = Some(hint);
        self
    }
}

impl From<lmcp::Error> for Failure {
    fn from(err: lmcp::Error) -> Self {
        Self {
            words: chain(&err),
            hint: None,
        }
    }
}

/// Says what failed, and gives the exit code for it.
pub(crate) fn failure(failure: &Failure) -> ExitCode {
    eprintln!("error: {}", failure.words);
    if let Some(hint) = failure.hint {
        eprintln!("hint: {hint}");
    }
    ExitCode::FAILURE
}

/// Something worth knowing.
pub(crate) fn note(words: &str) {
    eprintln!("{words}");
}
