//! One valid request.

use std::{any::Any, borrow::Cow, num::NonZeroU32, ops::Range, sync::Arc};

use bytes::Bytes;
use lmcp_schema::header_params;
use lmcp_wire::{
    ClientCapabilities, Implementation, LoggingLevel, ProgressToken, ProtocolVersion, RequestId,
    RpcError, jsonrpc,
    method::request,
    name::Beginning,
    params::Params,
    scan::{self, Written},
    task,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json, value::RawValue};

use crate::{
    budget::{Account, CALL_BYTES, NoRoom, Reservation},
    caller::Caller,
    extensions::Extensions,
    mirror,
    premises::Premises,
    session::{self, Session},
};

/// A request that lmcp has checked: its revision, its `_meta` and its headers are valid.
#[derive(Clone)]
pub struct Request {
    pub(crate) id: RequestId,
    pub(crate) method: Cow<'static, str>,
    /// The whole message that the request came in.
    pub(crate) message: Bytes,
    /// The places of the parameters in the message.
    pub(crate) members: Members,
    pub(crate) version: ProtocolVersion,
    /// Whether the client asked for progress.
    pub(crate) wants_progress: bool,
    /// The encoder takes the token out.
    pub(crate) progress_token: Option<ProgressToken>,
    /// The lowest level of log messages that the client wants, unless the session names another.
    pub(crate) log_level: Option<LoggingLevel>,
    /// A fault in `_meta`. It is reported only after a wrong method or header.
    pub(crate) flaw: Option<Box<RpcError>>,
    /// The session that the request belongs to. `None` where every request stands alone.
    pub(crate) session: Option<Session>,
    pub(crate) caller: Caller,
    /// The values that layers added for inner layers and the handler.
    pub(crate) extensions: Extensions,
    /// The memory that is reserved for the values that a large message becomes.
    pub(crate) weight: Option<Arc<Reservation>>,
    /// Holds the places of questions, and the memory of subscriptions and answers. `None` for a request that no endpoint
    /// started.
    pub(crate) premises: Option<Arc<Premises>>,
}

/// The places of parameters in the message. Each part is a JSON text.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Members {
    /// The tool, prompt, resource or task.
    pub(crate) target: Option<Part>,
    pub(crate) arguments: Option<Part>,
    pub(crate) input_responses: Option<Part>,
    pub(crate) request_state: Option<Part>,
    /// In `_meta`.
    pub(crate) client_capabilities: Option<Part>,
    /// In `_meta`.
    pub(crate) client_info: Option<Part>,
}

impl Members {
    /// Finds the parts in the message that the parameters were read from.
    pub(crate) fn cut(message: &[u8], method: &str, params: &Params<'_>) -> Self {
        let meta = params.meta.unwrap_or_default();
        let part = |raw: &RawValue| Part::of(message, raw.get());
        Self {
            target: target(method, params).and_then(part),
            arguments: params.arguments.and_then(part),
            input_responses: params.input_responses.and_then(part),
            request_state: params.request_state.and_then(part),
            client_capabilities: meta.client_capabilities.and_then(part),
            client_info: meta.client_info.and_then(part),
        }
    }
}

impl Members {
    /// Moves the parts behind the target. The target was at `place`, and now ends at `end`.
    fn move_behind(&mut self, place: Range<usize>, end: usize) -> Result<(), RpcError> {
        let too_long = || RpcError::invalid_request("the message is too long");
        let is_behind = |part: &&mut Part| part.start as usize >= place.end;
        let parts = [
            &mut self.arguments,
            &mut self.input_responses,
            &mut self.request_state,
            &mut self.client_capabilities,
            &mut self.client_info,
        ];
        for part in parts.into_iter().flatten().filter(is_behind) {
            let start = part.start as usize - place.end + end;
            part.start = u32::try_from(start).map_err(|_| too_long())?;
        }
        self.target = Part::new(place.start, end - place.start);
        Ok(())
    }
}

