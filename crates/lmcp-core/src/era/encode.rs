//! The way out: turns the replies of a service into messages that the client of the request can read. Responses of the newest
//! revision are written here, those of sessions in `legacy/encode`.

use std::borrow::Cow;

use lmcp_wire::{
    LoggingLevel, Meta, ProgressToken, ProtocolVersion, RequestId, RpcError,
    discover::{CacheHint, DiscoverResult},
    error, jsonrpc,
    members::{Members, splice},
    meta,
    method::{notification, request},
    progress::ProgressParams,
    scan,
};
use serde_json::{json, value::RawValue};

use super::{legacy, members, versions};
use crate::{
    budget::{Budget, CALL_BYTES},
    caller::{Caller, Transport},
    message::Message,
    outcome::{Outcome, Payload},
    reply::{Notice, ProgressReport, Reply},
    request::Request,
    session::{Ask, Session},
};

/// Writes the replies to one request, in its revision.
pub(crate) struct Encoder {
    id: RequestId,
    method: Cow<'static, str>,
    version: ProtocolVersion,
    /// Only for older revisions. `None` where every request stands alone.
    session: Option<Session>,
    progress_token: Option<ProgressToken>,
    log_level: Option<LoggingLevel>,
    caller: Caller,
    /// Large answers count as memory of their caller.
    budget: Budget,
    /// A message that is sent next, before the service is asked for more.
    held: Option<Message>,
}

impl Encoder {
    pub(crate) fn new(request: &mut Request, budget: &Budget) -> Self {
        Self {
            id: request.id.clone(),
            method: request.method.clone(),
            version: request.version,
            session: request.session.clone(),
            progress_token: request.progress_token.take(),
            log_level: request.log_level,
            caller: request.caller.clone(),
            budget: budget.clone(),
            held: None,
        }
    }

    /// Takes the message that must follow the last one, before anything else that the service sends.
    pub(crate) fn held(&mut self) -> Option<Message> {
        self.held.take()
    }

    /// Encodes one reply. `None`: this client cannot receive such a message, or did not ask for it.
    pub(crate) fn encode(&mut self, reply: Reply) -> Option<Message> {
        match reply {
            Reply::Progress(report) => self.progress(report),
            Reply::Log(params) => {
                let wanted = self.log_level().is_some_and(|least| params.level >= least);
                wanted.then(|| Message::notification(notification::MESSAGE, &params))
            }
            Reply::Notify(notice) => self.notice(&notice),
            Reply::Ask(ask) => self.question(ask),
            Reply::Pause(time) => {
                let session = self.session.as_ref();
                let can_come_back = session.is_some_and(Session::can_come_back);
                can_come_back.then(|| Message::pause(time))
            }
            Reply::Done(result) => Some(self.done(result)),
        }
    }

    fn done(&mut self, result: Result<Outcome, RpcError>) -> Message {
        let passed_on = match &result {
            Ok(Outcome {
                payload: Payload::Raw(text),
                ..
            }) => Some(text.get().len()),
            _ => None,
        };
        let encoded = match (&self.session, result) {
            (Some(_), Ok(outcome)) => {
                let json = legacy::encode::result(self.version, &self.id, &self.method, outcome);
                json.and_then(|json| self.expect_room(passed_on, json))
            }
            (Some(_), Err(error)) => legacy::encode::error(&self.id, &self.method, error),
            (None, Ok(outcome)) => response(&self.id, &self.method, outcome),
            (None, Err(error)) => Err(refusal(error)),
        };
        let message = match encoded {
            Ok(json) => Message::result(json).counted(&self.budget, &self.caller),
            Err(error) => return Message::error(Some(&self.id), &error),
        };
        if !self.is_subscription() || self.caller.transport() == Transport::Http {
            return message;
        }
        // The specification wants the notice where several streams share a channel, and the response everywhere.
        self.held = Some(message);
        let params = json!({ "requestId": self.id, "reason": "the server is closing" });
        Message::notification(notification::CANCELLED, &params)
    }

    /// Checks that the answer of another server fits the share of the caller if it got longer in this revision. `passed_on` is
    /// its length before: only that length was checked until now.
    fn expect_room(&self, passed_on: Option<usize>, json: Vec<u8>) -> Result<Vec<u8>, RpcError> {
        if passed_on.is_none_or(|before| json.len() <= before + CALL_BYTES) {
            return Ok(json);
        }
        let account = self.budget.account(&self.caller.payer());
        match account.take_if_modest(json.len()) {
            Ok(_) => Ok(json),
            Err(no_room) => {
                let (bytes, most) = (no_room.wanted, no_room.total);
                let words = format!(
                    "the answer has {bytes} bytes in this revision, more than this caller's share of {most} bytes of memory; the \
                     request may have taken effect"
                );
                let data = json!({ "limit": "memory_bytes", "value": most, "retriable": false });
                Err(RpcError::internal(words).with_data(data))
            }
        }
    }

