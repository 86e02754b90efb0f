//! Messages of the server, one at a time. Bytes that make no sense are skipped, and counted.

use std::borrow::Cow;

use bytes::Bytes;
use lmcp_wire::{
    Incoming, RequestId, RpcError, jsonrpc,
    legacy::CancelledParams,
    members::Members,
    meta,
    method::{input, notification, request},
    progress::ProgressParams,
};
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

use crate::limits::{
    BATCH, DEPTH, NOTICE_BYTES, QUESTION_BYTES, QUESTIONS, QUESTIONS_BYTES, SHORT_LINE,
};

use super::{Conversation, Output, Pending, Question, Stage, failures};

impl Conversation {
    /// Takes a line of the server.
    pub fn line(&mut self, line: &Bytes) {
        match jsonrpc::batch(line, BATCH) {
            Some(Ok(messages)) => messages
                .into_iter()
                .for_each(|message| self.message(message.get().as_bytes())),
            _ => self.message(line),
        }
    }

    /// Takes an error of the connection that replaces an answer.
    pub fn failure(&mut self, line: &Bytes) {
        if let Ok(Incoming::Response { id, outcome }) = Incoming::parse(line) {
            self.response(id, outcome);
        }
    }

    fn message(&mut self, message: &[u8]) {
        let parsed = Incoming::parse(message);
        self.rubbish = match parsed {
            Ok(_) => 0,
            Err(_) => self.rubbish.saturating_add(message.len().max(SHORT_LINE)),
        };
        let is_deep = jsonrpc::is_deeper(message, DEPTH);
        match parsed {
            Ok(Incoming::Response { id, .. }) if is_deep => self.response(id, Err(too_deep())),
            Ok(Incoming::Response { id, outcome }) => {
                self.response(id, outcome.map_err(as_said));
            }
            Ok(Incoming::Notification { .. }) if is_deep || message.len() > NOTICE_BYTES => {}
            Ok(Incoming::Notification { method, params }) => self.notification(&method, params),
            Ok(Incoming::Request { id, method, .. }) => self.question(id, &method, message),
            Ok(_) => {}
            Err(_) => self.unreadable(message),
        }
    }

    /// Fails a call whose answer makes no sense, because its caller would wait for nothing.
    fn unreadable(&mut self, message: &[u8]) {
        let call = answered(message).and_then(|id| self.pending.get(&id));
        if let Some(Pending { call, .. }) = call.filter(|pending| pending.is_sent) {
            self.fail(call.id, failures::unreadable(&call.method));
        }
    }

    fn response(&mut self, id: Option<RequestId>, outcome: Result<&RawValue, RpcError>) {
        let id = match id {
            Some(RequestId::Number(id)) => Some(id),
            // Some servers turn all ids into texts.
            Some(RequestId::String(text)) => match text.parse() {
                Ok(id) => Some(id),
                Err(_) => return,
            },
            Some(_) => return,
            None => None,
        };
        if self.hear_opening(id, &outcome) {
            return;
        }
        if let Some(id) = id {
            self.retiring.retain(|before| *before != id);
            if self.listening == Some(id) {
                return self.listening_ended(id, outcome.map(|_| ()));
            }
            if self.unconfirmed.contains_key(&id) {
                return self.confirm(id, outcome.map(|_| ()));
            }
        }
        // An error without an id is for the only call that was sent, if there is only one.
        let id = id.or_else(|| {
            let mut sent = self.pending.values().filter(|pending| pending.is_sent);
            let only = sent.next().filter(|_| sent.next().is_none());
            only.map(|pending| pending.call.id)
        });
        if let Some(id) = id
            && self.pending.remove(&id).is_some()
        {
            let outcome = outcome.map(ToOwned::to_owned);
            self.out.push_back(Output::Done(id, outcome));
        }
    }

    fn notification(&mut self, method: &str, params: Option<&RawValue>) {
        let text = params.map_or("{}", RawValue::get);
        match method {
            notification::PROGRESS => {
                let Ok(params) = serde_json::from_str::<ProgressParams>(text) else {
                    return;
                };
                if let RequestId::Number(id) = params.progress_token
                    && self.pending.contains_key(&id)
                {
                    self.out.push_back(Output::Progress(id, params));
                }
            }
            notification::CANCELLED => {
                let params = serde_json::from_str::<CancelledParams>(text);
                if let Ok(Some(id)) = params.map(|params| params.request_id) {
                    self.taken_back(&id);
                }
            }
            notification::LISTEN_ACKNOWLEDGED => self.acknowledged(text),
            _ => {
                let params = without_subscription(text);
                self.out.push_back(Output::Heard(method.into(), params));
            }
        }
    }