/// The place of a text within a message. Small, because requests are moved around.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    start: u32,
    length: NonZeroU32,
}

impl Part {
    /// Returns the place of a part in a message. `None`: the text is no part of the message, or is empty.
    pub(crate) fn of(message: &[u8], part: &str) -> Option<Self> {
        let start = (part.as_ptr() as usize).checked_sub(message.as_ptr() as usize)?;
        let is_within = start + part.len() <= message.len();
        is_within.then(|| Self::new(start, part.len())).flatten()
    }

    fn new(start: usize, length: usize) -> Option<Self> {
        let length = u32::try_from(length).ok().and_then(NonZeroU32::new)?;
        let start = u32::try_from(start).ok()?;
        Some(Self { start, length })
    }

    fn place(self) -> Range<usize> {
        let start = self.start as usize;
        start..start + self.length.get() as usize
    }
}

impl Request {
    /// Makes the request of a transport to hear of changes, for a client with a session. Its replies are the messages that the server sends
    /// outside of any request.
    pub fn to_listen(session: &Session, caller: Caller) -> Self {
        Self {
            id: RequestId::Number(0),
            method: Cow::Borrowed(request::LISTEN),
            message: Bytes::from_static(LISTEN),
            members: Members::default(),
            version: session.version(),
            wants_progress: false,
            progress_token: None,
            log_level: None,
            flaw: None,
            session: Some(session.clone()),
            caller,
            extensions: Extensions::default(),
            weight: None,
            premises: None,
        }
    }

    /// The id of the request, as the client chose it.
    pub fn id(&self) -> &RequestId {
        &self.id
    }

    /// The method: `tools/call`, for example.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The revision of the request.
    pub fn version(&self) -> ProtocolVersion {
        self.version
    }

    /// The sender of the request.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Adds a value that inner layers and the handler find by its type ([`Cx::extension`](crate::Cx::extension)). It hides a value of the
    /// same type that the caller brings.
    ///
    /// ```
    /// # use lmcp::{Cx, NoArgs, Server, Tool};
    /// struct Tenant(String);
    ///
    /// let mine = Tool::new("mine", async |_: NoArgs, cx: Cx| {
    ///     cx.extension::<Tenant>().map_or(String::new(), |Tenant(name)| name.clone())
    /// });
    /// let server = Server::new("tenants", "1.0.0").tool(mine.read_only()).layer(|mut request, next| {
    ///     let tenant = request.caller().header("x-tenant").unwrap_or("nobody").to_owned();
    ///     request.extend(Tenant(tenant));
    ///     next.call(request)
    /// });
    /// ```
    pub fn extend<T: Any + Send + Sync>(&mut self, value: T) {
        self.extensions.insert(value);
    }

    /// The value of this type that a layer added, else the one that the caller brings.
    pub fn extension<T: Any + Send + Sync>(&self) -> Option<&T> {
        let added = self.extensions.get();
        added.or_else(|| self.caller.extension())
    }

    /// The session of the request, in revisions that have a handshake.
    pub fn session(&self) -> Option<&Session> {
        self.session.as_ref()
    }

    /// A text that is the same for all requests of one conversation: those of one connection, else of one session over HTTP, else of one
    /// caller.
    pub fn conversation(&self) -> String {
        let session = self.session().and_then(Session::id);
        match (self.caller.connection(), session) {
            (Some(connection), _) => format!("connection:{connection}"),
            (None, Some(id)) => format!("session:{id:032x}"),
            (None, None) => self.caller.owner().into_owned(),
        }
    }

    /// The parameters, decoded as one type.
    ///
    /// # Errors
    /// *Invalid params*, which says what does not fit.
    pub fn params<'a, T: Deserialize<'a>>(&'a self) -> Result<T, RpcError> {
        let text = std::str::from_utf8(&self.message).unwrap_or_default();
        let fit = |err| {
            let err = Beginning(err);
            format!("the params of `{}` do not fit: {err}", self.method)
        };
        jsonrpc::params(text).map_err(|err| RpcError::invalid_params(fit(err)))
    }

