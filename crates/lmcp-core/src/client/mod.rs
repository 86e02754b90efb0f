//! A client: typed calls to a server in the same process or, with the feature `client` of `lmcp`, to any server.
//!
//! The client speaks the newest revision to a [`Service`](crate::Service). For a remote server, the service that stands for it
//! knows the transport and the older revisions.

mod calling;
mod error;
mod features;
mod lists;
mod settings;
mod subscription;
mod target;
mod tasks;

use std::{
    borrow::Cow,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use lmcp_wire::{
    ClientCapabilities, Incoming, LoggingLevel, RequestId, RpcError,
    input::{InputRequest, InputRequests},
    jsonrpc, meta,
    method::request,
    tool::CallToolResult,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json, value::RawValue};

pub use calling::{Calling, Event};
pub use error::{Error, Fault, Retriable};
#[doc(hidden)]
pub use settings::KeepsKeys;
pub use settings::{Answerer, Asked, Settings};
pub use subscription::{Change, Subscription};
pub use target::{Builder, Target};

use crate::{
    caller::Caller,
    endpoint::{Endpoint, Messages},
    era,
    message::Message,
    spawn::Tasks,
};
use calling::Step;
use lists::Lists;

/// A client of a server. The server runs in the same process, or anywhere else with the feature `client`.
///
/// In a test, [`Handle::client`](crate::Handle::client) connects without I/O:
///
/// ```
/// # use lmcp::{Cx, NoArgs, Server, Tool};
/// # async fn hello(_: NoArgs, _: Cx) -> &'static str { "hello" }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let hello = Tool::new("hello", hello).about("Say hello.").read_only();
/// let client = Server::new("greeter", "1.0.0").tool(hello).start().unwrap().client();
/// let result = client.call_tool("hello", serde_json::json!({})).await.unwrap();
/// assert_eq!(result.content[0].as_text(), Some("hello"));
/// # });
/// ```
///
/// With the feature `client`, [`Client::connect`] reaches a server behind a URL, on a socket, or in a program that it starts:
///
/// ```no_run
/// # async fn run() -> Result<(), lmcp::client::Error> {
/// use lmcp::{Client, upstream};
///
/// let target = upstream::url("https://tools.example/mcp").token_file("token");
/// let client = Client::connect(target).await?;
/// for tool in client.list_tools().await? {
///     println!("{}: {}", tool.name, tool.description.unwrap_or_default());
/// }
/// let target = upstream::command("npx").args(["-y", "some-server"]);
/// let local = Client::connect(target).await?;
/// # Ok(())
/// # }
/// ```
///
/// | to | call |
/// |---|---|
/// | call a tool | [`call_tool`](Client::call_tool), or [`start_tool`](Client::start_tool) to see its progress |
/// | list what there is | [`list_tools`](Client::list_tools), [`list_resources`](Client::list_resources), [`list_templates`](Client::list_templates), [`list_prompts`](Client::list_prompts) |
/// | read a resource | [`read`](Client::read) |
/// | get a prompt, complete an argument | [`get_prompt`](Client::get_prompt), [`complete`](Client::complete) |
/// | hear of changes | [`subscribe`](Client::subscribe) |
/// | answer the questions of the server | [`Builder::on_question`], [`answering`](Client::answering) |
/// | send anything else | [`request`](Client::request) |
///
/// A client is cheap to clone, and many tasks may share it. Dropping the future of a call cancels the call.
#[derive(Clone)]
pub struct Client {
    server: Endpoint,
    settings: Settings,
    shared: Arc<Shared>,
}

/// The part that all clones share.
#[derive(Default)]
struct Shared {
    lists: Mutex<Lists>,
    /// The log level that was set after the client was made.
    level: Mutex<Option<LoggingLevel>>,
    /// Requests that cancel tasks nobody waits for any more.
    cancelling: Tasks,
}

impl Client {
    pub(crate) fn new(server: Endpoint, settings: Settings) -> Self {
        Self {
            server,
            settings,
            shared: Arc::default(),
        }
    }

    /// Connects to a server, with default settings: see [`Client::builder`] for others. The target is a [`Server`](crate::Server), a
    /// [`Handle`](crate::Handle), or with the feature `client` an `upstream::url`, `upstream::socket` or `upstream::command`.
    ///
    /// # Errors
    /// The server cannot be reached, or speaks no revision that lmcp knows.
    pub async fn connect(target: impl Target) -> Result<Self, Error> {
        Self::builder().connect(target).await
    }

    /// Sets the name of the client, how it answers questions, and its timeout, before it connects.
    ///
    /// ```no_run
    /// # async fn run(server: lmcp::Server) -> Result<(), lmcp::client::Error> {
    /// use std::time::Duration;
    ///
    /// use lmcp::Client;
    ///
    /// let builder = Client::builder().named("my-program", "1.0.0").timeout(Duration::from_secs(30));
    /// let client = builder.connect(server).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Declares what the client can be asked for, in the place of what it declared before.
    #[must_use]
    pub fn capabilities(mut self, capabilities: ClientCapabilities) -> Self {
        self.settings.capabilities = capabilities;
        self
    }

    /// Calls a server in the same process as this caller, to test roles for example.
    ///
    /// ```
    /// # use lmcp::{Caller, CallerTransport, Principal, Server};
    /// # fn main() -> Result<(), lmcp::Error> {
    /// let ann = Caller::new(CallerTransport::Memory).authenticated(Principal::new("ann").role("admin"));
    /// let client = Server::new("shop", "1.0.0").start()?.client().caller(ann);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn caller(mut self, caller: Caller) -> Self {
        self.settings.caller = caller;
        self
    }

    /// Claims to be the client of this name. Some clients need results in a special form, and servers decide that by the name.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.settings.info.name = name.into();
        self
    }

    /// Asks the server for log messages of this level and above.
    #[must_use]
    pub fn log_level(mut self, level: LoggingLevel) -> Self {
        self.settings.log_level = Some(level);
        self
    }

    /// Answers the questions of the server with this function, and declares that the client answers forms, links, questions to the
    /// model, and questions for folders. The function gets the key that the server chose, and the question.
    ///
    /// ```
    /// # use lmcp::{Client, wire::{elicit::ElicitResult, input::InputRequest}};
    /// # fn run(client: Client) {
    /// let client = client.answering(|key, question| match (key, question) {
    ///     ("sure", InputRequest::Elicit(_)) => ElicitResult::accept([("yes".into(), true.into())]).into(),
    ///     _ => ElicitResult::decline().into(),
    /// });
    /// # }
    /// ```
    ///
    /// Remote servers of revisions before 2026-07-28 send no keys: `key` is empty then, and the question has to do.
    #[must_use]
    pub fn answering(
        mut self,
        answer: impl Fn(&str, &InputRequest) -> Value + Send + Sync + 'static,
    ) -> Self {
        self.settings.answer_with(answer);
        self
    }

    /// Calls a tool, answers the questions of the server, and returns the result. A tool that becomes a task is waited for.
    ///
    /// ```
    /// # async fn run(client: lmcp::Client) -> Result<(), lmcp::client::Error> {
    /// let result = client.call_tool("add", serde_json::json!({ "a": 1, "b": 2 })).await?;
    /// if result.is_error {
    ///     // The tool ran, and failed: the text says why.
    /// }
    /// let text = result.content[0].as_text();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The server answered with a JSON-RPC error, or cannot be reached. A tool that failed is no such error, but a result with
    /// `is_error`.
    ///
    /// # Cancellation
    /// Dropping the future cancels the call.
    pub async fn call_tool(&self, name: &str, arguments: Value) -> Result<CallToolResult, Error> {
        let result = self
            .request_text(request::TOOLS_CALL, tool(name, arguments))
            .await?;
        if kind(&result).is_none_or(|kind| kind == "complete") {
            return read_text(&result);
        }
        let finished = self.finished(read_text(&result)?);
        let finished = match self.settings.timeout {
            Some(most) => tokio::time::timeout(most, finished)
                .await
                .unwrap_or_else(|_| Err(Error::late(request::TOOLS_CALL, most))),
            None => finished.await,
        };
        read(finished?)
    }

    /// Calls a tool, and hands out its progress, its log messages and its result as they come. Dropping the value cancels the call.
    ///
    /// ```
    /// use lmcp::client::Event;
    ///
    /// # async fn run(client: lmcp::Client) {
    /// let mut calling = client.start_tool("index", serde_json::json!({}));
    /// while let Some(event) = calling.next().await {
    ///     match event {
    ///         Event::Progress(progress) => println!("{} of {:?}", progress.progress, progress.total),
    ///         Event::Done(result) => println!("{result:?}"),
    ///         _ => {}
    ///     }
    /// }
    /// # }
    /// ```
    pub fn start_tool(&self, name: &str, arguments: Value) -> Calling {
        self.begin(request::TOOLS_CALL, &tool(name, arguments))
    }

    /// Disconnects, and waits until a program that was started for this client has ended. Later calls of all clones fail.
    pub async fn close(&self) {
        self.server.hang_up().await;
    }

    /// Sends any request, answers the questions of the server, and returns the result as JSON.
    ///
    /// ```
    /// # async fn run(client: lmcp::Client) -> Result<(), lmcp::client::Error> {
    /// let found = client.request("server/discover", serde_json::json!({})).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The server answered with a JSON-RPC error, or cannot be reached.
    pub async fn request(&self, method: &str, params: Value) -> Result<Value, Error> {
        read_text(&self.request_text(method, params).await?)
    }

    async fn request_text(&self, method: &str, params: Value) -> Result<Box<RawValue>, Error> {
        let Some(most) = self.settings.timeout else {
            return self.rounds(method, params).await;
        };
        let within = tokio::time::timeout(most, self.rounds(method, params)).await;
        within.unwrap_or_else(|_| Err(Error::late(method, most)))
    }

    /// Sends the request, and answers the questions of the server, until the result comes.
    async fn rounds(&self, method: &str, mut params: Value) -> Result<Box<RawValue>, Error> {
        for _ in 0..MOST_ROUNDS {
            let mut calling = self.begin(method, &params);
            let result = loop {
                match calling.step().await {
                    Some(Step::End(result)) => break result?,
                    Some(Step::On(Event::Log(log))) => self.settings.log(log),
                    Some(Step::On(Event::Progress(progress))) => self.settings.progress(progress),
                    Some(Step::On(_)) => {}
                    None => return Err(RpcError::internal("the server gave no answer").into()),
                }
            };
            let Some(answer) = &self.settings.answer else {
                return Ok(result);
            };
            if kind(&result).is_none_or(|kind| kind != "input_required") {
                return Ok(result);
            }
            let result: Value = read_text(&result)?;
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

    /// Sends any request, and hands out what comes back. Questions of the server are handed out, too, and not answered.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "reads as `start(method, json!({}))`"
    )]
    pub fn start(&self, method: &str, params: Value) -> Calling {
        self.begin(method, &params)
    }

    fn begin(&self, method: &str, params: &Value) -> Calling {
        let text = jsonrpc::request_with(&RequestId::from(1), method, &self.params(params));
        let messages = self.send(&text.into());
        Calling::new(messages, Arc::clone(&self.shared))
    }

    /// Writes the parameters as text, with the members of `_meta` that the client adds. The receiver parses them again anyway.
    fn params(&self, params: &Value) -> Vec<u8> {
        let none = Map::new();
        let params = params.as_object().unwrap_or(&none);
        let given = params.get("_meta").and_then(Value::as_object);
        let mut out = Vec::with_capacity(512);
        out.push(b'{');
        for (name, value) in params.iter().filter(|(name, _)| *name != "_meta") {
            member(&mut out, name, value);
        }
        out.extend_from_slice(b"\"_meta\":{");
        for (name, value) in given
            .into_iter()
            .flatten()
            .filter(|(name, _)| !is_head(name))
        {
            member(&mut out, name, value);
        }
        if given.is_none_or(|given| !given.contains_key("progressToken")) {
            member(&mut out, "progressToken", &1);
        }
        if let Some(level) = self.level() {
            member(&mut out, meta::LOG_LEVEL, &level);
        }
        member(&mut out, meta::CLIENT_INFO, &self.settings.info);
        let capabilities = &self.settings.capabilities;
        member(&mut out, meta::CLIENT_CAPABILITIES, capabilities);
        let version = era::versions::SERVED[0].as_str();
        member(&mut out, meta::PROTOCOL_VERSION, version);
        out.pop();
        out.extend_from_slice(b"}}");
        out
    }

    fn level(&self) -> Option<LoggingLevel> {
        let set = *self.shared.level();
        set.or(self.settings.log_level)
    }

    /// Sends one message as if it came from a transport.
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
    /// A client in the same process, without I/O.
    pub fn client(&self) -> Client {
        Client::new(self.clone(), Settings::default())
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Client").field(&self.server).finish()
    }
}