    fn taken_back(&mut self, id: &RequestId) {
        let mut questions = self.questions.iter();
        let question = questions.find(|(_, theirs)| theirs.id == *id);
        if let Some(question) = question.map(|(question, _)| *question) {
            self.questions.remove(&question);
            self.out.push_back(Output::TakenBack(question));
        }
    }

    fn question(&mut self, id: RequestId, method: &str, message: &[u8]) {
        let Stage::Open(peer) = &self.stage else {
            // Before it has opened, a server may send a ping.
            return self.refuse_or_pong(&id, method);
        };
        // Specification 2026-07-28, stdio: a client writes no responses.
        if !peer.version.has_handshake() {
            return;
        }
        if !matches!(method, input::ELICIT | input::SAMPLE | input::ROOTS) {
            return self.refuse_or_pong(&id, method);
        }
        if let Some(error) = self.refusal(message) {
            let line = jsonrpc::error(Some(&id), &error);
            return self.out.push_back(Output::Send(line.into()));
        }
        let text = std::str::from_utf8(message).unwrap_or_default();
        let params = jsonrpc::params::<&RawValue>(text).map(ToOwned::to_owned);
        self.next_question += 1;
        let bytes = message.len();
        self.questions
            .insert(self.next_question, Question { id, bytes });
        let params = params.unwrap_or_else(|_| RawValue::NULL.to_owned());
        self.out
            .push_back(Output::Asked(self.next_question, method.into(), params));
    }

    /// Returns why a question cannot be passed on to a caller.
    fn refusal(&self, message: &[u8]) -> Option<RpcError> {
        let waiting: usize = self.questions.values().map(|one| one.bytes).sum();
        let words = if jsonrpc::is_deeper(message, DEPTH) {
            return Some(too_deep());
        } else if message.len() > QUESTION_BYTES {
            format!("a question may have {QUESTION_BYTES} bytes")
        } else if self.questions.len() >= QUESTIONS {
            format!("{QUESTIONS} questions wait already")
        } else if waiting + message.len() > QUESTIONS_BYTES {
            format!("{waiting} bytes of questions wait already")
        } else {
            return None;
        };
        Some(RpcError::internal(words))
    }

    fn refuse_or_pong(&mut self, id: &RequestId, method: &str) {
        let line = if method == request::PING {
            jsonrpc::result(id, &serde_json::json!({}))
        } else {
            let words = format!("this client knows no `{method}`");
            let error = RpcError::new(lmcp_wire::error::METHOD_NOT_FOUND, words);
            jsonrpc::error(Some(id), &error)
        };
        self.out.push_back(Output::Send(line.into()));
    }
}

fn too_deep() -> RpcError {
    let words = format!("the server's message is nested deeper than {DEPTH} levels");
    RpcError::internal(words)
        .with_data(serde_json::json!({ "retriable": false, "fault": "server" }))
}

/// Returns an error of the server without `began`, which only this client can know. A caller might otherwise repeat a call
/// that has begun.
fn as_said(mut error: RpcError) -> RpcError {
    if let Some(Value::Object(data)) = &mut error.data {
        data.remove("began");
    }
    error
}

/// Returns parameters without the id of the subscription, which belongs to the conversation alone.
fn without_subscription(text: &str) -> Box<RawValue> {
    let whole = || to_raw_value(&serde_json::from_str::<&RawValue>(text).ok());
    if !text.contains(meta::SUBSCRIPTION_ID) {
        return whole().unwrap_or_else(|_| RawValue::NULL.to_owned());
    }
    let mut params = Members::read(text).unwrap_or_default();
    let told = params.take("_meta").map(Cow::into_owned);
    let mut told = told
        .as_ref()
        .and_then(|told| Members::read(told.get()).ok())
        .unwrap_or_default();
    told.take(meta::SUBSCRIPTION_ID);
    if !told.is_empty() {
        params.set("_meta", &told);
    }
    to_raw_value(&params).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// Returns the call that an invalid message answers, for example one with invalid letters or with two results.
fn answered(message: &[u8]) -> Option<i64> {
    let text = String::from_utf8_lossy(message);
    let members = Members::read(&text).ok()?;
    let is_answer = members.get("method").is_none();
    let id = members.get("id").filter(|_| is_answer)?;
    serde_json::from_str(id.get()).ok()
}
