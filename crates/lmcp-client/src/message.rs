//! Messages of the client: reads the parts that are needed to send them, and makes the headers that repeat parts of them.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use lmcp_wire::{
    Incoming, RequestId, header, jsonrpc,
    legacy::CancelledParams,
    method::{notification, request},
    params::Params,
};
use serde_json::value::RawValue;

use crate::mirror::Mirrors;

/// One line of the client.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) line: Bytes,
    pub(crate) kind: Kind,
}

#[derive(Debug)]
pub(crate) enum Kind {
    /// `initialize`: its answer decides how the link goes on.
    Handshake(RequestId),
    /// A request in a session, or before one.
    Request(RequestId, Box<str>),
    /// A request without a session (2026-07-28).
    Modern(RequestId, Box<str>),
    /// Several messages (2025-03-26), with the ids of those that want an answer.
    Batch(Vec<RequestId>),
    /// `notifications/initialized`
    Initialized,
    /// `notifications/cancelled`, with the id of the cancelled request.
    Cancelled(RequestId),
    /// A notification or an answer.
    Other,
    /// A line that cannot be read. The server answers what is wrong with it.
    Unreadable,
}

impl Message {
    pub(crate) fn read(line: Bytes) -> Self {
        let kind = match jsonrpc::batch(&line, usize::MAX) {
            Some(Ok(messages)) => batch(&messages),
            Some(Err(_)) => Kind::Unreadable,
            None => single(&line),
        };
        Self { line, kind }
    }

    /// Returns the ids of the requests in it.
    pub(crate) fn ids(&self) -> &[RequestId] {
        match &self.kind {
            Kind::Handshake(id) | Kind::Request(id, _) | Kind::Modern(id, _) => {
                std::slice::from_ref(id)
            }
            Kind::Batch(ids) => ids,
            Kind::Initialized | Kind::Cancelled(_) | Kind::Other | Kind::Unreadable => &[],
        }
    }

    /// Returns whether the server answers the message.
    pub(crate) fn wants_answer(&self) -> bool {
        matches!(self.kind, Kind::Unreadable) || !self.ids().is_empty()
    }

    pub(crate) fn is_handshake(&self) -> bool {
        matches!(self.kind, Kind::Handshake(_))
    }

    pub(crate) fn is_modern(&self) -> bool {
        matches!(self.kind, Kind::Modern(..))
    }

    /// Returns whether it is a subscription (2026-07-28): a stream that stays open.
    pub(crate) fn is_listen(&self) -> bool {
        self.is_modern() && self.method() == request::LISTEN
    }

    /// Returns its id, if it is `server/discover` (2026-07-28).
    pub(crate) fn discovery(&self) -> Option<&RequestId> {
        match &self.kind {
            Kind::Modern(id, method) if &**method == request::DISCOVER => Some(id),
            _ => None,
        }
    }

    /// Returns the method, for programs and people.
    pub(crate) fn method(&self) -> &str {
        match &self.kind {
            Kind::Request(_, method) | Kind::Modern(_, method) => method,
            Kind::Handshake(_) => request::INITIALIZE,
            Kind::Initialized => notification::INITIALIZED,
            Kind::Cancelled(_) => notification::CANCELLED,
            Kind::Batch(_) => "a batch",
            Kind::Other | Kind::Unreadable => "a message",
        }
    }

    /// Adds the headers of a request without a session. Values that no header can hold are left out: the server says what is
    /// wrong with them.
    pub(crate) fn mirror(&self, mirrors: &Mirrors, headers: &mut HeaderMap) {
        let Ok(Incoming::Request { method, params, .. }) = Incoming::parse(&self.line) else {
            return;
        };
        let mut add = |name: &str, value: &str| {
            let name = HeaderName::from_bytes(name.as_bytes());
            if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(value)) {
                headers.insert(name, value);
            }
        };
        let version = params.meta.and_then(|meta| meta.protocol_version);
        if let Some(version) = version.and_then(text) {
            add(header::PROTOCOL_VERSION, &version);
        }
        add(header::METHOD, &method);
        let Some(name) = name_of(&method, &params).and_then(text) else {
            return;
        };
        add(header::NAME, &header::encode(&name));
        if method == request::TOOLS_CALL {
            for (header, value) in mirrors.params(&name, params.arguments) {
                add(&header, &header::encode(&value));
            }
        }
    }
}

