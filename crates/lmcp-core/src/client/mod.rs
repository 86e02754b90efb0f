//! A client: typed calls to a server in the same process or, with the crate `lmcp-upstream`, to one anywhere.
//!
//! It speaks the newest revision to a [`Service`](crate::Service), and knows nothing of transports or of older ones: a
//! service that stands for a remote server knows those.

mod calling;
mod error;
mod features;
mod lists;
mod settings;
mod subscription;
mod target;
mod tasks;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use lmcp_wire::{
    ClientCapabilities, Incoming, LoggingLevel, RequestId, RpcError,
    input::{InputRequest, InputRequests},
    meta,
    method::request,
    tool::CallToolResult,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub use calling::{Calling, Event};
pub use error::{Error, Fault, Retriable};
pub use settings::{Answerer, Asked, Settings};
pub use subscription::{Change, Subscription};
pub use target::{Builder, Target};

use crate::{caller::Caller, endpoint::Endpoint, era, message::Message, messages::Messages};
use lists::Lists;

/// A client. Cheap to clone, and many callers may share it.
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
    settings: Settings,
    shared: Arc<Shared>,
}

/// What all clones know.
#[derive(Default)]
struct Shared {
    lists: Mutex<Lists>,
    /// Set after the client was made.
    level: Mutex<Option<LoggingLevel>>,
}

impl Client {
    pub(crate) fn new(server: Endpoint, settings: Settings) -> Self {
        Self {
            server,
            settings,
            shared: Arc::default(),
        }
    }

    /// Connects with everything at its default. [`Client::builder`] knows more.
    ///
    /// # Errors
    /// The server is not there, or cannot be spoken with.
    pub async fn connect(target: impl Target) -> Result<Self, Error> {
        Self::builder().connect(target).await
    }

    /// Says who connects, and what it can be asked for.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Declares capabilities.
    #[must_use]
    pub fn capabilities(mut self, capabilities: ClientCapabilities) -> Self {
        self.settings.capabilities = capabilities;
        self
    }

    /// Calls as somebody.
    #[must_use]
    pub fn caller(mut self, caller: Caller) -> Self {
        self.settings.caller = caller;
        self
    }

    /// Says that it is this client: some tools answer according to what a client can take.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.settings.info.name = name.into();
        self
    }

    /// Wants log messages from this level on.
    #[must_use]
    pub fn log_level(mut self, level: LoggingLevel) -> Self {
        self.settings.log_level = Some(level);
        self
    }

    /// Answers the server's questions. Declares forms, links, sampling and roots, unless capabilities are set after it.
    #[must_use]
    pub fn answering(
        mut self,
        answer: impl Fn(&str, &InputRequest) -> Value + Send + Sync + 'static,
    ) -> Self {
        self.settings.answer_with(answer);
        self
    }

    /// Calls a tool and waits for its result, answering questions on the way.
    ///
    /// A tool that goes on as a task is waited for.
    ///
    /// # Errors
    /// The server's JSON-RPC error, or there is no way to it. A tool that failed is a result with `is_error`.
    ///
    /// # Cancellation
    /// Dropping the future cancels the call.
    pub async fn call_tool(&self, name: &str, arguments: Value) -> Result<CallToolResult, Error> {
        let params = json!({ "name": name, "arguments": arguments });
        let result = self.request(request::TOOLS_CALL, params).await?;
        read(self.finished(result).await?)
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
    /// The server's JSON-RPC error, or there is no way to it.
    pub async fn request(&self, method: &str, params: Value) -> Result<Value, Error> {
        let Some(most) = self.settings.timeout else {
            return self.rounds(method, params).await;
        };
        let within = tokio::time::timeout(most, self.rounds(method, params)).await;
        within.unwrap_or_else(|_| Err(Error::late(method, most)))
    }

    /// Asks as often as the server wants to know something first.
    async fn rounds(&self, method: &str, mut params: Value) -> Result<Value, Error> {
        for _ in 0..MOST_ROUNDS {
            let mut calling = self.start(method, params.clone());
            let result = loop {
                match calling.next().await {
                    Some(Event::Done(result)) => break result?,
                    Some(Event::Log(log)) => self.settings.log(log),
                    Some(_) => {}
                    None => return Err(RpcError::internal("the server gave no answer").into()),
                }
            };
            let asks = result["resultType"] == "input_required";
            let Some(answer) = self.settings.answer.as_ref().filter(|_| asks) else {
                return Ok(result);
            };
            let mut answers = json!({});
            if !result["inputRequests"].is_null() {
                let questions: InputRequests = read(result["inputRequests"].clone())?;
                for (key, question) in questions {
                    let answered = answer(Asked::new(key.clone(), question)).await;
                    answers[key] = answered.map_err(Error::from)?;
                }
            }
            params["inputResponses"] = answers;
            match &result["requestState"] {
                Value::Null => drop(params.as_object_mut().map(|all| all.remove("requestState"))),
                state => params["requestState"] = state.clone(),
            }
        }
        let words = format!("the server still asks after {MOST_ROUNDS} answers");
        Err(RpcError::internal(words).into())
    }

    /// Sends any request. Questions are handed out, and not answered.
    pub fn start(&self, method: &str, mut params: Value) -> Calling {
        let mut head = match params["_meta"].take() {
            given @ Value::Object(_) => given,
            _ => json!({}),
        };
        head[meta::PROTOCOL_VERSION] = json!(era::versions::SERVED[0].as_str());
        head[meta::CLIENT_INFO] = json!(self.settings.info);
        head[meta::CLIENT_CAPABILITIES] = json!(self.settings.capabilities);
        if head["progressToken"].is_null() {
            head["progressToken"] = json!(1);
        }
        if let Some(level) = self.level() {
            head[meta::LOG_LEVEL] = json!(level);
        }
        params["_meta"] = head;
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let messages = self.send(&message.to_string().into());
        Calling::new(messages, Arc::clone(&self.shared))
    }

    fn level(&self) -> Option<LoggingLevel> {
        let set = *self.shared.level();
        set.or(self.settings.log_level)
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
                    self.settings.caller.clone(),
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

impl Shared {
    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn level(&self) -> MutexGuard<'_, Option<LoggingLevel>> {
        self.level.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Endpoint {
    /// A client in the same process.
    pub fn client(&self) -> Client {
        Client::new(self.clone(), Settings::default())
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Client").field(&self.server).finish()
    }
}

fn read<T: DeserializeOwned>(value: Value) -> Result<T, Error> {
    serde_json::from_value(value)
        .map_err(|err| RpcError::internal(format!("the result does not fit: {err}")).into())
}

/// How often a server may ask before it answers one request.
const MOST_ROUNDS: usize = 32;
