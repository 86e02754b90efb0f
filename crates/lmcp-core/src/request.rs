//! One valid request, and who sent it.

use std::{borrow::Cow, fmt, sync::Arc};

use bytes::Bytes;
use lmcp_wire::{
    self as wire, ClientCapabilities, LoggingLevel, ProgressToken, ProtocolVersion, RequestId,
    RpcError,
};
use serde::Deserialize;

/// A request whose version, identity and headers have been checked: nobody checks again.
#[derive(Clone, Debug)]
pub struct Request {
    pub(crate) id: RequestId,
    pub(crate) method: Cow<'static, str>,
    /// The text of an object; part of the message it came in.
    pub(crate) params: Bytes,
    /// Likewise.
    pub(crate) meta: Bytes,
    pub(crate) version: ProtocolVersion,
    pub(crate) progress_token: Option<ProgressToken>,
    pub(crate) log_level: Option<LoggingLevel>,
    pub(crate) caller: Caller,
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

    /// The parameters, decoded as one type.
    ///
    /// # Errors
    /// *Invalid params*, saying what does not fit.
    pub fn params<'a, T: Deserialize<'a>>(&'a self) -> Result<T, RpcError> {
        decode(&self.params).map_err(|err| {
            RpcError::invalid_params(format!("the params of `{}` do not fit: {err}", self.method))
        })
    }

    /// `_meta`, decoded as one type.
    ///
    /// # Errors
    /// *Invalid params*, saying what does not fit.
    pub fn meta<'a, T: Deserialize<'a>>(&'a self) -> Result<T, RpcError> {
        decode(&self.meta)
            .map_err(|err| RpcError::invalid_params(format!("`_meta` does not fit: {err}")))
    }

    /// What the client can be asked for. One that cannot be read counts as none.
    pub fn capabilities(&self) -> ClientCapabilities {
        let Ok(meta) = self.meta::<wire::meta::RequestMeta<'_>>() else {
            return ClientCapabilities::default();
        };
        let raw = meta.client_capabilities.map_or("{}", |raw| raw.get());
        serde_json::from_str(raw).unwrap_or_default()
    }
}

/// From text, never from bytes: one instance of the decoder for each type, not two.
fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> serde_json::Result<T> {
    let text = std::str::from_utf8(bytes).map_err(serde::de::Error::custom)?;
    serde_json::from_str(text)
}

/// Who sent a request, as far as the transport knows.
#[derive(Clone)]
pub struct Caller(Arc<Inner>);

#[derive(Clone, Default)]
struct Inner {
    transport: Transport,
    principal: Option<Box<str>>,
    process: Option<Process>,
    headers: Option<Arc<dyn Headers>>,
}

/// How a request came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Transport {
    /// From inside the process.
    #[default]
    Memory,
    /// On standard input.
    Stdio,
    /// On a unix socket.
    Unix,
    /// By HTTP.
    Http,
}

/// The process at the other end of a unix socket, as the kernel says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Process {
    /// Its user.
    pub uid: u32,
    /// Its id, where the platform tells.
    pub pid: Option<i32>,
}

/// Header fields, for transports that have them. Names are given in lower case.
pub trait Headers: Send + Sync {
    /// The value of a field, if there is exactly one and it is text.
    fn get(&self, name: &str) -> HeaderValue<'_>;
}

/// What a look-up of a header finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderValue<'a> {
    /// No such field.
    Absent,
    /// One field, of text.
    Text(&'a str),
    /// Several fields, or one that is not text.
    Malformed,
}

impl Caller {
    /// Somebody on a transport, not yet known any better.
    pub fn new(transport: Transport) -> Self {
        Self(Arc::new(Inner {
            transport,
            ..Inner::default()
        }))
    }

    /// Somebody on the other end of a unix socket.
    pub fn process(uid: u32, pid: Option<i32>) -> Self {
        let process = Some(Process { uid, pid });
        Self(Arc::new(Inner {
            transport: Transport::Unix,
            process,
            ..Inner::default()
        }))
    }

    /// Somebody who sent these headers.
    pub fn http(headers: impl Headers + 'static) -> Self {
        let headers: Option<Arc<dyn Headers>> = Some(Arc::new(headers));
        Self(Arc::new(Inner {
            transport: Transport::Http,
            headers,
            ..Inner::default()
        }))
    }

    /// The same caller, now known by name.
    #[must_use]
    pub fn known_as(self, principal: &str) -> Self {
        let principal = Some(principal.into());
        Self(Arc::new(Inner {
            principal,
            ..Arc::unwrap_or_clone(self.0)
        }))
    }

    /// How the request came.
    pub fn transport(&self) -> Transport {
        self.0.transport
    }

    /// Who it is, by credentials. What a caller says of itself (`clientInfo`) is never here.
    pub fn principal(&self) -> Option<&str> {
        self.0.principal.as_deref()
    }

    /// The process at the other end of a unix socket.
    pub fn peer(&self) -> Option<Process> {
        self.0.process
    }

    /// A header field, on transports that have them.
    pub fn header(&self, name: &str) -> Option<&str> {
        match self.0.headers.as_ref()?.get(name) {
            HeaderValue::Text(text) => Some(text),
            HeaderValue::Absent | HeaderValue::Malformed => None,
        }
    }

    /// The fields themselves, on transports that have them.
    pub(crate) fn headers(&self) -> Option<&dyn Headers> {
        self.0.headers.as_deref()
    }

    /// What tasks and sealed state are bound to: the same person, or the same transport where persons are not known.
    pub(crate) fn owner(&self) -> String {
        match (&self.0.principal, &self.0.process) {
            (Some(principal), _) => format!("principal:{principal}"),
            (None, Some(process)) => format!("uid:{}", process.uid),
            (None, None) => "anyone".into(),
        }
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller")
            .field("transport", &self.0.transport)
            .field("principal", &self.0.principal)
            .field("process", &self.0.process)
            .finish_non_exhaustive()
    }
}
