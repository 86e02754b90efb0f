//! Decides what is sent and when, without reading or writing anything.
//!
//! The input is lines of the client and of the server, the news that a server was found or lost, and the time; the output is
//! what to send, in order. A server is found (*attached*), gets again what the client and the first server agreed on
//! (*opening*), and then gets every line as it comes (*open*).

mod calls;
mod client;
mod crowd;
mod failures;
mod ids;
mod message;
mod questions;
mod server;
mod session;
#[cfg(test)]
mod tests;
mod unheard;
mod unsent;

use std::{collections::VecDeque, time::Instant};

use lmcp_wire::{
    RequestId, RpcError,
    greeting::Then,
    jsonrpc,
    method::{notification, request},
};
use serde_json::json;

use self::{
    calls::{Call, Held, Sent, Waiting},
    crowd::Crowd,
    ids::Ids,
    message::join,
    questions::Questions,
    session::{Session, initialized},
    unheard::Unheard,
};
use crate::{Ending, limits::Limits};

/// A server with this number of answers is worth an immediate new try.
const OF_USE: u32 = 8;

/// An action for the proxy.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// A line, without its end.
    ToClient(Vec<u8>),
    ToServer(Vec<u8>),
    /// A remark for people.
    Remark(&'static str),
    /// Leave this server, and look for another.
    Detach,
    /// This server refuses us, and so will every other; everything is answered with its error.
    TurnedAway,
    /// The client has gone, and has everything that it can get.
    Done(Ending),
}

#[derive(Debug)]
pub(crate) struct Relay {
    limits: Limits,
    link: Link,
    session: Session,
    /// Requests that the server has. Empty while there is none.
    sent: Sent,
    /// Lines of the client that wait while no server is open. Empty while one is.
    waiting: Waiting,
    unheard: Unheard,
    crowd: Crowd,
    questions: Questions,
    ids: Ids,
    batches: u64,
    /// The reason why there is no server.
    trouble: String,
    /// The reason why the current server cannot answer the client.
    rejection: Option<RpcError>,
    /// The current server has answered something.
    proven: bool,
    /// The number of its answers.
    answers: u32,
    /// Something was passed on that the server may complain about without naming it.
    sent_unreadable: bool,
    /// The server is a host, which says before it closes how to go on.
    is_host: bool,
    /// The word of the host about that.
    goodbye: Option<Then>,
    /// The time when the client was last told that everything may have changed, and the time of the next such notice.
    told_news: Option<Instant>,
    news_due: Option<Instant>,
    client_ended: bool,
    /// After the client had ended, a request was answered with an error of the proxy.
    unanswered: bool,
    done: bool,
    output: VecDeque<Output>,
}

#[derive(Debug)]
enum Link {
    Away,
    /// The handshake was repeated under this id, and must be answered before this time.
    Opening(RequestId, Instant),
    Open,
    /// Another server would not help.
    Refused,
}

impl Relay {
    pub(crate) fn new(limits: Limits) -> Self {
        Self::with_ids(Ids::new(), limits)
    }

    fn with_ids(ids: Ids, limits: Limits) -> Self {
        Self {
            limits,
            link: Link::Away,
            session: Session::default(),
            sent: Sent::default(),
            waiting: Waiting::default(),
            unheard: Unheard::default(),
            crowd: Crowd::default(),
            questions: Questions::default(),
            ids,
            batches: 0,
            trouble: "none was looked for yet".to_owned(),
            rejection: None,
            proven: false,
            answers: 0,
            sent_unreadable: false,
            is_host: false,
            goodbye: None,
            told_news: None,
            news_due: None,
            client_ended: false,
            unanswered: false,
            done: false,
            output: VecDeque::new(),
        }
    }

    /// Notes that there is a server that has admitted us.
    pub(crate) fn server_attached(&mut self, now: Instant) {
        self.ids.next_server();
        (self.proven, self.answers, self.sent_unreadable) = (false, 0, false);
        (self.is_host, self.goodbye) = (false, None);
        self.unheard = Unheard::default();
        let id = self.ids.next();
        match self.session.handshake(&id) {
            Some(handshake) => {
                self.link = Link::Opening(id, now + self.limits.handshake_wait);
                self.tell_server(handshake);
            }
            None => self.open(),
        }
    }

    /// Notes that the attached server is a host, which may say before it closes how to go on.
    pub(crate) fn server_is_host(&mut self) {
        self.is_host = true;
    }

    /// Returns what the host has said about its end.
    pub(crate) fn goodbye(&self) -> Option<Then> {
        self.goodbye
    }