/// Makes the parameters of a call of a tool.
fn tool(name: &str, arguments: Value) -> Value {
    let mut params = Map::new();
    params.insert("name".to_owned(), name.into());
    params.insert("arguments".to_owned(), arguments);
    params.into()
}

/// Writes a member of an object, and a comma after it.
fn member<T: Serialize + ?Sized>(out: &mut Vec<u8>, name: &str, value: &T) {
    jsonrpc::append(out, name);
    out.push(b':');
    jsonrpc::append(out, value);
    out.push(b',');
}

/// Whether the client writes this member of `_meta` itself.
fn is_head(name: &str) -> bool {
    let said = [
        meta::PROTOCOL_VERSION,
        meta::CLIENT_INFO,
        meta::CLIENT_CAPABILITIES,
    ];
    said.contains(&name)
}

/// Returns the type of the result, if the result names it.
fn kind(result: &RawValue) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Kind<'a> {
        #[serde(borrow, default)]
        result_type: Option<Cow<'a, str>>,
    }
    let kind: Kind<'_> = serde_json::from_str(result.get()).ok()?;
    kind.result_type
}

fn read_text<T: DeserializeOwned>(result: &RawValue) -> Result<T, Error> {
    serde_json::from_str(result.get())
        .map_err(|err| RpcError::internal(format!("the result does not fit: {err}")).into())
}

fn read<T: DeserializeOwned>(value: Value) -> Result<T, Error> {
    serde_json::from_value(value)
        .map_err(|err| RpcError::internal(format!("the result does not fit: {err}")).into())
}

/// How often a server may ask questions before it answers one request.
const MOST_ROUNDS: usize = 32;
