//! The way out: what a service replies becomes messages that the client of the request can read.

use std::borrow::Cow;

use lmcp_wire::{
    LoggingLevel, ProgressToken, ProtocolVersion, RequestId, RpcError,
    method::{notification, request},
    progress::ProgressParams,
};
use serde_json::json;

use super::{legacy, modern};
use crate::{
    budget::Budget,
    caller::{Caller, Transport},
    message::Message,
    outcome::Outcome,
    reply::{Notice, ProgressReport, Reply},
    request::Request,
    session::{Ask, Session},
};

/// Writes the replies to one request, in its revision.
pub(crate) struct Encoder {
    id: RequestId,
    method: Cow<'static, str>,
    version: ProtocolVersion,
    /// Of the older revisions. None where every request stands alone.
    session: Option<Session>,
    progress_token: Option<ProgressToken>,
    log_level: Option<LoggingLevel>,
    caller: Caller,
    /// Large answers count as memory of their caller.
    budget: Budget,
    /// To be said next, before anything else is asked for.
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

    /// The message that follows the last one, whatever the service says next.
    pub(crate) fn held(&mut self) -> Option<Message> {
        self.held.take()
    }

    /// One message. `None`: this client cannot be told so, or does not want to know.
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
        let encoded = match (&self.session, result) {
            (Some(_), Ok(outcome)) => {
                legacy::encode::result(self.version, &self.id, &self.method, outcome)
            }
            (Some(_), Err(error)) => legacy::encode::error(&self.id, &self.method, error),
            (None, Ok(outcome)) => modern::encode::result(&self.id, &self.method, outcome),
            (None, Err(error)) => Err(modern::encode::error(error)),
        };
        let message = match encoded {
            Ok(json) => Message::result(json).counted(&self.budget, &self.caller),
            Err(error) => return Message::error(Some(&self.id), &error),
        };
        if !self.is_subscription() || self.caller.transport() == Transport::Http {
            return message;
        }
        // The specification wants the notice wherever streams share a channel, and the response everywhere.
        self.held = Some(message);
        let params = json!({ "requestId": self.id, "reason": "the server is closing" });
        Message::notification(notification::CANCELLED, &params)
    }

    fn progress(&self, report: ProgressReport) -> Option<Message> {
        let token = self.progress_token.as_ref()?;
        let mut params = ProgressParams::new(token.clone(), report.progress);
        params.total = report.total;
        params.message = report.message;
        if self.session.is_some() {
            legacy::shape::progress(self.version, &mut params);
        }
        Some(Message::notification(notification::PROGRESS, &params))
    }

    fn notice(&self, notice: &Notice) -> Option<Message> {
        let (method, params) = (&*notice.method, notice.params.get());
        if self.session.is_some() && !legacy::shape::has_notification(method) {
            return None;
        }
        let params = match params {
            "null" => Cow::Borrowed(&b"{}"[..]),
            params if self.is_subscription() => modern::encode::stamped(&self.id, params).into(),
            params => params.as_bytes().into(),
        };
        Some(Message::notification_with(method, &params))
    }

    fn question(&self, ask: Ask) -> Option<Message> {
        let (question, asked) = ask.split();
        let method = question.method();
        let params = match &self.session {
            Some(_) => legacy::question::params(self.version, question),
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

    /// Is the request a subscription, whose messages name it?
    fn is_subscription(&self) -> bool {
        self.session.is_none() && self.method == request::LISTEN
    }

    fn log_level(&self) -> Option<LoggingLevel> {
        let live = self.session.as_ref().and_then(Session::find);
        live.and_then(|live| live.level()).or(self.log_level)
    }
}
