//! Resources, prompts, completions, and the self-description of a server.

use lmcp_wire::{
    Implementation, LoggingLevel, RpcError, ServerCapabilities,
    completion::{CompleteResult, Completion, Reference},
    meta,
    method::request,
    prompt::GetPromptResult,
    resource::ReadResourceResult,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::{Client, Error, read};

impl Client {
    /// Reads a resource.
    ///
    /// ```
    /// # async fn run(client: lmcp::Client) -> Result<(), lmcp::client::Error> {
    /// let read = client.read("note://garden").await?;
    /// let text = read.contents[0].text.as_deref();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Client::request`].
    pub async fn read(&self, uri: &str) -> Result<ReadResourceResult, Error> {
        let params = json!({ "uri": uri });
        read(self.request(request::RESOURCES_READ, params).await?)
    }

    /// Gets the messages of a prompt. The arguments are an object of strings: `json!({ … })`, a map, or a struct of yours.
    ///
    /// ```
    /// # async fn run(client: lmcp::Client) -> Result<(), lmcp::client::Error> {
    /// let prompt = client.get_prompt("summarise", serde_json::json!({ "name": "garden" })).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Client::request`].
    pub async fn get_prompt(
        &self,
        name: &str,
        arguments: impl Serialize + Send,
    ) -> Result<GetPromptResult, Error> {
        let Ok(arguments @ Value::Object(_)) = serde_json::to_value(arguments) else {
            let words = "the arguments of a prompt are an object";
            return Err(RpcError::invalid_params(words).into());
        };
        let params = json!({ "name": name, "arguments": arguments });
        read(self.request(request::PROMPTS_GET, params).await?)
    }

    /// Asks for values of an argument of a prompt or of a template, by the beginning that the user typed. `Reference::prompt(name)` names
    /// the prompt, `Reference::resource(template)` the template, as in `note://{title}`.
    ///
    /// ```
    /// use lmcp::wire::completion::Reference;
    ///
    /// # async fn run(client: lmcp::Client) -> Result<(), lmcp::client::Error> {
    /// let names = client.complete(&Reference::prompt("summarise"), "name", "ga").await?;
    /// assert_eq!(names.values, ["garden", "gate"]);
    /// # Ok(())
    /// # }
    /// ```
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

    /// Asks the server for log messages of this level and above, from now on and for all clones.
    pub fn set_log_level(&self, level: LoggingLevel) {
        *self.shared.level() = Some(level);
    }

    /// Checks that the server answers.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn ping(&self) -> Result<(), Error> {
        // This is no request of the client: 2026-07-28 has no `ping`, and the service that stands for the server knows how to
        // ask it.
        let ping = self.server.ping();
        let Some(most) = self.settings.timeout else {
            return Ok(ping.await?);
        };
        match tokio::time::timeout(most, ping).await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(Error::late(request::PING, most)),
        }
    }

    /// The name and version of the server, as it claims.
    ///
    /// # Errors
    /// As [`Client::request`].
    pub async fn server_info(&self) -> Result<Implementation, Error> {
        let mut found = self.discover().await?;
        read(found["_meta"][meta::SERVER_INFO].take())
    }

    /// The advice of the server on how to use it, for the model.
    ///
    /// # Errors
    /// As [`Client::request`].
    pub async fn instructions(&self) -> Result<Option<String>, Error> {
        let found = self.discover().await?;
        Ok(found["instructions"].as_str().map(ToOwned::to_owned))
    }

    /// The capabilities of the server: whether it offers tools, resources, prompts, and so on.
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
