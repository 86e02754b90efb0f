//! What can be asked of a server besides its tools and lists.

use std::collections::BTreeMap;

use lmcp_wire::{
    Implementation, LoggingLevel, ServerCapabilities,
    completion::{CompleteResult, Completion, Reference},
    meta,
    method::request,
    prompt::GetPromptResult,
    resource::ReadResourceResult,
};
use serde_json::{Value, json};

use super::{Client, Error, read};

impl Client {
    /// Reads a resource.
    ///
    /// # Errors
    /// As [`Client::request`].
    pub async fn read(&self, uri: &str) -> Result<ReadResourceResult, Error> {
        let params = json!({ "uri": uri });
        read(self.request(request::RESOURCES_READ, params).await?)
    }

    /// Renders a prompt.
    ///
    /// # Errors
    /// As [`Client::request`].
    pub async fn get_prompt(
        &self,
        name: &str,
        arguments: &BTreeMap<String, String>,
    ) -> Result<GetPromptResult, Error> {
        let params = json!({ "name": name, "arguments": arguments });
        read(self.request(request::PROMPTS_GET, params).await?)
    }

    /// Suggests values for an argument of a prompt or of a template, from what is typed so far.
    ///
    /// # Errors
    /// As [`Client::request`].
    pub async fn complete(
        &self,
        reference: &Reference<'_>,
        argument: &str,
        typed: &str,
    ) -> Result<Completion, Error> {
        let params = json!({ "ref": reference, "argument": { "name": argument, "value": typed } });
        let result: CompleteResult = read(self.request(request::COMPLETE, params).await?)?;
        Ok(result.completion)
    }

    /// From now on all clones want log messages of this level and above.
    pub fn set_log_level(&self, level: LoggingLevel) {
        *self.shared.level() = Some(level);
    }

    /// Is the server there?
    ///
    /// # Errors
    /// It is not.
    pub async fn ping(&self) -> Result<(), Error> {
        // Not a request of ours: 2026-07-28 has no `ping`, and whoever stands for the server knows what it understands.
        let ping = self.server.ping();
        let Some(most) = self.settings.timeout else {
            return Ok(ping.await?);
        };
        match tokio::time::timeout(most, ping).await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(Error::late(request::PING, most)),
        }
    }

    /// Who the server says it is.
    ///
    /// # Errors
    /// As [`Client::request`].
    pub async fn server_info(&self) -> Result<Implementation, Error> {
        let mut found = self.discover().await?;
        read(found["_meta"][meta::SERVER_INFO].take())
    }

    /// How the server says it is used, for the model.
    ///
    /// # Errors
    /// As [`Client::request`].
    pub async fn instructions(&self) -> Result<Option<String>, Error> {
        let found = self.discover().await?;
        Ok(found["instructions"].as_str().map(ToOwned::to_owned))
    }

    /// What the server offers.
    ///
    /// # Errors
    /// As [`Client::request`].
    pub async fn server_capabilities(&self) -> Result<ServerCapabilities, Error> {
        read(self.discover().await?["capabilities"].take())
    }

    async fn discover(&self) -> Result<Value, Error> {
        self.request(request::DISCOVER, json!({})).await
    }
}