    fn progress(&self, report: ProgressReport) -> Option<Message> {
        let token = self.progress_token.as_ref()?;
        let mut params = ProgressParams::new(token.clone(), report.progress);
        params.total = report.total;
        params.message = report.message;
        if self.session.is_some() {
            legacy::downgrade::progress(self.version, &mut params);
        }
        Some(Message::notification(notification::PROGRESS, &params))
    }

    fn notice(&self, notice: &Notice) -> Option<Message> {
        let (method, params) = (&*notice.method, notice.params.get());
        if self.session.is_some() && !legacy::downgrade::has_notification(method) {
            return None;
        }
        let params = if params == "null" { "{}" } else { params };
        let params: Cow<'_, [u8]> = if self.is_subscription() {
            stamped(&self.id, params).into()
        } else {
            params.as_bytes().into()
        };
        Some(Message::notification_with(method, &params))
    }

    fn question(&self, ask: Ask) -> Option<Message> {
        let (question, written, asked) = ask.split();
        let method = question.method();
        let params = match &self.session {
            Some(_) => legacy::question::params(self.version, &question, written.as_deref()),
            None => Err("this client is asked by the answer to its request".into()),
        };
        match params {
            Ok(params) => Some(Message::request(&asked.id(), method, &params)),
            Err(words) => {
                asked.refuse(words);
                None
            }
        }
    }

    /// Whether the request is a subscription. Messages of a subscription name it.
    fn is_subscription(&self) -> bool {
        self.session.is_none() && self.method == request::LISTEN
    }

    fn log_level(&self) -> Option<LoggingLevel> {
        let live = self.session.as_ref().and_then(Session::find);
        live.and_then(|live| live.level()).or(self.log_level)
    }
}

/// Writes a whole response of 2026-07-28: the outcome, between the members that every result has.
fn response(id: &RequestId, method: &str, mut outcome: Outcome) -> Result<Vec<u8>, RpcError> {
    if method == request::LISTEN {
        let subscription = serde_json::to_value(id).unwrap_or_default();
        let meta = outcome.meta.get_or_insert_default();
        meta.insert(meta::SUBSCRIPTION_ID.to_owned(), subscription);
    }
    let mut out = Vec::with_capacity(320 + outcome.contents_bytes());
    jsonrpc::open_result(&mut out, id);
    write(&mut out, method, outcome)?;
    out.push(b'}');
    Ok(out)
}

/// Changes an error to the code that 2026-07-28 has for it.
fn refusal(mut error: RpcError) -> RpcError {
    if error.code == error::RESOURCE_NOT_FOUND {
        error.code = error::INVALID_PARAMS;
    }
    error
}

/// The parameters of a notification that belongs to this subscription.
fn stamped(subscription: &RequestId, params: &str) -> Vec<u8> {
    let mut params = Members::read(params).unwrap_or_default();
    let told = params.take("_meta");
    let mut told = members::read_meta(told.as_deref()).unwrap_or_default();
    told.set(meta::SUBSCRIPTION_ID, subscription);
    let mut out = b"{\"_meta\":".to_vec();
    jsonrpc::append(&mut out, &told);
    params.write(&mut out);
    out.push(b'}');
    out
}

/// Writes a result without its envelope.
pub(super) fn write(out: &mut Vec<u8>, method: &str, mut outcome: Outcome) -> Result<(), RpcError> {
    let info = outcome.server_info.as_deref();
    let told = match &mut outcome.payload {
        Payload::Raw(raw) => return write_raw(out, method, raw, outcome.meta, info),
        Payload::CallTool(result) => result.meta.take(),
        _ => None,
    };
    out.extend_from_slice(b"{\"resultType\":\"");
    out.extend_from_slice(result_type(&outcome.payload).as_bytes());
    out.push(b'"');
    if let Payload::Discover(discovery, _) = &outcome.payload {
        let mut result = DiscoverResult::new(versions::names(), discovery.capabilities.clone());
        result.instructions.clone_from(&discovery.instructions);
        splice(out, &result);
    }
    members::write(out, &outcome.payload);
    if let Some(hint) = members::cache_hint(&outcome.payload) {
        splice(out, &hint);
    }
    let merged = match (told, outcome.meta) {
        (Some(mut told), Some(more)) => {
            told.extend(more);
            Some(told)
        }
        (told, more) => told.or(more),
    };
    write_meta(out, merged, info);
    out.push(b'}');
    Ok(())
}

/// Writes `_meta`, with the name of the server.
fn write_meta(out: &mut Vec<u8>, told: Option<Meta>, info: Option<&str>) {
    let Some(info) = info else {
        if let Some(told) = told.filter(|told| !told.is_empty()) {
            out.extend_from_slice(b",\"_meta\":");
            jsonrpc::append(out, &told);
        }
        return;
    };
    out.extend_from_slice(b",\"_meta\":{\"io.modelcontextprotocol/serverInfo\":");
    out.extend_from_slice(info.as_bytes());
    if let Some(mut told) = told {
        told.remove(meta::SERVER_INFO);
        splice(out, &told);
    }
    out.push(b'}');
}

