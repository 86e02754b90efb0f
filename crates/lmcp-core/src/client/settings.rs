//! The settings of a client: its name, and how it answers questions.

use std::{fmt, pin::Pin, sync::Arc, time::Duration};

use lmcp_wire::{
    ClientCapabilities, Implementation, LoggingLevel, Object, ProtocolVersion, RpcError,
    input::InputRequest, logging::LoggingMessageParams, progress::ProgressParams,
};
use serde_json::{Value, json};

use crate::caller::{Caller, Transport};

/// A function that answers the questions of a server, or says why it does not.
pub type Answerer = Arc<
    dyn Fn(Asked) -> Pin<Box<dyn Future<Output = Result<Value, RpcError>> + Send>> + Send + Sync,
>;

/// A function that is called with the progress of requests.
pub(super) type Watcher = Arc<dyn Fn(ProgressParams) + Send + Sync>;

/// A function that is called with log messages.
pub(super) type Logger = Arc<dyn Fn(LoggingMessageParams) + Send + Sync>;

/// A question of a server.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Asked {
    /// The key of the question, as the server chose it. Revisions before 2026-07-28 have no keys: the key is empty then, except of a
    /// server in the same process.
    pub key: String,
    /// The question: a form or a link for the user, a conversation for the model, or the folders that the client works in.
    pub question: InputRequest,
}

impl Asked {
    /// Makes a question with this key.
    pub fn new(key: String, question: InputRequest) -> Self {
        Self { key, question }
    }

    /// The default values of a form, which are the answer of a user who changes nothing.
    pub fn defaults(&self) -> Object {
        let InputRequest::Elicit(form) = &self.question else {
            return Object::new();
        };
        let schema = form.requested_schema.as_ref();
        let fields = schema.and_then(|schema| schema["properties"].as_object());
        let suggested = fields.into_iter().flatten();
        suggested
            .filter_map(|(name, field)| Some((name.clone(), field.get("default")?.clone())))
            .collect()
    }
}

/// A marker in the extensions of a caller in this process: the caller wants the keys of questions also in revisions that have
/// none.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "a marker")]
pub struct KeepsKeys;

/// The settings of a client, as a [`Target`](super::Target) gets them.
#[derive(Clone)]
#[non_exhaustive]
pub struct Settings {
    /// The name and version of the client.
    pub info: Implementation,
    /// The capabilities that the client declares: servers ask it for nothing else.
    pub capabilities: ClientCapabilities,
    /// The only revision that the client speaks. `None`: the newest that the server knows.
    pub version: Option<ProtocolVersion>,
    /// The function that answers questions.
    pub answer: Option<Answerer>,
    /// The caller in whose name requests are made, for servers in the same process.
    pub(super) caller: Caller,
    pub(super) log_level: Option<LoggingLevel>,
    pub(super) logger: Option<Logger>,
    /// The function that is called with the progress of requests.
    pub(super) watcher: Option<Watcher>,
    /// How long a request may take.
    pub(super) timeout: Option<Duration>,
}

impl Settings {
    /// Hands a log message to the function given to [`Builder::on_log`](super::Builder::on_log).
    pub fn log(&self, message: LoggingMessageParams) {
        if let Some(logger) = &self.logger {
            logger(message);
        }
    }

    pub(super) fn progress(&self, progress: ProgressParams) {
        if let Some(watcher) = &self.watcher {
            watcher(progress);
        }
    }

    pub(super) fn answer_with(
        &mut self,
        answer: impl Fn(&str, &InputRequest) -> Value + Send + Sync + 'static,
    ) {
        let answer = move |asked: Asked| {
            let answer = answer(&asked.key, &asked.question);
            std::future::ready(Ok(answer))
        };
        self.answer_later_with(answer);
    }

    pub(super) fn answer_later_with<F>(
        &mut self,
        answer: impl Fn(Asked) -> F + Send + Sync + 'static,
    ) where
        F: Future<Output = Result<Value, RpcError>> + Send + 'static,
    {
        let declared = json!({ "elicitation": { "form": {}, "url": {} }, "sampling": { "tools": {} }, "roots": {} });
        let extensions = self.capabilities.extensions.take();
        self.capabilities = serde_json::from_value(declared).unwrap_or_default();
        self.capabilities.extensions = extensions;
        self.answer = Some(Arc::new(move |asked| Box::pin(answer(asked))));
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            info: Implementation::new("lmcp in-process client", env!("CARGO_PKG_VERSION")),
            capabilities: ClientCapabilities::default(),
            version: None,
            answer: None,
            caller: Caller::new(Transport::Memory),
            log_level: None,
            logger: None,
            watcher: None,
            timeout: None,
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("info", &self.info)
            .field("capabilities", &self.capabilities)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}
