//! The sender of a request. The program decides who it is before anything of the body is read.

use std::pin::Pin;

use http::{HeaderMap, Response};
use lmcp_core::{Authenticator, Caller, Tokens};

use crate::answer::Body;

/// The way in which the program identifies callers.
#[derive(Default)]
pub(crate) enum Who {
    #[default]
    NotAsked,
    /// By the token of the request.
    Token(Tokens),
    /// By the headers alone, at once.
    Identify(Identify),
    Authenticate(Authenticator),
}

/// Returns a name by the headers, or the words of a refusal.
pub(crate) type Identify = Box<dyn Fn(&HeaderMap) -> Result<Option<String>, String> + Send + Sync>;

impl Who {
    /// Adds a token. It replaces any other way to identify callers.
    pub(crate) fn with_token(self, name: String, token: String) -> Self {
        let mut tokens = match self {
            Self::Token(tokens) => tokens,
            Self::NotAsked | Self::Identify(_) | Self::Authenticate(_) => Tokens::default(),
        };
        tokens.add(name, token);
        Self::Token(tokens)
    }
}

/// The caller, or the answer to somebody who is not let in.
pub(crate) type Known = Result<Caller, Box<Response<Body>>>;

/// The result of the check of a caller.
pub(crate) enum Asked {
    Now(Known),
    Later(Pin<Box<dyn Future<Output = Known> + Send>>),
}

impl Asked {
    /// Waits for the result, if it is not there yet.
    pub(crate) async fn settled(self) -> Known {
        match self {
            Self::Now(known) => known,
            Self::Later(asking) => asking.await,
        }
    }
}
