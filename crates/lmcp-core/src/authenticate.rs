//! [`Authenticate`]: lets the program decide who a caller is, on every transport; and [`Challenge`]: the answer to a caller
//! that is refused.

use std::{
    borrow::Cow,
    fmt,
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    sync::Arc,
    task::Poll,
};

use lmcp_wire::RpcError;

use crate::{caller::Caller, layer::incident, principal::Principal};

/// Decides who a caller is, by what its transport knows: its headers, its token, or its process.
///
/// Over HTTP, lmcp asks for every request, before the body is read. On a unix socket, lmcp asks once for each connection; the caller is the
/// process at the other end, and the token of its first line, if there is one. [`Caller::bearer`] returns the token on both transports.
///
/// A function that need not wait is an `Authenticate`, too: `|caller: &Caller| Ok(Principal::new("ann"))`.
///
/// ```
/// # use lmcp::{Authenticate, Caller, Challenge, Principal};
/// # struct Issuer;
/// # impl Issuer { async fn look_up(&self, token: &str) -> Option<String> { None } }
/// struct Tokens(Issuer);
///
/// impl Authenticate for Tokens {
///     async fn authenticate(&self, caller: &Caller) -> Result<Principal, Challenge> {
///         let token = caller.bearer().ok_or_else(|| Challenge::new("a token is needed"))?;
///         let name = self.0.look_up(token).await;
///         let name = name.ok_or_else(|| Challenge::new("this token is not known"))?;
///         Ok(Principal::new(name).role("reader"))
///     }
/// }
/// ```
///
/// # Cancellation
/// The future is dropped when the caller hangs up, and after [`Limits::auth_wait`](crate::Limits::auth_wait).
pub trait Authenticate: Send + Sync + 'static {
    /// Decides who the caller is, or why it is refused.
    fn authenticate(
        &self,
        caller: &Caller,
    ) -> impl Future<Output = Result<Principal, Challenge>> + Send;
}

impl<F> Authenticate for F
where
    F: Fn(&Caller) -> Result<Principal, Challenge> + Send + Sync + 'static,
{
    async fn authenticate(&self, caller: &Caller) -> Result<Principal, Challenge> {
        self(caller)
    }
}

/// The answer to a caller that is refused: over HTTP a status, the header `WWW-Authenticate` and an error, on sockets the error.
///
/// ```
/// use lmcp::Challenge;
///
/// let no_token = Challenge::new("a token is needed").parameter("scope", "files:read"); // 401
/// let not_allowed = Challenge::forbidden("this server is for admins"); // 403
/// let later = Challenge::not_now("the issuer of tokens does not answer"); // 503
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Challenge {
    error: Box<RpcError>,
    status: u16,
    asks: Asks,
}

/// The credentials that a caller is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Asks {
    /// A token. These parameters follow the ones that every such challenge has.
    Token(String),
    /// Other credentials: the whole value of `WWW-Authenticate`.
    Other(String),
    Nothing,
}

impl Challenge {
    /// Refuses with 401 and `WWW-Authenticate: Bearer realm="lmcp"`. If the caller sent a token, `error="invalid_token"` is added.
    pub fn new(words: impl Into<Cow<'static, str>>) -> Self {
        Self {
            error: Box::new(RpcError::invalid_request(words)),
            status: 401,
            asks: Asks::Token(String::new()),
        }
    }

    /// Refuses with 403 and without `WWW-Authenticate`: the caller is known, and is not allowed.
    pub fn forbidden(words: impl Into<Cow<'static, str>>) -> Self {
        Self {
            status: 403,
            asks: Asks::Nothing,
            ..Self::new(words)
        }
    }

    /// Refuses with 503: the credentials cannot be checked now.
    pub fn not_now(words: impl Into<Cow<'static, str>>) -> Self {
        Self {
            error: Box::new(RpcError::internal(words)),
            status: 503,
            asks: Asks::Nothing,
        }
    }

