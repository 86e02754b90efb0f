//! The error of a request that has no result.

use std::{fmt, ops::Deref, sync::Arc, time::Duration};

use lmcp_wire::{RpcError, error};
use serde_json::json;

type Source = Arc<dyn std::error::Error + Send + Sync>;

/// The error of a request that has no result. It tells whose fault that is, and whether to try again.
///
/// The JSON-RPC error of the server can be read through it, as `err.code`, `err.message` and `err.data`. Where no answer came, lmcp
/// makes such an error itself.
///
/// ```
/// use lmcp::client::{Error, Fault};
///
/// fn advise(err: &Error) -> &'static str {
///     match err.fault() {
///         Fault::Caller => "mend the request",
///         _ if err.is_retriable() => "try again",
///         Fault::Transport => "the server is not there",
///         _ => "the server failed",
///     }
/// }
/// ```
#[derive(Clone)]
pub struct Error {
    error: RpcError,
    source: Option<Source>,
}

/// Whose fault an error is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The request was wrong, or showed no token that the server knows. It will fail again.
    Caller,
    /// The server failed.
    Server,
    /// The server could not be reached, or the connection broke.
    Transport,
}

impl Error {
    /// Makes an error for a server that cannot be reached.
    pub fn transport(words: impl Into<String>, retriable: Retriable) -> Self {
        let data = json!({ "fault": "transport", "retriable": retriable == Retriable::Yes });
        Self::from(RpcError::internal(words.into()).with_data(data))
    }

    pub(super) fn late(method: &str, most: Duration) -> Self {
        let seconds = most.as_secs_f32();
        let words = format!("`{method}` was not answered within {seconds} s, and is cancelled");
        Self::transport(words, Retriable::Yes)
    }

    /// Adds the cause.
    #[must_use]
    pub fn caused_by(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// Whether the server wants a token, and got none that it knows. The fault is that of the caller.
    pub fn is_unauthorized(&self) -> bool {
        let data = self.error.data.as_ref();
        data.is_some_and(|data| data["unauthorized"] == true)
    }

    /// Whose fault the error is.
    pub fn fault(&self) -> Fault {
        if self.is_unauthorized() {
            return Fault::Caller;
        }
        let said = self.error.data.as_ref().map(|data| &data["fault"]);
        if said.is_some_and(|said| said == "transport") {
            return Fault::Transport;
        }
        match self.error.code {
            error::INVALID_REQUEST
            | error::METHOD_NOT_FOUND
            | error::INVALID_PARAMS
            | error::RESOURCE_NOT_FOUND
            | error::HEADER_MISMATCH
            | error::MISSING_CLIENT_CAPABILITY
            | error::UNSUPPORTED_VERSION => Fault::Caller,
            _ => Fault::Server,
        }
    }

    /// Whether the same request may succeed when it is sent again. A tool that ran before the answer was lost would run twice.
    pub fn is_retriable(&self) -> bool {
        let data = self.error.data.as_ref();
        data.is_some_and(|data| data["retriable"] == true)
    }

    /// The JSON-RPC error.
    pub fn into_rpc(self) -> RpcError {
        self.error
    }
}

/// Whether trying again may help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there is no third answer")]
pub enum Retriable {
    /// Trying again may help.
    Yes,
    /// Trying again will not help.
    No,
}

/// The error that a client gets for whom the request was made.
impl From<Error> for RpcError {
    fn from(err: Error) -> Self {
        err.error
    }
}

/// Hubs and fleets count a server that lets them in no more as lost. To a client, that is its own fault.
impl From<RpcError> for Error {
    fn from(mut error: RpcError) -> Self {
        if let Some(data) = &mut error.data
            && data["unauthorized"] == true
        {
            data["fault"] = "caller".into();
        }
        Self {
            error,
            source: None,
        }
    }
}

impl Deref for Error {
    type Target = RpcError;

    fn deref(&self) -> &RpcError {
        &self.error
    }
}

impl PartialEq for Error {
    fn eq(&self, other: &Self) -> bool {
        self.error == other.error
    }
}

impl PartialEq<RpcError> for Error {
    fn eq(&self, other: &RpcError) -> bool {
        self.error == *other
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

/// Writes the words, the code and the data on one line, because Rust prints the error of `main` with it.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.error, f)?;
        match &self.error.data {
            Some(data) => write!(f, " {data}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let source = self.source.as_deref()?;
        Some(source)
    }
}