    /// Notes that no server is there.
    pub(crate) fn server_unreachable(&mut self, why: impl Into<String>) {
        self.server_awaited(why);
        self.end_if_alone();
    }

    /// Notes that a server is about to start: it is waited for, even if the client has gone.
    pub(crate) fn server_awaited(&mut self, why: impl Into<String>) {
        self.trouble = why.into();
        self.link = Link::Away;
    }

    /// Notes that the attached server is gone.
    pub(crate) fn server_lost(&mut self, now: Instant) {
        let (reason, unheard) = self.unheard.end();
        self.part();
        let is_awaited = !unheard.is_empty();
        let again = self.take_back(unheard, now);
        self.let_go(now, |call| failures::lost(&call.method, reason.as_deref()));
        for held in again.into_iter().rev() {
            self.waiting.push_front(held);
        }
        self.trouble = reason.unwrap_or_else(|| "it went away".to_owned());
        if is_awaited {
            self.end_if_done();
        } else {
            self.end_if_alone();
        }
    }

    /// Keeps the requests of a lost server for the next one, or answers them with an error.
    fn let_go(&mut self, now: Instant, error: impl Fn(&Call) -> RpcError) {
        let (mut again, mut gone) = (Vec::new(), Vec::new());
        for call in self.sent.take_all() {
            let is_handshake = *call.method == *request::INITIALIZE;
            match self.hold(call, now) {
                Ok(held) => again.push(held),
                Err(call) => gone.push(call),
            }
            // Some clients send `initialized` without waiting for the answer.
            if is_handshake && self.session.is_ready() {
                again.push(Held {
                    line: initialized(),
                    calls: Vec::new(),
                    until: Some(now + self.limits.wait),
                });
            }
        }
        self.fail(&gone, error);
        for held in again.into_iter().rev() {
            self.waiting.push_front(held);
        }
    }

    /// Notes that the server refuses us for good.
    pub(crate) fn server_refused(&mut self, error: RpcError) {
        self.link = Link::Refused;
        self.reject(error);
    }

    /// Notes the current time.
    pub(crate) fn time_is(&mut self, now: Instant) {
        if matches!(self.link, Link::Opening(_, until) if until <= now) {
            self.part();
            self.output.push_back(Output::Detach);
            self.server_unreachable("it does not answer the handshake");
        }
        while let Some(late) = self.waiting.take_late(now) {
            let why = self.trouble.clone();
            self.fail(&late.calls, |call| failures::unreached(&call.method, &why));
        }
        while let Some(lines) = self.sent.take_ended(now) {
            for line in lines {
                self.tell_client(line);
            }
        }
        if self.news_due.is_some_and(|due| due <= now) {
            self.tell_news(now);
        }
        self.crowd.counts(self.is_full(), now, self.limits.hold);
        self.crowd.time_is(now);
        self.end_if_done();
    }

    /// Returns the next action.
    pub(crate) fn next_output(&mut self) -> Option<Output> {
        self.output.pop_front()
    }