    /// Sets another status. A status that does not mean failure is sent as 401.
    #[must_use]
    pub fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// Adds a parameter to the challenge, as in `resource_metadata="https://…"` or `scope="files:read"`.
    #[must_use]
    pub fn parameter(mut self, name: &str, value: &str) -> Self {
        let quoted = value.replace('\\', r"\\").replace('"', r#"\""#);
        let before = match self.asks {
            Asks::Token(before) => before,
            Asks::Other(_) | Asks::Nothing => String::new(),
        };
        self.asks = Asks::Token(format!(r#"{before}, {name}="{quoted}""#));
        self
    }

    /// Sets the whole header `WWW-Authenticate`, such as `Basic realm="tools"`.
    #[must_use]
    pub fn www_authenticate(mut self, value: impl Into<String>) -> Self {
        self.asks = Asks::Other(value.into());
        self
    }

    /// The error that the caller gets.
    pub fn error(&self) -> &RpcError {
        &self.error
    }

    /// The status that a caller over HTTP gets.
    pub fn http_status(&self) -> u16 {
        self.status
    }

    /// The header `WWW-Authenticate` for this caller. `None`: the answer has no such header.
    pub fn asks(&self, caller: &Caller) -> Option<String> {
        self.asks_given(caller.bearer().is_some())
    }

    fn asks_given(&self, sent_token: bool) -> Option<String> {
        match &self.asks {
            Asks::Token(parameters) => {
                let names_error = parameters.contains(", error=");
                let error = if sent_token && !names_error {
                    r#", error="invalid_token""#
                } else {
                    ""
                };
                Some(format!(r#"Bearer realm="lmcp"{error}{parameters}"#))
            }
            Asks::Other(value) => Some(value.clone()),
            Asks::Nothing => None,
        }
    }
}

impl fmt::Display for Challenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.error.message)
    }
}

impl std::error::Error for Challenge {}

/// An [`Authenticate`] of any type, for transports.
#[derive(Clone)]
pub struct Authenticator(Arc<dyn Erased>);

/// The future of [`Authenticator::ask`]: the same caller with its principal, or the reason of a refusal.
pub type Authenticating = Pin<Box<dyn Future<Output = Result<Caller, Challenge>> + Send>>;

trait Erased: Send + Sync {
    fn ask(self: Arc<Self>, caller: Caller) -> Authenticating;
}

impl<A: Authenticate> Erased for A {
    fn ask(self: Arc<Self>, caller: Caller) -> Authenticating {
        Box::pin(async move {
            let principal = {
                let mut asking = pin!(self.authenticate(&caller));
                // The program's code may panic, as handlers may: a panic costs one answer.
                poll_fn(|cx| {
                    let polled = catch_unwind(AssertUnwindSafe(|| asking.as_mut().poll(cx)));
                    polled.unwrap_or_else(|panic| Poll::Ready(Err(failed(incident(&*panic)))))
                })
                .await?
            };
            Ok(caller.authenticated(principal))
        })
    }
}

impl Authenticator {
    /// Makes one from any [`Authenticate`].
    pub fn new(authenticate: impl Authenticate) -> Self {
        Self(Arc::new(authenticate))
    }

    /// Asks who a caller is. The work begins when the future is first polled, and may end at once.
    pub fn ask(&self, caller: Caller) -> Authenticating {
        Arc::clone(&self.0).ask(caller)
    }
}

impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authenticator").finish_non_exhaustive()
    }
}

/// Makes the refusal after a panic: a panic lets nobody in.
fn failed(error: RpcError) -> Challenge {
    Challenge {
        error: Box::new(error),
        status: 500,
        asks: Asks::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_says_what_is_to_be_shown() {
        let new = Challenge::new("no");
        for (challenge, without, with) in [
            (
                new.clone(),
                Some(r#"Bearer realm="lmcp""#),
                Some(r#"Bearer realm="lmcp", error="invalid_token""#),
            ),
            (
                new.clone().parameter("resource_metadata", "https://x/y"),
                Some(r#"Bearer realm="lmcp", resource_metadata="https://x/y""#),
                Some(
                    r#"Bearer realm="lmcp", error="invalid_token", resource_metadata="https://x/y""#,
                ),
            ),
            (
                Challenge::forbidden("no").parameter("error", "insufficient_scope"),
                Some(r#"Bearer realm="lmcp", error="insufficient_scope""#),
                Some(r#"Bearer realm="lmcp", error="insufficient_scope""#),
            ),
            (
                new.clone().parameter("scope", r#"a"\"#),
                Some(r#"Bearer realm="lmcp", scope="a\"\\""#),
                Some(r#"Bearer realm="lmcp", error="invalid_token", scope="a\"\\""#),
            ),
            (new.www_authenticate("Basic"), Some("Basic"), Some("Basic")),
            (Challenge::forbidden("no"), None, None),
        ] {
            assert_eq!(challenge.asks_given(false).as_deref(), without);
            assert_eq!(challenge.asks_given(true).as_deref(), with);
        }
    }
}
