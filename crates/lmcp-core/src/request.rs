//! One valid request.

use std::{borrow::Cow, sync::Arc};

use bytes::Bytes;
use lmcp_wire::{
    ClientCapabilities, LoggingLevel, ProgressToken, ProtocolVersion, RequestId, RpcError, jsonrpc,
    method::request, params::Params,
};
use serde::Deserialize;

use crate::{budget::Reservation, caller::Caller, era::legacy, session::Session};

/// A request whose version, identity and headers have been checked: nobody checks again.
#[derive(Clone, Debug)]
pub struct Request {
    pub(crate) id: RequestId,
    pub(crate) method: Cow<'static, str>,
    /// The whole message it came in.
    pub(crate) message: Bytes,
    /// Cut out of its parameters.
    pub(crate) members: Members,
    pub(crate) version: ProtocolVersion,
    pub(crate) progress_token: Option<ProgressToken>,
    pub(crate) log_level: Option<LoggingLevel>,
    /// A mistake in `_meta` that weighs less than a wrong method or header, and is told after them.
    pub(crate) flaw: Option<Box<RpcError>>,
    /// The conversation it belongs to; none where every request stands alone.
    pub(crate) session: Option<Session>,
    pub(crate) caller: Caller,
    /// The memory that is reserved for what a large message becomes.
    pub(crate) weight: Option<Arc<Reservation>>,
}

/// Members of the parameters, each a JSON text within the message.
#[derive(Clone, Debug, Default)]
pub(crate) struct Members {
    /// The tool, prompt, resource or task.
    pub(crate) target: Option<Bytes>,
    pub(crate) arguments: Option<Bytes>,
    pub(crate) input_responses: Option<Bytes>,
    pub(crate) request_state: Option<Bytes>,
}

impl Request {
    /// To be repeated in the response.
    pub fn id(&self) -> &RequestId {
        &self.id
    }

    /// What is wanted.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The revision it is written in.
    pub fn version(&self) -> ProtocolVersion {
        self.version
    }

    /// Who sent it.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// The conversation it belongs to, in revisions that have a handshake.
    pub fn session(&self) -> Option<&Session> {
        self.session.as_ref()
    }

    /// The parameters, decoded as one type.
    ///
    /// # Errors
    /// *Invalid params*, saying what does not fit.
    pub fn params<'a, T: Deserialize<'a>>(&'a self) -> Result<T, RpcError> {
        let text = std::str::from_utf8(&self.message).unwrap_or_default();
        let fit = |err| format!("the params of `{}` do not fit: {err}", self.method);
        jsonrpc::params(text).map_err(|err| RpcError::invalid_params(fit(err)))
    }

    /// What the client can be asked for. One that cannot be read counts as none.
    pub fn capabilities(&self) -> ClientCapabilities {
        if let Some(session) = &self.session {
            return session.capabilities();
        }
        let params = self.params::<Params<'_>>().ok();
        let raw = params.and_then(|params| params.meta?.client_capabilities);
        raw.and_then(|raw| serde_json::from_str(raw.get()).ok())
            .unwrap_or_default()
    }

    /// From which level on the client wants log messages: said on this request, or in its session before.
    pub(crate) fn least_level(&self) -> Option<LoggingLevel> {
        match &self.session {
            Some(session) => session
                .find()
                .and_then(|live| live.level())
                .or(Some(legacy::LEVEL)),
            None => self.log_level,
        }
    }

    /// The last of the checks of `_meta`.
    pub(crate) fn check_flaw(&self) -> Result<(), RpcError> {
        self.flaw
            .as_ref()
            .map_or(Ok(()), |flaw| Err(RpcError::clone(flaw)))
    }

    /// The tool, prompt, resource or task that is meant.
    pub(crate) fn target(&self) -> Result<Cow<'_, str>, RpcError> {
        let text = self.members.target.as_deref().and_then(string);
        text.ok_or_else(|| {
            let name = target_name(&self.method);
            RpcError::invalid_params(format!("`params.{name}` must be a string"))
        })
    }
}

/// What the target of a method is called in its parameters.
pub(crate) fn target_name(method: &str) -> &'static str {
    match method {
        request::RESOURCES_READ | request::SUBSCRIBE | request::UNSUBSCRIBE => "uri",
        request::TASKS_GET | request::TASKS_UPDATE | request::TASKS_CANCEL => "taskId",
        _ => "name",
    }
}

/// From text, never from bytes: one instance of the decoder for each type, not two.
pub(crate) fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> serde_json::Result<T> {
    let text = std::str::from_utf8(bytes).map_err(serde::de::Error::custom)?;
    serde_json::from_str(text)
}

/// A JSON string, borrowed where it has no escapes.
pub(crate) fn string(json: &[u8]) -> Option<Cow<'_, str>> {
    if let [b'"', plain @ .., b'"'] = json
        && !plain.contains(&b'\\')
    {
        return std::str::from_utf8(plain).ok().map(Cow::Borrowed);
    }
    decode(json).ok().map(Cow::Owned)
}