    /// Returns the time at which `time_is` must be called.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let opening = match self.link {
            Link::Opening(_, until) => Some(until),
            Link::Away | Link::Open | Link::Refused => None,
        };
        let times = [
            opening,
            self.waiting.deadline(),
            self.sent.deadline(),
            self.news_due,
            self.crowd.deadline(),
        ];
        times.into_iter().flatten().min()
    }

    /// Returns whether to look for a server: not before the client has sent something, and always after that.
    pub(crate) fn wants_server(&self) -> bool {
        matches!(self.link, Link::Away) && (self.ids.had_server() || !self.waiting.is_empty())
    }

    /// Returns whether the client may send more: not while too many lines wait for a server, or too many requests for
    /// answers that still arrive.
    pub(crate) fn has_room(&self) -> bool {
        if self.rejection.is_some() {
            return true;
        }
        let has_room = self.is_open() || self.waiting.has_room(&self.limits);
        has_room && !self.is_crowded()
    }

    /// Returns whether the server has asked so many questions that more would be refused.
    pub(crate) fn has_all_questions(&self) -> bool {
        self.questions.len() >= self.limits.questions
    }

    /// Returns whether the client is held back because too many requests wait for answers.
    pub(crate) fn is_crowded(&self) -> bool {
        self.crowd.holds_back()
    }

    /// Returns whether the current or last server has answered more than a server that dies of its input.
    pub(crate) fn was_of_use(&self) -> bool {
        self.answers >= OF_USE
    }

    /// Returns whether there is a server that has answered something.
    pub(crate) fn is_served(&self) -> bool {
        self.proven && self.is_open()
    }

    /// Returns the reason why there is no server.
    pub(crate) fn trouble(&self) -> &str {
        &self.trouble
    }

    /// Returns whether the client waits for no answer.
    pub(crate) fn is_idle(&self) -> bool {
        self.sent
            .iter()
            .chain(self.waiting.calls())
            .all(Call::is_open)
    }

    /// Returns whether lines are passed on as they come.
    fn is_open(&self) -> bool {
        matches!(self.link, Link::Open)
    }

    /// Leaves the server, and cancels its questions at the client.
    fn part(&mut self) {
        self.link = Link::Away;
        self.news_due = None;
        for id in self.questions.take_all() {
            let params = json!({ "requestId": id, "reason": "the server that asked went away" });
            self.tell_client(jsonrpc::notification(notification::CANCELLED, &params));
        }
    }

    /// Sends the waiting lines, after the server has accepted the handshake.
    fn open(&mut self) {
        self.link = Link::Open;
        self.rejection = None;
        while let Some(held) = self.waiting.pop() {
            self.send(held);
        }
    }

    fn send(&mut self, held: Held) {
        for call in held.calls {
            self.sent.push(call, &held.line, &self.limits);
        }
        // Some servers cannot read arrays.
        self.sent_unreadable |= held.line.trim_ascii_start().starts_with(b"[");
        self.unheard.told(&held.line, &self.limits);
        self.tell_server(held.line);
    }

    /// Returns a request of a lost server for the next one, if it may be sent again.
    fn hold(&self, mut call: Call, now: Instant) -> Result<Held, Call> {
        let until = *call.until.get_or_insert(now + self.limits.wait);
        if until <= now && !call.is_open() {
            return Err(call);
        }
        let Some(line) = call.kept.take() else {
            return Err(call);
        };
        if let Some(listen) = &mut call.listen {
            listen.end = None;
        }
        Ok(Held {
            line,
            // The client was told that a subscription is open, so the subscription waits without a limit.
            until: (!call.is_open()).then_some(until),
            calls: vec![call],
        })
    }

    /// Answers everything with an error, because this server cannot answer it.
    fn reject(&mut self, error: RpcError) {
        self.trouble = error.message.clone().into_owned();
        while let Some(held) = self.waiting.pop() {
            self.fail(&held.calls, |_| error.clone());
        }
        self.rejection = Some(error);
        self.end_if_alone();
    }

    /// Answers requests with errors; the requests of one batch get one line.
    fn fail(&mut self, calls: &[Call], error: impl Fn(&Call) -> RpcError) {
        self.unanswered |= self.client_ended && !calls.is_empty();
        let answer = |call: &Call| jsonrpc::error(Some(&call.id), &error(call));
        for together in calls.chunk_by(|a, b| a.batch.is_some() && a.batch == b.batch) {
            match together {
                [call] if call.batch.is_none() => self.tell_client(answer(call)),
                calls => self.tell_client(join(&calls.iter().map(answer).collect::<Vec<_>>())),
            }
        }
    }

    /// Returns whether the number of requests without an answer is at its limit.
    fn is_full(&self) -> bool {
        self.sent.len() + self.waiting.requests() >= self.limits.pending
    }

    /// Ends, if the client has gone and there is no server to wait for.
    fn end_if_alone(&mut self) {
        if self.client_ended && !self.is_idle() {
            let why = self.trouble.clone();
            while let Some(held) = self.waiting.pop() {
                self.fail(&held.calls, |call| failures::unreached(&call.method, &why));
            }
        }
        self.end_if_done();
    }

    fn end_if_done(&mut self) {
        if !self.client_ended || self.done || !self.is_idle() {
            return;
        }
        self.done = true;
        self.output.push_back(Output::Done(match self.link {
            Link::Refused => Ending::Refused,
            _ if self.unanswered => Ending::Unanswered,
            Link::Away | Link::Opening(..) | Link::Open => Ending::Done,
        }));
    }

    /// Tells the client what may have changed with the server, but not too often.
    fn tell_news(&mut self, now: Instant) {
        let again = self.told_news.map(|told| told + self.limits.news);
        self.news_due = again.filter(|again| *again > now);
        if self.news_due.is_none() {
            self.told_news = Some(now);
            for line in self.session.news() {
                self.tell_client(line);
            }
        }
    }

    fn tell_client(&mut self, line: Vec<u8>) {
        self.output.push_back(Output::ToClient(line));
    }

    fn tell_server(&mut self, line: Vec<u8>) {
        self.output.push_back(Output::ToServer(line));
    }
}
