//! Two errors for two readers: [`ToolError`] for the model, [`Error`] for the operator of the server.
//!
//! The third, `wire::RpcError` for the peer program, lives with its codes in `lmcp-wire`.

use std::{borrow::Cow, error::Error as StdError, fmt, io};

use lmcp_wire as wire;

/// The result of a handler that can fail.
pub type ToolResult<T> = Result<T, ToolError>;

/// Why a handler failed. Every error becomes one with `?`: those of libraries, `Box<dyn Error + Send + Sync>`,
/// `anyhow::Error`, and plain text.
///
/// The model reads the text, in a result with `isError: true`: say what failed, with which value, and what to try instead. An error
/// that comes through `?` is told with all its causes.
///
/// ```
/// use lmcp::{ToolError, ToolResult};
///
/// fn read(path: &str) -> ToolResult<String> {
///     std::fs::read_to_string(path)
///         .map_err(|err| ToolError::new(format!("cannot read `{path}`")).source(err).hint("list the folder first"))
/// }
/// assert_eq!(
///     read("/no/such").unwrap_err().to_string(),
///     "cannot read `/no/such`: No such file or directory (os error 2)\nhint: list the folder first",
/// );
///
/// fn first(words: &[&str]) -> ToolResult<u32> {
///     Ok(words.first().ok_or("there is no word")?.parse()?)
/// }
/// assert_eq!(first(&[]).unwrap_err().to_string(), "there is no word");
/// assert_eq!(first(&["x"]).unwrap_err().to_string(), "invalid digit found in string");
/// ```
///
/// An error that borrows something, or that no other thread may have, does not come through `?`: that of a poisoned lock, say.
/// Make text of it: `.map_err(|err| ToolError::new(err.to_string()))`.
///
/// With `?`, a `ToolError` also becomes a `Box<dyn Error>`, so handlers and `main` can share a function that returns a `ToolResult`:
///
/// ```
/// # use lmcp::{ToolError, ToolResult};
/// fn port(text: &str) -> ToolResult<u16> {
///     text.parse().map_err(|err| ToolError::new(format!("`{text}` is no port")).source(err))
/// }
///
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     assert_eq!(port("80")?, 80);
///     Ok(())
/// }
/// ```
///
/// A `ToolError` is no `std::error::Error`, as `anyhow::Error` is none, so it becomes neither an `anyhow::Error` nor a
/// `Box<dyn Error + Send + Sync>`. A function that needs one of these, and that handlers share, returns that error, or an `io::Result`.
///
/// In a prompt or a resource, nobody shows the text to a model: the client program gets the JSON-RPC error -32603 with it. Use
/// [`not_found`](Self::not_found) for a resource that does not exist, and [`rpc`](Self::rpc) with `RpcError::invalid_params` for an argument that is wrong.
// Not `std::error::Error` itself, so that the blanket `From` below is coherent.
#[derive(Debug)]
pub struct ToolError(Box<Failure>);

#[derive(Debug)]
pub(crate) enum Failure {
    /// An error that the model reads.
    Message {
        text: Cow<'static, str>,
        hint: Option<Cow<'static, str>>,
    },
    /// Not a failure: questions were put to the client, and the handler runs again once they are answered.
    NeedsInput,
    /// The client lacks a capability that a question needs.
    MissingCapability(Box<wire::ClientCapabilities>),
    /// The resource does not exist.
    NotFound,
    /// An error that the client program gets.
    Rpc(wire::RpcError),
}

impl ToolError {
    /// Makes a failure that is told to the model.
    pub fn new(text: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Failure::Message {
            text: text.into(),
            hint: None,
        }))
    }

    /// Makes the error of a resource that does not exist.
    pub fn not_found() -> Self {
        Self(Box::new(Failure::NotFound))
    }

    /// Makes a JSON-RPC error, which the client program gets in the place of a result. The model may never see it.
    pub fn rpc(error: wire::RpcError) -> Self {
        Self(Box::new(Failure::Rpc(error)))
    }

    /// Adds the cause, and the causes of the cause, to the text.
    #[must_use]
    pub fn source(mut self, cause: impl StdError) -> Self {
        if let Failure::Message { text, .. } = &mut *self.0 {
            *text = format!("{text}: {}", chain(&cause)).into();
        }
        self
    }

    /// Adds a hint: what the model should try instead.
    #[must_use]
    pub fn hint(mut self, words: impl Into<Cow<'static, str>>) -> Self {
        if let Failure::Message { hint, .. } = &mut *self.0 {
            *hint = Some(words.into());
        }
        self
    }

    /// Whether this is no failure, but a question that is not answered yet. A handler that catches errors must pass these on.
    pub fn is_needs_input(&self) -> bool {
        matches!(*self.0, Failure::NeedsInput)
    }

    /// Whether the client cannot be asked. A handler may catch this, and do without the answer:
    ///
    /// ```
    /// # use lmcp::{Cx, NoArgs, ToolResult};
    /// async fn erase(_: NoArgs, cx: Cx) -> ToolResult<&'static str> {
    ///     match cx.confirm("sure", "Erase everything?").await {
    ///         Ok(true) => Ok("erased"),
    ///         Ok(false) => Ok("kept"),
    ///         Err(err) if err.is_missing_capability() => Ok("kept: this client cannot ask the user; use `force`"),
    ///         Err(err) => Err(err),
    ///     }
    /// }
    /// ```
    pub fn is_missing_capability(&self) -> bool {
        matches!(*self.0, Failure::MissingCapability(_))
    }

    /// Replaces *not found* by the error that names the resource. Any other failure stays the same.
    pub(crate) fn at(self, not_found: impl FnOnce() -> wire::RpcError) -> Self {
        if matches!(*self.0, Failure::NotFound) {
            Self::rpc(not_found())
        } else {
            self
        }
    }

    pub(crate) fn needs_input() -> Self {
        Self(Box::new(Failure::NeedsInput))
    }

    pub(crate) fn missing(needed: wire::ClientCapabilities) -> Self {
        Self(Box::new(Failure::MissingCapability(Box::new(needed))))
    }

    pub(crate) fn failure(&self) -> &Failure {
        &self.0
    }

    pub(crate) fn into_failure(self) -> Failure {
        *self.0
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Failure::Message { text, hint: None } => f.write_str(text),
            Failure::Message {
                text,
                hint: Some(hint),
            } => write!(f, "{text}\nhint: {hint}"),
            Failure::NeedsInput => f.write_str("input is needed from the client"),
            Failure::MissingCapability(needed) => f.write_str(&unaskable(needed)),
            Failure::NotFound => f.write_str("not found"),
            Failure::Rpc(error) => error.fmt(f),
        }
    }
}

