//! What is said when: everything a proxy decides, without reading or writing anything.
//!
//! Lines of the client and of the server go in, and so do the news that a server was found or lost and what time it is;
//! what is to be sent comes out, in order. A server is found (*attached*), hears again what the client and the first
//! server agreed on (*opening*), and is then passed everything as it comes (*open*).

mod calls;
mod client;
mod failures;
mod message;
mod questions;
mod server;
mod session;
#[cfg(test)]
mod tests;

use std::{collections::VecDeque, time::Instant};

use lmcp_wire::{
    RequestId, RpcError, jsonrpc,
    method::{notification, request},
};
use serde_json::json;

use self::{
    calls::{Call, Held, Sent, Waiting},
    message::join,
    questions::Questions,
    session::{Session, initialized},
};
use crate::{Ending, limits::Limits};

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// A line, without its end.
    ToClient(Vec<u8>),
    ToServer(Vec<u8>),
    /// This server will not do. Look for another.
    Detach,
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
    questions: Questions,
    ids: Ids,
    batches: u64,
    /// Why there is no server.
    trouble: String,
    /// Why what the client says cannot be answered by the server there is.
    rejection: Option<RpcError>,
    /// The server there is has answered something.
    proven: bool,
    /// Something was passed on that the server may complain of without naming it.
    sent_unreadable: bool,
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
        Self {
            limits,
            link: Link::Away,
            session: Session::default(),
            sent: Sent::default(),
            waiting: Waiting::default(),
            questions: Questions::default(),
            ids: Ids::default(),
            batches: 0,
            trouble: "none was looked for yet".to_owned(),
            rejection: None,
            proven: false,
            sent_unreadable: false,
            client_ended: false,
            unanswered: false,
            done: false,
            output: VecDeque::new(),
        }
    }

    /// There is a server, and it has let us in.
    pub(crate) fn server_attached(&mut self, now: Instant) {
        self.ids.server += 1;
        (self.proven, self.sent_unreadable) = (false, false);
        let id = self.ids.next();
        match self.session.handshake(&id) {
            Some(handshake) => {
                self.link = Link::Opening(id, now + self.limits.handshake_wait);
                self.tell_server(handshake);
            }
            None => self.open(),
        }
    }

    /// There is none where one should be.
    pub(crate) fn server_unreachable(&mut self, why: impl Into<String>) {
        self.trouble = why.into();
        self.link = Link::Away;
        self.end_if_alone();
    }

    /// The server that was attached is gone.
    pub(crate) fn server_lost(&mut self, now: Instant) {
        self.trouble = "it went away".to_owned();
        self.part();
        let (mut again, mut gone) = (Vec::new(), Vec::new());
        for call in self.sent.take_all() {
            let is_handshake = *call.method == *request::INITIALIZE;
            match self.hold(call, now) {
                Ok(held) => again.push(held),
                Err(call) => gone.push(call),
            }
            // Some clients say that they are ready without waiting for the answer.
            if is_handshake && self.session.initialized {
                again.push(Held {
                    line: initialized(),
                    calls: Vec::new(),
                    until: Some(now + self.limits.wait),
                });
            }
        }
        self.fail(&gone, |call| failures::lost(&call.method));
        for held in again.into_iter().rev() {
            self.waiting.push_front(held);
        }
        self.end_if_alone();
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
        let times = [opening, self.waiting.deadline(), self.sent.deadline()];
        times.into_iter().flatten().min()
    }

    /// Is a server to be looked for? Not before the client has said something, and then always.
    pub(crate) fn wants_server(&self) -> bool {
        matches!(self.link, Link::Away) && (self.ids.server > 0 || !self.waiting.is_empty())
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

    fn tell_client(&mut self, line: Vec<u8>) {
        self.output.push_back(Output::ToClient(line));
    }

    fn tell_server(&mut self, line: Vec<u8>) {
        self.output.push_back(Output::ToServer(line));
    }
}

/// Ids that neither side has used.
#[derive(Debug, Default)]
struct Ids {
    /// How many servers there have been.
    server: u64,
    count: u64,
}

impl Ids {
    /// The next one; it says which server it is for.
    fn next(&mut self) -> RequestId {
        self.count += 1;
        RequestId::from(&*format!("{OWN}{}-{}", self.server, self.count))
    }
}

/// How they begin.
const OWN: &str = "lmcp-proxy-";

fn is_own(id: &RequestId) -> bool {
    matches!(id, RequestId::String(text) if text.starts_with(OWN))
}
