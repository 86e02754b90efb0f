//! A client in the same process: for tests of your own tools, without I/O.

use std::sync::Arc;

use bytes::Bytes;
use lmcp_wire::{
    self as wire, ClientCapabilities, Incoming, LoggingLevel, RequestId, RpcError,
    input::InputRequest,
    logging::LoggingMessageParams,
    meta,
    method::{notification, request},
    progress::ProgressParams,
    tool::CallToolResult,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    caller::{Caller, Transport},
    endpoint::Endpoint,
    era,
    message::Message,
    messages::Messages,
};

/// Answers a question: its key and the request, to what a client would send back.
type Answerer = Arc<dyn Fn(&str, &InputRequest) -> Value + Send + Sync>;

/// A client in the same process.
///
/// ```
/// # use lmcp_core::{Cx, NoArgs, Server, Tool};
/// # async fn hello(_: NoArgs, _: Cx) -> &'static str { "hello" }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let server = Server::new("greeter", "1.0.0").tool(Tool::new("hello", hello).about("Say hello.").read_only());
/// let client = server.start().unwrap().client();
/// let result = client.call_tool("hello", serde_json::json!({})).await.unwrap();
/// assert_eq!(result.content[0].as_text(), Some("hello"));
/// # });
/// ```
#[derive(Clone)]
pub struct Client {
    server: Endpoint,
    capabilities: ClientCapabilities,
    caller: Caller,
    name: String,
    log_level: Option<LoggingLevel>,
    answer: Option<Answerer>,
}

impl Client {
    fn new(server: Endpoint) -> Self {
        let caller = Caller::new(Transport::Memory);
        Self {
            server,
            capabilities: ClientCapabilities::default(),
            caller,
            name: "lmcp in-process client".into(),
            log_level: None,
            answer: None,
        }
    }

    /// Declares capabilities.
    #[must_use]
    pub fn capabilities(mut self, capabilities: ClientCapabilities) -> Self {
        self.capabilities = capabilities;
        self
    }

    /// Calls as somebody.
    #[must_use]
    pub fn caller(mut self, caller: Caller) -> Self {
        self.caller = caller;
        self
    }

    /// Says that it is this client: some tools answer according to what a client can take.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Wants log messages from this level on.
    #[must_use]
    pub fn log_level(mut self, level: LoggingLevel) -> Self {
        self.log_level = Some(level);
        self
    }

    /// Answers the server's questions. Declares forms, links, sampling and roots, unless capabilities are set after it.
    #[must_use]
    pub fn answering(
        mut self,
        answer: impl Fn(&str, &InputRequest) -> Value + Send + Sync + 'static,
    ) -> Self {
        let declared = json!({ "elicitation": { "form": {}, "url": {} }, "sampling": { "tools": {} }, "roots": {} });
        self.capabilities = serde_json::from_value(declared).unwrap_or_default();
        self.answer = Some(Arc::new(answer));
        self
    }

    /// Calls a tool and waits for its result, answering questions on the way.
    ///
    /// # Errors
    /// The server's JSON-RPC error. A tool that failed is a result with `is_error`.
    pub async fn call_tool(
        &self,
        name: &str,
        arguments: Value,
    ) -> Result<CallToolResult, RpcError> {
        let result = self
            .request(
                request::TOOLS_CALL,
                json!({ "name": name, "arguments": arguments }),
            )
            .await?;
        read(result)
    }

    /// Calls a tool; the events tell how it goes, and dropping it cancels.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "reads as `start_tool(name, json!({}))`"
    )]
    pub fn start_tool(&self, name: &str, arguments: Value) -> Calling {
        self.start(
            request::TOOLS_CALL,
            json!({ "name": name, "arguments": arguments }),
        )
    }

    /// Sends any request and waits for its result, answering questions on the way.
    ///
    /// # Errors
    /// The server's JSON-RPC error.
    pub async fn request(&self, method: &str, mut params: Value) -> Result<Value, RpcError> {
        loop {
            let mut calling = self.start(method, params.clone());
            let result = loop {
                match calling.next().await {
                    Some(Event::Done(result)) => break result?,
                    Some(_) => {}
                    None => return Err(RpcError::internal("the server gave no answer")),
                }
            };
            let Some(answer) = self
                .answer
                .as_ref()
                .filter(|_| result["resultType"] == "input_required")
            else {
                return Ok(result);
            };
            let questions: wire::input::InputRequests = read(result["inputRequests"].clone())?;
            let answers = questions
                .iter()
                .map(|(key, question)| (key.clone(), answer(key, question)));
            params["inputResponses"] = Value::Object(answers.collect());
            params["requestState"] = result["requestState"].clone();
        }
    }

    /// Sends any request.
    pub fn start(&self, method: &str, mut params: Value) -> Calling {
        let mut head = json!({
            meta::PROTOCOL_VERSION: era::versions::SERVED[0].as_str(),
            meta::CLIENT_INFO: { "name": self.name, "version": env!("CARGO_PKG_VERSION") },
            meta::CLIENT_CAPABILITIES: self.capabilities,
            "progressToken": 1,
        });
        if let Some(level) = self.log_level {
            head[meta::LOG_LEVEL] = json!(level);
        }
        params["_meta"] = head;
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        Calling(self.send(&message.to_string().into()))
    }

    /// Sends one message as it would come from a transport.
    fn send(&self, message: &Bytes) -> Messages {
        let refused =
            |id: Option<&RequestId>, error: &RpcError| Messages::ready(Message::error(id, error));
        match Incoming::parse(message) {
            Ok(Incoming::Request { id, method, params }) => {
                match era::admit(
                    message,
                    id.clone(),
                    &method,
                    params,
                    self.caller.clone(),
                    None,
                ) {
                    Ok(request) => self.server.start(request),
                    Err(error) => refused(Some(&id), &error),
                }
            }
            Ok(_) => refused(None, &RpcError::invalid_request("not a request")),
            Err(rejected) => refused(rejected.id.as_ref(), &rejected.error),
        }
    }
}

impl Endpoint {
    /// A client in the same process, for tests.
    pub fn client(&self) -> Client {
        Client::new(self.clone())
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Client").field(&self.server).finish()
    }
}

/// A request on its way. Dropping it cancels.
#[derive(Debug)]
pub struct Calling(Messages);

/// What a request says.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// How far it has got.
    Progress(ProgressParams),
    /// A log message.
    Log(LoggingMessageParams),
    /// Any other notification: its method and parameters.
    Other(String, Value),
    /// The end.
    Done(Result<Value, RpcError>),
}

impl Calling {
    /// What it says next; `None` after the end.
    pub async fn next(&mut self) -> Option<Event> {
        let message = self.0.next().await?;
        Some(match message.parse() {
            Incoming::Notification { method, params } => {
                let params: Value = read_raw(params.map_or("null", |params| params.get()));
                let event = match &*method {
                    notification::PROGRESS => serde_json::from_value(params.clone())
                        .ok()
                        .map(Event::Progress),
                    notification::MESSAGE => {
                        serde_json::from_value(params.clone()).ok().map(Event::Log)
                    }
                    _ => None,
                };
                event.unwrap_or_else(|| Event::Other(method.into_owned(), params))
            }
            Incoming::Response { outcome, .. } => {
                Event::Done(outcome.map(|result| read_raw(result.get())))
            }
            _ => Event::Done(Err(RpcError::internal("the server sent a request"))),
        })
    }
}

fn read_raw(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}

fn read<T: DeserializeOwned>(value: Value) -> Result<T, RpcError> {
    serde_json::from_value(value)
        .map_err(|err| RpcError::internal(format!("the result does not fit: {err}")))
}