    /// The members of the parameters, as they are written.
    pub fn written_params(&self) -> impl Iterator<Item = Written<'_>> {
        let text = std::str::from_utf8(&self.message).unwrap_or_default();
        scan::members_of(text, "params")
    }

    /// The length of the message, in bytes.
    pub fn message_bytes(&self) -> usize {
        self.message.len()
    }

    /// Makes the same request for another tool, prompt, resource or task, for services that know it by another name. The rest
    /// of the message stays as it is.
    ///
    /// # Errors
    /// The request names no target.
    pub fn with_target(mut self, target: &str) -> Result<Self, RpcError> {
        self.target()?;
        let place = self.members.target.map(Part::place).unwrap_or_default();
        let mut message = Vec::with_capacity(self.message.len() + target.len());
        message.extend_from_slice(&self.message[..place.start]);
        jsonrpc::append(&mut message, target);
        let end = message.len();
        message.extend_from_slice(&self.message[place.end..]);
        self.members.move_behind(place, end)?;
        self.hold(message);
        Ok(self)
    }

    /// Makes the same request with another value of one parameter, for services that pass requests on.
    ///
    /// # Errors
    /// The parameters are no object.
    pub fn with_param(
        self,
        member: &str,
        value: &(impl Serialize + ?Sized),
    ) -> Result<Self, RpcError> {
        let whole: &RawValue = self.params()?;
        let no_object = |_| RpcError::invalid_params("`params` must be an object");
        let mut params = lmcp_wire::members::Members::read(whole.get()).map_err(no_object)?;
        params.set(member.to_owned(), value);
        let message = message_with(&params, self.message.len());
        self.with_message(message)
    }

    /// Makes the same request with other parameters, such as another name of a tool. The caller, the revision and the method stay as they
    /// were checked. `_meta` must be among the parameters again.
    ///
    /// # Errors
    /// The new parameters are no object.
    pub fn with_params(self, params: &impl Serialize) -> Result<Self, RpcError> {
        let message = message_with(params, self.message.len());
        self.with_message(message)
    }

    fn with_message(mut self, message: Vec<u8>) -> Result<Self, RpcError> {
        self.hold(message);
        let members = Members::cut(&self.message, &self.method, &self.params()?);
        self.members = members;
        Ok(self)
    }

    /// Replaces the message. A long message counts as memory of the caller, as the replaced one did.
    fn hold(&mut self, message: Vec<u8>) {
        self.message = Bytes::new();
        let account = self.account().filter(|_| message.len() > CALL_BYTES);
        self.message = match account {
            Some(account) => account.take(message.len()).hold(message),
            None => message.into(),
        };
    }

    /// Checks the headers that repeat arguments of a call, as the schema of the tool asks for them. For services that pass
    /// calls on; a server of this crate checks them itself.
    ///
    /// # Errors
    /// *Header mismatch*: a header is absent, malformed, or says something else than the arguments.
    pub fn check_headers(&self, schema: &Value) -> Result<(), RpcError> {
        let alone = self.session.is_none();
        let Some(headers) = self.caller.headers().filter(|_| alone) else {
            return Ok(());
        };
        // A schema whose annotations break the rules asks for no headers.
        let Ok(mirrored) = header_params(schema) else {
            return Ok(());
        };
        let arguments = self.arguments().and_then(|json| decode(json).ok());
        mirror::check_params(headers, &mirrored, &arguments.unwrap_or(Value::Null))
    }

    /// Sets memory aside for data that a service keeps for the caller beyond the request, such as a subscription. The memory is that of the
    /// endpoint and of the caller. `None`: the request came to no endpoint.
    ///
    /// # Errors
    /// The caller already has its share.
    pub fn reserve(&self, bytes: usize) -> Result<Option<Reservation>, NoRoom> {
        let account = self.account();
        account
            .map(|account| account.try_reserve(bytes))
            .transpose()
    }

    /// The memory that the caller occupies. `None`: the request came to no endpoint.
    pub fn account(&self) -> Option<Account> {
        let premises = self.premises.as_ref()?;
        Some(premises.budget.account(&self.caller.payer()))
    }

    /// The capabilities of the client: what it can be asked for. Unreadable ones count as none.
    pub fn capabilities(&self) -> ClientCapabilities {
        if let Some(session) = &self.session {
            return session.capabilities();
        }
        let declared = self.part(self.members.client_capabilities);
        declared.map_or_else(Default::default, |declared| {
            decode(declared).unwrap_or_default()
        })
    }

    /// The name and version that the client claims. Use them for a log line, and never for a decision.
    pub fn client_info(&self) -> Option<Implementation> {
        match &self.session {
            Some(session) => session.client_info(),
            None => decode(self.part(self.members.client_info)?).ok(),
        }
    }

    /// The name and version that the client claims, as JSON text.
    pub fn client_info_text(&self) -> Option<&str> {
        let info = match &self.session {
            Some(session) => session.client_info_text(),
            None => std::str::from_utf8(self.part(self.members.client_info)?).ok(),
        };
        info.filter(|info| info.starts_with('{'))
    }

    /// The name that the client claims: in its handshake, or in this request.
    pub(crate) fn client_name(&self) -> Option<Cow<'_, str>> {
        match &self.session {
            Some(session) => session.client_name(),
            None => {
                let info = self.part(self.members.client_info)?;
                session::name_of(std::str::from_utf8(info).ok()?)
            }
        }
    }

    /// Whether the client asked for progress.
    pub fn wants_progress(&self) -> bool {
        self.wants_progress
    }

    /// The lowest level of log messages that the client wants: named in this request, or earlier in its session.
    pub fn log_level(&self) -> Option<LoggingLevel> {
        let live = self.session.as_ref().and_then(Session::find);
        live.and_then(|live| live.level()).or(self.log_level)
    }

    /// Checks the progress token and the log level in `_meta`. A service calls this when it knows that it can answer: other errors come
    /// first.
    ///
    /// # Errors
    /// *Invalid params*, which names the fault.
    pub fn check_flaw(&self) -> Result<(), RpcError> {
        let flaw = self.flaw.as_ref();
        flaw.map_or(Ok(()), |flaw| Err(RpcError::clone(flaw)))
    }

    /// Whether the revision of the request has tasks. In older revisions, a client can only wait.
    pub(crate) fn has_tasks(&self) -> bool {
        self.session.is_none()
    }

    /// Fails unless this request declares that the client knows tasks.
    pub(crate) fn expect_tasks(&self) -> Result<(), RpcError> {
        if self.capabilities().has_extension(task::EXTENSION) {
            return Ok(());
        }
        let mut needed = ClientCapabilities::default();
        let tasks = (task::EXTENSION.to_owned(), json!({}));
        needed.extensions = Some([tasks].into_iter().collect());
        Err(RpcError::missing_capability(&needed))
    }

    /// The name of the tool or prompt, the URI of the resource, or the id of the task that the request is about.
    ///
    /// # Errors
    /// The parameters have no such member, or it is no string.
    pub fn target(&self) -> Result<Cow<'_, str>, RpcError> {
        let text = self.part(self.members.target).and_then(string);
        text.ok_or_else(|| {
            let name = target_name(&self.method);
            RpcError::invalid_params(format!("`params.{name}` must be a string"))
        })
    }

    /// The arguments of the tool or prompt, as JSON.
    pub(crate) fn arguments(&self) -> Option<&[u8]> {
        self.part(self.members.arguments)
    }

    /// The answers to the questions of an earlier round, or of a task, as JSON.
    pub(crate) fn input_responses(&self) -> Option<&[u8]> {
        self.part(self.members.input_responses)
    }

    /// The state that an earlier round gave to the client, as JSON.
    pub(crate) fn request_state(&self) -> Option<&[u8]> {
        self.part(self.members.request_state)
    }

    /// Drops the message, for an answer that lasts long.
    pub(crate) fn forget_message(&mut self) {
        self.message = Bytes::new();
        self.members = Members::default();
        self.weight = None;
    }

    fn part(&self, part: Option<Part>) -> Option<&[u8]> {
        self.message.get(part?.place())
    }
}

impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Request")
            .field("id", &self.id)
            .field("method", &self.method)
            .field("version", &self.version)
            .field("caller", &self.caller)
            .finish_non_exhaustive()
    }
}

/// The subscription of a session: every list. The session names the resources that it watches later, one by one.
const LISTEN: &[u8] = br#"{"params":{"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}}}"#;

/// Returns the parameter that names the tool, prompt, resource or task of a request.
pub(crate) fn target<'a>(method: &str, params: &Params<'a>) -> Option<&'a RawValue> {
    match target_name(method) {
        "uri" => params.uri,
        "taskId" => params.task_id,
        _ => params.name,
    }
}

/// Returns the name of the parameter that is the target of a method.
pub(crate) fn target_name(method: &str) -> &'static str {
    match method {
        request::RESOURCES_READ | request::SUBSCRIBE | request::UNSUBSCRIBE => "uri",
        request::TASKS_GET | request::TASKS_UPDATE | request::TASKS_CANCEL => "taskId",
        _ => "name",
    }
}

/// Decodes JSON from text, never from bytes: so each type has one instance of the decoder, not two.
pub(crate) fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> serde_json::Result<T> {
    let text = std::str::from_utf8(bytes).map_err(serde::de::Error::custom)?;
    serde_json::from_str(text)
}