// Every error that fits in a box is accepted, not only `E: StdError`: a box of an error is no error itself, and neither is
// `anyhow::Error`.
impl<E: Into<Box<dyn StdError + Send + Sync>>> From<E> for ToolError {
    fn from(err: E) -> Self {
        Self::new(chain(&*err.into()))
    }
}

// Not for a box that is `Send + Sync`: every type that fits in one becomes a `ToolError` by the implementation above, and a `ToolError`
// must not do so twice.
impl From<ToolError> for Box<dyn StdError> {
    fn from(err: ToolError) -> Self {
        err.to_string().into()
    }
}

/// Writes the words for a model whose client cannot be asked.
pub(crate) fn unaskable(needed: &wire::ClientCapabilities) -> String {
    let (mut whom, mut lacks) = (Vec::new(), Vec::new());
    if let Some(form) = &needed.elicitation {
        whom.push("the user");
        lacks.push(match (&form.form, &form.url) {
            (None, Some(_)) => "`elicitation.url`",
            _ => "`elicitation`",
        });
    }
    if let Some(sampling) = &needed.sampling {
        whom.push("the model");
        lacks.push(match &sampling.tools {
            Some(_) => "`sampling.tools`",
            None => "`sampling`",
        });
    }
    if needed.roots.is_some() {
        whom.push("for the open folders");
        lacks.push("`roots`");
    }
    if whom.is_empty() {
        return wire::RpcError::missing_capability(needed)
            .message
            .into_owned();
    }
    let (whom, lacks) = (whom.join(" and "), lacks.join(" and "));
    format!("this must ask {whom} first, and this client cannot ask: it lacks {lacks}")
}

/// Makes the error of a URI without a resource. Each revision has its own code for it, which the encoder sets.
pub(crate) fn no_resource(uri: &str) -> wire::RpcError {
    let words = format!("there is no resource `{}`", wire::name::Beginning(uri));
    let error = wire::RpcError::new(wire::error::RESOURCE_NOT_FOUND, words);
    error.with_data(serde_json::json!({ "uri": uri }))
}

/// Writes an error and its causes on one line.
pub fn chain(err: &dyn StdError) -> String {
    let mut text = err.to_string();
    let mut cause = err.source();
    while let Some(err) = cause {
        text = format!("{text}: {err}");
        cause = err.source();
    }
    text
}

/// Why a server could not start or go on. The operator of the server reads it.
///
/// `Debug` writes the words and every cause, because Rust prints the error of `main` with it:
///
/// ```
/// let err = std::io::Error::other("address already in use");
/// let err = lmcp::Error::io("cannot listen on 127.0.0.1:8080", err);
/// assert_eq!(format!("{err:?}"), "cannot listen on 127.0.0.1:8080: address already in use");
/// ```
pub struct Error {
    kind: Kind,
    message: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Config,
    Io,
}

impl Error {
    /// Makes the error of a registration or setting that is wrong. The message names the thing and the rule.
    pub fn config(message: impl Into<String>) -> Self {
        Self {
            kind: Kind::Config,
            message: message.into(),
            source: None,
        }
    }

    /// Makes the error of a call of the operating system that failed.
    pub fn io(message: impl Into<String>, source: io::Error) -> Self {
        Self {
            kind: Kind::Io,
            message: message.into(),
            source: Some(Box::new(source)),
        }
    }

    /// Whether the description of the server or a setting is wrong. Trying again changes nothing then.
    pub fn is_config(&self) -> bool {
        self.kind == Kind::Config
    }

    /// Whether a call of the operating system failed.
    pub fn is_io(&self) -> bool {
        self.kind == Kind::Io
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Writes the words and every cause, because Rust prints the error of `main` with it.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&chain(self))
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
