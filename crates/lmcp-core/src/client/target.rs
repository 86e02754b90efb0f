//! What a client can be connected to, and as whom.

use std::time::Duration;

use lmcp_wire::{
    ClientCapabilities, Implementation, LoggingLevel, ProtocolVersion, RpcError,
    input::InputRequest, logging::LoggingMessageParams, progress::ProgressParams, task,
};
use serde_json::{Value, json};

use super::{Asked, Client, Error, Settings, error::Retriable};
use crate::{
    endpoint::Endpoint,
    server::{Handle, Server},
};

/// Something that a client can be connected to: a server in this process, or, of the crate `lmcp-upstream`, a URL, a
/// socket or a command.
pub trait Target: Send {
    /// Connects, for a client that is so.
    fn connect(self, settings: &Settings) -> impl Future<Output = Result<Endpoint, Error>> + Send;
}

impl Target for Endpoint {
    async fn connect(self, _: &Settings) -> Result<Self, Error> {
        Ok(self)
    }
}

impl Target for Handle {
    async fn connect(self, _: &Settings) -> Result<Endpoint, Error> {
        Ok(self.endpoint())
    }
}

impl Target for Server {
    async fn connect(self, _: &Settings) -> Result<Endpoint, Error> {
        let server = self.start().map_err(|err| {
            let words = format!("cannot start the server: {err}");
            Error::transport(words, Retriable::No).caused_by(err)
        })?;
        Ok(server.endpoint())
    }
}

/// Who connects, and what it can be asked for.
#[derive(Clone, Debug)]
#[must_use = "`connect` makes the client"]
pub struct Builder(Settings);

impl Default for Builder {
    fn default() -> Self {
        let mut settings = Settings {
            info: Implementation::new("lmcp", env!("CARGO_PKG_VERSION")),
            ..Settings::default()
        };
        let tasks = (task::EXTENSION.to_owned(), json!({}));
        settings.capabilities.extensions = Some([tasks].into_iter().collect());
        Self(settings)
    }
}

impl Builder {
    /// Says that it is this program.
    pub fn named(mut self, name: impl Into<String>, version: impl Into<String>) -> Self {
        self.0.info = Implementation::new(name, version);
        self
    }

    /// Declares capabilities, in the place of those that an answer of questions declares.
    pub fn capabilities(mut self, capabilities: ClientCapabilities) -> Self {
        self.0.capabilities = capabilities;
        self
    }

    /// Speaks this revision and no other.
    pub fn version(mut self, version: ProtocolVersion) -> Self {
        self.0.version = Some(version);
        self
    }

    /// Cancels requests that are not answered within this time.
    pub fn timeout(mut self, most: Duration) -> Self {
        self.0.timeout = Some(most);
        self
    }

    /// Wants log messages from this level on, and hears them.
    pub fn on_log(
        mut self,
        level: LoggingLevel,
        hear: impl Fn(LoggingMessageParams) + Send + Sync + 'static,
    ) -> Self {
        self.0.log_level = Some(level);
        self.0.logger = Some(std::sync::Arc::new(hear));
        self
    }

    /// Hears how far the requests of all clones have got. [`Client::start_tool`] tells its own caller instead.
    pub fn on_progress(mut self, hear: impl Fn(ProgressParams) + Send + Sync + 'static) -> Self {
        self.0.watcher = Some(std::sync::Arc::new(hear));
        self
    }

    /// Answers the server's questions at once: forms, links, sampling and roots.
    pub fn answering(
        mut self,
        answer: impl Fn(&str, &InputRequest) -> Value + Send + Sync + 'static,
    ) -> Self {
        self.0.answer_with(answer);
        self
    }

    /// Answers the server's questions, after asking a person or a model: forms, links, sampling and roots. An error
    /// refuses.
    pub fn on_question<F>(mut self, answer: impl Fn(Asked) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Value, RpcError>> + Send + 'static,
    {
        self.0.answer_later_with(answer);
        self
    }

    /// Connects.
    ///
    /// # Errors
    /// The server is not there, or cannot be spoken with.
    pub async fn connect(self, target: impl Target) -> Result<Client, Error> {
        let server = target.connect(&self.0).await?;
        Ok(Client::new(server, self.0))
    }
}
