//! What is said when: everything a proxy decides, without reading or writing anything.
//!
//! Lines of the client and of the server go in, and so do the news that a server was found or lost and what time it is;
//! what is to be sent comes out, in order. A server is found (*attached*), hears again what the client and the first
//! server agreed on (*opening*), and is then passed everything as it comes (*open*).

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

/// So many answers are worth coming back to at once.
const OF_USE: u32 = 8;

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// A line, without its end.
    ToClient(Vec<u8>),
    ToServer(Vec<u8>),
    /// Something that people should know, in words.
    Remark(&'static str),
    /// This server will not do. Look for another.
    Detach,
    /// No server will do: this one does not let us in, and everything is answered with its words.
    TurnedAway,
    /// The client has gone, and has what it can get.
    Done(Ending),
}

#[derive(Debug)]
pub(crate) struct Relay {
    limits: Limits,
    link: Link,
    session: Session,
    /// What the server has. Empty while there is none.
    sent: Sent,
    /// What the client said while no server was open. Empty while one is.
    waiting: Waiting,
    unheard: Unheard,
    crowd: Crowd,
    questions: Questions,
    ids: Ids,
    batches: u64,
    /// Why there is no server.
    trouble: String,
    /// Why what the client says cannot be answered by the server there is.
    rejection: Option<RpcError>,
    /// The server there is has answered something.
    proven: bool,
    /// How much it has.
    answers: u32,
    /// Something was passed on that the server may complain of without naming it.
    sent_unreadable: bool,
    /// The server is a host, whose last word is ours to heed.
    is_host: bool,
    /// That word.
    goodbye: Option<Then>,
    /// When the client was last told that everything may have changed, and when it is to be told again.
    told_news: Option<Instant>,
    news_due: Option<Instant>,
    client_ended: bool,
    /// It has, and got an error since that no server gave.
    unanswered: bool,
    done: bool,
    output: VecDeque<Output>,
}

#[derive(Debug)]
enum Link {
    Away,
    /// The handshake was said again, under this id, and is to be answered in time.
    Opening(RequestId, Instant),
    Open,
    /// There is no use in looking for another.
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

    /// There is a server, and it has let us in.
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

    /// The server that is attached is a host, which may say how it goes on when it closes.
    pub(crate) fn server_is_host(&mut self) {
        self.is_host = true;
    }

    /// What a host has said last.
    pub(crate) fn goodbye(&self) -> Option<Then> {
        self.goodbye
    }

    /// There is none where one should be.
    pub(crate) fn server_unreachable(&mut self, why: impl Into<String>) {
        self.server_awaited(why);
        self.end_if_alone();
    }

    /// There is none yet, but there will be: a client that has gone is waited for like any other.
    pub(crate) fn server_awaited(&mut self, why: impl Into<String>) {
        self.trouble = why.into();
        self.link = Link::Away;
    }

    /// The server that was attached is gone.
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

    /// What a server had that is gone waits for the next one, or is answered with an error.
    fn let_go(&mut self, now: Instant, error: impl Fn(&Call) -> RpcError) {
        let (mut again, mut gone) = (Vec::new(), Vec::new());
        for call in self.sent.take_all() {
            let is_handshake = *call.method == *request::INITIALIZE;
            match self.hold(call, now) {
                Ok(held) => again.push(held),
                Err(call) => gone.push(call),
            }
            // Some clients say that they are ready without waiting for the answer.
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

    /// The server does not want us, and will not.
    pub(crate) fn server_refused(&mut self, error: RpcError) {
        self.link = Link::Refused;
        self.reject(error);
    }

    /// It is that late.
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

    /// The next thing to do.
    pub(crate) fn next_output(&mut self) -> Option<Output> {
        self.output.pop_front()
    }

    /// When it must be told the time.
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

    /// Is a server to be looked for? Not before the client has said something, and then always.
    pub(crate) fn wants_server(&self) -> bool {
        matches!(self.link, Link::Away) && (self.ids.had_server() || !self.waiting.is_empty())
    }

    /// May the client say more? Not while there is as much as there may be that waits for a server, or for answers that
    /// come.
    pub(crate) fn has_room(&self) -> bool {
        if self.rejection.is_some() {
            return true;
        }
        let has_room = self.is_open() || self.waiting.has_room(&self.limits);
        has_room && !self.is_crowded()
    }

    /// Has the server asked so much that more would only be refused?
    pub(crate) fn has_all_questions(&self) -> bool {
        self.questions.len() >= self.limits.questions
    }

    /// Is the client held back because of all the answers that are on their way to it?
    pub(crate) fn is_crowded(&self) -> bool {
        self.crowd.holds_back()
    }

    /// Has the server there is, or was last, answered more than one does that dies of what it is told?
    pub(crate) fn was_of_use(&self) -> bool {
        self.answers >= OF_USE
    }

    /// Is there a server that has answered something?
    pub(crate) fn is_served(&self) -> bool {
        self.proven && self.is_open()
    }

    /// Why there is no server.
    pub(crate) fn trouble(&self) -> &str {
        &self.trouble
    }

    /// Does the client wait for nothing?
    pub(crate) fn is_idle(&self) -> bool {
        self.sent
            .iter()
            .chain(self.waiting.calls())
            .all(Call::is_open)
    }

    /// Does everything go on as it comes?
    fn is_open(&self) -> bool {
        matches!(self.link, Link::Open)
    }

    /// What the server asked is not to be answered any more.
    fn part(&mut self) {
        self.link = Link::Away;
        self.news_due = None;
        for id in self.questions.take_all() {
            let params = json!({ "requestId": id, "reason": "the server that asked went away" });
            self.tell_client(jsonrpc::notification(notification::CANCELLED, &params));
        }
    }

    /// The server has heard what it must know: now it gets what waits.
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
        // What stands in an array, the server may not be able to read.
        self.sent_unreadable |= held.line.trim_ascii_start().starts_with(b"[");
        self.unheard.told(&held.line, &self.limits);
        self.tell_server(held.line);
    }

    /// A request that a lost server had, if the next one may have it too.
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
            // The client was told that a subscription is open, so it stays open.
            until: (!call.is_open()).then_some(until),
            calls: vec![call],
        })
    }

    /// Nothing of what the client says can be answered by this server.
    fn reject(&mut self, error: RpcError) {
        self.trouble = error.message.clone().into_owned();
        while let Some(held) = self.waiting.pop() {
            self.fail(&held.calls, |_| error.clone());
        }
        self.rejection = Some(error);
        self.end_if_alone();
    }

    /// Answers requests with errors; those of one batch with one line.
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

    /// Are there as many requests without an answer as there may be?
    fn is_full(&self) -> bool {
        self.sent.len() + self.waiting.requests() >= self.limits.pending
    }

    /// The client has gone, and there is no server to wait for.
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

    /// The client hears what may have changed with the server, but not all the time.
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