/// Reads a JSON string. Borrows it if it has no escapes.
pub(crate) fn string(json: &[u8]) -> Option<Cow<'_, str>> {
    if let [b'"', plain @ .., b'"'] = json
        && !plain.contains(&b'\\')
    {
        return std::str::from_utf8(plain).ok().map(Cow::Borrowed);
    }
    decode(json).ok().map(Cow::Owned)
}

/// Writes a message with these parameters and nothing else. `bytes` is the expected length.
fn message_with(params: &impl Serialize, bytes: usize) -> Vec<u8> {
    let mut message = Vec::with_capacity(bytes);
    message.extend_from_slice(b"{\"params\":");
    jsonrpc::append(&mut message, params);
    message.push(b'}');
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::era::own_request;

    #[test]
    fn another_target_changes_nothing_else_of_a_request() {
        let params = json!({ "arguments": { "text": "\"name\"" }, "name": "a", "requestState": "s", "x": [1] });
        for target in ["", "a", "a \"much\" longer name of a tool"] {
            let request = own_request("me", "1", request::TOOLS_CALL, params.clone()).unwrap();
            let (before, info) = (request.capabilities(), request.client_info());
            let request = request.with_target(target).unwrap();
            assert_eq!(request.target().unwrap(), target);
            assert_eq!(request.arguments(), Some(&br#"{"text":"\"name\""}"#[..]));
            assert_eq!(request.request_state(), Some(&b"\"s\""[..]));
            assert_eq!(
                (request.capabilities(), request.client_info()),
                (before, info)
            );
            let mut expected = params.clone();
            expected["name"] = json!(target);
            let mut read: Value = request.params().unwrap();
            let told = read.as_object_mut().and_then(|read| read.remove("_meta"));
            assert_eq!((read, told.is_some()), (expected, true));
        }
        let nothing = own_request("me", "1", request::TOOLS_LIST, json!({})).unwrap();
        assert!(nothing.with_target("a").is_err());
    }
}
