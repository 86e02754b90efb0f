//! Targets that a client connects to, and the settings it connects with.

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

/// A target that a client connects to: a server in this process or, with the feature `client`, a URL, a socket or a command.
pub trait Target: Send {
    /// Connects, for a client with these settings.
    fn connect(self, settings: &Settings) -> impl Future<Output = Result<Endpoint, Error>> + Send;
}

impl Target for Endpoint {
    async fn connect(self, settings: &Settings) -> Result<Self, Error> {
        expect_newest(settings)?;
        Ok(self)
    }
}

impl Target for Handle {
    async fn connect(self, settings: &Settings) -> Result<Endpoint, Error> {
        self.endpoint().connect(settings).await
    }
}

impl Target for Server {
    async fn connect(self, settings: &Settings) -> Result<Endpoint, Error> {
        expect_newest(settings)?;
        let server = self.start().map_err(|err| {
            let words = format!("cannot start the server: {err}");
            Error::transport(words, Retriable::No).caused_by(err)
        })?;
        Ok(server.endpoint())
    }
}

/// The settings of a client before it connects. [`Client::builder`] makes one.
///
/// ```no_run
/// # async fn run(server: lmcp::Server) -> Result<(), lmcp::client::Error> {
/// use lmcp::{Client, LoggingLevel, wire::elicit::ElicitResult};
///
/// let client = Client::builder()
///     .named("my-program", "1.0.0")
///     .on_progress(|progress| eprintln!("{}", progress.progress))
///     .on_log(LoggingLevel::Warning, |message| eprintln!("{}", message.data))
///     .on_question(async |asked| {
///         // Show `asked.question` to the user; here the answer is always no.
///         Ok(ElicitResult::decline().into())
///     })
///     .connect(server)
///     .await?;
/// # Ok(())
/// # }
/// ```
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
    /// Sets the name and version that the server is told.
    pub fn named(mut self, name: impl Into<String>, version: impl Into<String>) -> Self {
        self.0.info = Implementation::new(name, version);
        self
    }

    /// Declares what the client can be asked for. Call it after [`on_question`](Self::on_question), which declares everything.
    pub fn capabilities(mut self, capabilities: ClientCapabilities) -> Self {
        self.0.capabilities = capabilities;
        self
    }

    /// Speaks this revision only. By default the client speaks the newest revision that the server knows.
    pub fn version(mut self, version: ProtocolVersion) -> Self {
        self.0.version = Some(version);
        self
    }

    /// Cancels every request that is not answered within this time.
    pub fn timeout(mut self, most: Duration) -> Self {
        self.0.timeout = Some(most);
        self
    }

    /// Asks for log messages of this level and above, and calls the function with each.
    pub fn on_log(
        mut self,
        level: LoggingLevel,
        hear: impl Fn(LoggingMessageParams) + Send + Sync + 'static,
    ) -> Self {
        self.0.log_level = Some(level);
        self.0.logger = Some(std::sync::Arc::new(hear));
        self
    }

    /// Calls the function with the progress of all requests, but those of [`Client::start_tool`], which hands out its own.
    pub fn on_progress(mut self, hear: impl Fn(ProgressParams) + Send + Sync + 'static) -> Self {
        self.0.watcher = Some(std::sync::Arc::new(hear));
        self
    }

    /// Answers the questions of the server with a function that need not wait. See [`Client::answering`] for an example.
    pub fn answering(
        mut self,
        answer: impl Fn(&str, &InputRequest) -> Value + Send + Sync + 'static,
    ) -> Self {
        self.0.answer_with(answer);
        self
    }

    /// Answers the questions of the server with an async function, which may ask a person or a model first: forms, links, questions
    /// to the model, questions for folders. An error refuses to answer.
    pub fn on_question<F>(mut self, answer: impl Fn(Asked) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Value, RpcError>> + Send + 'static,
    {
        self.0.answer_later_with(answer);
        self
    }

    /// Connects to a server: see [`Client::connect`].
    ///
    /// # Errors
    /// The server cannot be reached, or does not speak the revision of [`version`](Self::version).
    pub async fn connect(self, target: impl Target) -> Result<Client, Error> {
        let server = target.connect(&self.0).await?;
        Ok(Client::new(server, self.0))
    }
}

/// Refuses revisions that begin with a handshake: without a pipe to the server there is none.
fn expect_newest(settings: &Settings) -> Result<(), Error> {
    match settings.version.filter(|wanted| wanted.has_handshake()) {
        None => Ok(()),
        Some(older) => {
            let words = format!(
                "a server in this process is called in revision {}; connect to `upstream::in_process(server)` of the feature \
                 `client` for {older}",
                ProtocolVersion::NEWEST
            );
            Err(Error::transport(words, Retriable::No))
        }
    }
}