/// Writes a result that is passed on. Members that every result must have are added if they are missing.
fn write_raw(
    out: &mut Vec<u8>,
    method: &str,
    raw: &RawValue,
    more: Option<Meta>,
    info: Option<&str>,
) -> Result<(), RpcError> {
    let has_rules = method == request::DISCOVER || members::CACHED.contains(&method);
    if !has_rules && more.is_none() && raw.get().starts_with('{') {
        write_plain(out, raw.get(), info);
        return Ok(());
    }
    let mut result = members::read(raw.get())?;
    let kind = result.take("resultType");
    let kind = kind.as_ref().map_or("\"complete\"", |kind| kind.get());
    let told = result.take("_meta");
    let mut told = members::read_meta(told.as_deref())?;
    if method == request::DISCOVER {
        // These members of the answer to a handshake have other names here.
        result.take("protocolVersion");
        if let Some(info) = result.take("serverInfo") {
            told.set(meta::SERVER_INFO, &*info);
        }
        result.set("supportedVersions", &versions::names());
    }
    if kind == "\"complete\"" && members::CACHED.contains(&method) && result.get("ttlMs").is_none()
    {
        let hint = CacheHint::private(0);
        result.set("ttlMs", &hint.ttl_ms);
        result.set("cacheScope", &hint.cache_scope);
    }
    for (key, value) in more.into_iter().flatten() {
        told.set(key, &value);
    }
    let info = info.and_then(|info| serde_json::from_str::<&RawValue>(info).ok());
    if let Some(info) = info.filter(|_| told.get(meta::SERVER_INFO).is_none()) {
        told.set(meta::SERVER_INFO, info);
    }
    out.extend_from_slice(b"{\"resultType\":");
    out.extend_from_slice(kind.as_bytes());
    result.write(out);
    if !told.is_empty() {
        out.extend_from_slice(b",\"_meta\":");
        jsonrpc::append(out, &told);
    }
    out.push(b'}');
    Ok(())
}

/// Does the same for a result that no rule changes: all other members are copied as they are written.
fn write_plain(out: &mut Vec<u8>, text: &str, info: Option<&str>) {
    let (mut kind, mut told) = ("\"complete\"", "{}");
    let kind_and_told = |name: &str| matches!(name, "resultType" | "_meta");
    for member in scan::members(text) {
        match &*member.name() {
            "resultType" => kind = member.value,
            "_meta" => told = member.value,
            _ => {}
        }
    }
    out.extend_from_slice(b"{\"resultType\":");
    out.extend_from_slice(kind.as_bytes());
    let others = scan::members(text).filter(|member| !kind_and_told(&member.name()));
    others.for_each(|member| member.write(out));
    let info = info.filter(|_| scan::member(told, meta::SERVER_INFO).is_none());
    let is_empty = scan::members(told).next().is_none();
    if info.is_some() || !is_empty {
        out.extend_from_slice(b",\"_meta\":{");
        let start = out.len();
        if let Some(info) = info {
            out.extend_from_slice(b",\"io.modelcontextprotocol/serverInfo\":");
            out.extend_from_slice(info.as_bytes());
        }
        scan::members(told).for_each(|member| member.write(out));
        out.remove(start);
        out.push(b'}');
    }
    out.push(b'}');
}

fn result_type(payload: &Payload) -> &'static str {
    match payload {
        Payload::InputRequired(_) => "input_required",
        Payload::TaskCreated(_) => "task",
        Payload::CallTool(_)
        | Payload::GetPrompt(_)
        | Payload::ReadResource(..)
        | Payload::Complete(_)
        | Payload::Discover(..)
        | Payload::List(..)
        | Payload::Task(_)
        | Payload::Acknowledged
        | Payload::Raw(_) => "complete",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_result_that_is_copied_is_the_one_that_would_be_written_member_by_member() {
        for result in [
            "{}",
            r#"{"content":[{"type":"text","text":"\"}"}]}"#,
            r#"{"content":[],"resultType":"input_required","requestState":"x"}"#,
            r#"{"_meta":{"a":1},"content":[]}"#,
            r#"{ "_meta" : { "io.modelcontextprotocol/serverInfo" : {"name":"y"} } , "content" : [ ] }"#,
            r#"{"_meta":null,"\u0063ontent":[]}"#,
        ] {
            let raw = RawValue::from_string(result.to_owned()).unwrap();
            for info in [None, Some(r#"{"name":"x"}"#)] {
                let written = |more: Option<Meta>| {
                    let mut out = Vec::new();
                    write_raw(&mut out, request::TOOLS_CALL, &raw, more, info).unwrap();
                    serde_json::from_slice::<Value>(&out).unwrap()
                };
                let member_by_member = written(Some(Meta::default()));
                assert_eq!(written(None), member_by_member, "{result} of {info:?}");
            }
        }
    }
}