fn single(line: &[u8]) -> Kind {
    match Incoming::parse(line) {
        Ok(Incoming::Request { id, method, params }) => {
            if params.meta.is_some_and(|meta| meta.is_modern()) {
                Kind::Modern(id, method.into())
            } else if method == request::INITIALIZE {
                Kind::Handshake(id)
            } else {
                Kind::Request(id, method.into())
            }
        }
        Ok(Incoming::Notification { method, params }) => match &*method {
            notification::INITIALIZED => Kind::Initialized,
            notification::CANCELLED => cancelled(params).map_or(Kind::Other, Kind::Cancelled),
            _ => Kind::Other,
        },
        Ok(_) => Kind::Other,
        // It counts as a request if it has an id.
        Err(rejected) => match rejected.id {
            Some(id) => Kind::Request(id, "a request".into()),
            None => Kind::Unreadable,
        },
    }
}

fn batch(messages: &[&RawValue]) -> Kind {
    let mut ids = Vec::new();
    for message in messages {
        match Incoming::parse(message.get().as_bytes()) {
            Ok(Incoming::Request { id, .. }) => ids.push(id),
            Ok(_) => {}
            Err(rejected) => match rejected.id {
                Some(id) => ids.push(id),
                None => return Kind::Unreadable,
            },
        }
    }
    match (messages.is_empty(), ids.is_empty()) {
        (true, _) => Kind::Unreadable,
        (false, true) => Kind::Other,
        (false, false) => Kind::Batch(ids),
    }
}

/// Returns the value that `Mcp-Name` repeats.
fn name_of<'a>(method: &str, params: &Params<'a>) -> Option<&'a RawValue> {
    match method {
        request::TOOLS_CALL | request::PROMPTS_GET => params.name,
        request::RESOURCES_READ => params.uri,
        request::TASKS_GET | request::TASKS_UPDATE | request::TASKS_CANCEL => params.task_id,
        _ => None,
    }
}

fn cancelled(params: Option<&RawValue>) -> Option<RequestId> {
    let params: CancelledParams = serde_json::from_str(params?.get()).ok()?;
    params.request_id
}

fn text(raw: &RawValue) -> Option<String> {
    serde_json::from_str(raw.get()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_message_is_told_apart() {
        let meta = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;
        for (line, kind) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#.to_owned(), "Handshake"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#.to_owned(), "Request"),
            (format!(r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"_meta":{meta}}}}}"#), "Modern"),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#.to_owned(), "Batch"),
            (r#"[{"jsonrpc":"2.0","method":"a"}]"#.to_owned(), "Other"),
            (r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned(), "Initialized"),
            (r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}"#.to_owned(), "Cancelled"),
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#.to_owned(), "Other"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"a","params":5}"#.to_owned(), "Request"),
            ("{".to_owned(), "Unreadable"),
            ("[]".to_owned(), "Unreadable"),
            ("[1]".to_owned(), "Unreadable"),
        ] {
            let message = Message::read(Bytes::from(line.clone()));
            let found = format!("{:?}", message.kind);
            assert!(found.starts_with(kind), "{line}: {found}");
        }
    }

    #[test]
    fn a_request_that_stands_alone_repeats_itself_in_headers() {
        let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;
        for (method, params, name) in [
            ("tools/call", r#""name":"t","uri":"no","#, Some("t")),
            ("prompts/get", r#""name":"é","#, Some("=?base64?w6k=?=")),
            (
                "resources/read",
                r#""uri":"file:///a b ","#,
                Some("=?base64?ZmlsZTovLy9hIGIg?="),
            ),
            ("tasks/get", r#""taskId":"7","#, Some("7")),
            ("tools/list", r#""name":"no","#, None),
            ("tools/call", r#""name":7,"#, None),
        ] {
            let line = format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{params}{meta}}}}}"#
            );
            let mut headers = HeaderMap::new();
            Message::read(line.into()).mirror(&Mirrors::default(), &mut headers);
            let get = |name: &str| headers.get(name).map(|value| value.to_str().unwrap());
            assert_eq!(get(header::PROTOCOL_VERSION), Some("2026-07-28"));
            assert_eq!(
                (get(header::METHOD), get(header::NAME)),
                (Some(method), name)
            );
        }
    }
}
