//! A conversation with a server, without I/O: the input is lines of the server and requests of callers, the output is lines
//! to the server and news for callers.
//!
//! A conversation opens with `server/discover` or a handshake, whichever the server knows, and opens in the same way with
//! the next server. Ids of calls are never used twice, so callers need not agree on them. Calls that were not sent to a lost
//! server wait for the next one, and so do calls that change nothing.

mod failures;
mod hearing;
mod opening;
#[cfg(test)]
mod tests;
mod wishes;

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use bytes::Bytes;
use lmcp_wire::{
    ClientCapabilities, Envelope, Implementation, ProtocolVersion, RequestId, RpcError,
    ServerCapabilities,
    framing::join_lines,
    jsonrpc,
    method::{notification, request},
    progress::{CancelledParams, ProgressParams},
};
use serde_json::value::RawValue;

pub use crate::limits::{PROBE_WAIT, RUBBISH_BYTES};
use opening::Stage;
pub use wishes::{ListWishes, Watched, Wishes};

/// The identity and abilities that this client declares.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Profile {
    /// Its name and version.
    pub info: Implementation,
    /// The requests that a server may send to this client. Declared in a handshake; without a handshake, every request
    /// declares its own.
    pub capabilities: ClientCapabilities,
    /// The revision to use. `None`: the newest that the server knows.
    pub pinned: Option<ProtocolVersion>,
    /// Names its own callers to the server: every request has [`meta::FOR`](lmcp_wire::meta::FOR).
    pub names_callers: bool,
}

impl Profile {
    /// Returns the profile of a client that cannot be asked anything.
    pub fn new(info: Implementation) -> Self {
        Self {
            info,
            capabilities: ClientCapabilities::default(),
            pinned: None,
            names_callers: false,
        }
    }

    /// Returns whether the client cannot be asked anything.
    pub fn asks_nobody(&self) -> bool {
        self.capabilities == ClientCapabilities::default()
    }
}

/// The server at the other end, as it opened.
#[derive(Debug)]
#[non_exhaustive]
pub struct Peer {
    /// The revision of the conversation.
    pub version: ProtocolVersion,
    /// The result of `server/discover` or of the handshake.
    pub result: Box<RawValue>,
    /// The lists that the server offers, and whether it logs. Anything else is only in the result.
    pub capabilities: ServerCapabilities,
}

/// The ids of calls, shared by all code that makes calls.
#[derive(Clone, Debug)]
pub struct Ids(Arc<AtomicI64>);

impl Default for Ids {
    fn default() -> Self {
        Self(Arc::new(AtomicI64::new(1)))
    }
}

impl Ids {
    /// Returns an id that no other call has.
    #[must_use]
    pub fn next(&self) -> i64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// A call for a caller.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Call {
    /// An id from [`Ids`]. It is also the progress token.
    pub id: i64,
    /// The whole request, without line breaks. The line is dropped after it was sent, unless it may be sent again.
    pub line: Bytes,
    /// The method.
    pub method: Box<str>,
    /// Whether the line is written for a server with sessions.
    pub has_session: bool,
}

impl Call {
    /// Makes a call with these parameters, which are a JSON object.
    pub fn new(id: i64, method: &str, params: &[u8], peer: &Peer) -> Self {
        let line = jsonrpc::request_with(&id.into(), method, params);
        Self::written(id, method, line, peer)
    }

    /// Makes a call from a whole request that is written for this server.
    pub fn written(id: i64, method: &str, mut line: Vec<u8>, peer: &Peer) -> Self {
        join_lines(&mut line);
        Self {
            id,
            line: line.into(),
            method: method.into(),
            has_session: peer.version.has_handshake(),
        }
    }
}

/// An event of a conversation.
#[derive(Debug)]
#[non_exhaustive]
pub enum Output {
    /// A line for the server.
    Send(Bytes),
    /// The server has opened, and calls can be made.
    Ready(Arc<Peer>),
    /// The server and this client cannot speak with each other.
    Unfit(RpcError),
    /// The progress of a call.
    Progress(i64, ProgressParams),
    /// The result of a call.
    Done(i64, Result<Box<RawValue>, RpcError>),
    /// A notification that belongs to no call.
    Heard(Box<str>, Box<RawValue>),
    /// A question of the server, under a number of this conversation: its method and its parameters.
    Asked(u64, Box<str>, Box<RawValue>),
    /// A question that need not be answered any more.
    TakenBack(u64),
    /// The server has confirmed all wishes.
    Granted,
    /// The stream of changes broke, and was opened again: nobody heard what changed meanwhile.
    ListensAgain,
    /// The server has ended the stream on which it reports changes (2026-07-28), or has refused it. Wishes are told again when they
    /// change.
    ListeningEnded(Result<(), RpcError>),
    /// The server has refused a new stream for changed wishes. The stream for the wishes before goes on.
    WishesRefused(RpcError),
}

/// A call without an answer.
#[derive(Debug)]
struct Pending {
    call: Call,
    is_sent: bool,
    /// The number of lost servers that had the call.
    losses: u32,
}

/// A question of the server without an answer.
#[derive(Debug)]
struct Question {
    id: RequestId,
    /// The length of the question.
    bytes: usize,
}

/// A conversation.
#[derive(Debug)]
pub struct Conversation {
    profile: Profile,
    ids: Ids,
    stage: Stage,
    /// The revision with which the last server was opened; the next server is opened in the same way first.
    known: Option<ProtocolVersion>,
    pending: BTreeMap<i64, Pending>,
    wishes: Wishes,
    /// The wishes that the server was told.
    told: wishes::Told,
    /// The stream on which a server of 2026-07-28 reports changes.
    listening: Option<i64>,
    /// Earlier streams: each stays open until the next one has begun, so that nothing is missed in between.
    retiring: Vec<i64>,
    /// The requests about wishes that the server has not confirmed, with the name that it is asked to tell of.
    unconfirmed: BTreeMap<i64, Option<String>>,
    /// Questions of the server, by our number.
    questions: HashMap<u64, Question>,
    next_question: u64,
    /// The number of bytes that the server wrote since its last message.
    rubbish: usize,
    out: VecDeque<Output>,
}

impl Conversation {
    /// Returns a conversation that is not connected yet.
    pub fn new(profile: Profile, ids: Ids) -> Self {
        Self {
            profile,
            ids,
            stage: Stage::Closed,
            known: None,
            pending: BTreeMap::new(),
            wishes: Wishes::default(),
            told: wishes::Told::default(),
            listening: None,
            retiring: Vec::new(),
            unconfirmed: BTreeMap::new(),
            questions: HashMap::new(),
            next_question: 0,
            rubbish: 0,
            out: VecDeque::new(),
        }
    }

    /// Returns the next event; `None`: there is none until there is new input.
    pub fn output(&mut self) -> Option<Output> {
        if self.out.is_empty() {
            self.tell_wishes();
        }
        self.out.pop_front()
    }

    /// Returns whether somebody waits for a server. A log level alone does not count, because every call of an older
    /// revision leaves one.
    pub fn wants_server(&self) -> bool {
        !self.pending.is_empty() || self.wishes.has_changes()
    }

    /// Makes a call.
    pub fn call(&mut self, call: Call) {
        self.begin(Pending {
            call,
            is_sent: false,
            losses: 0,
        });
    }

    /// Sends a call, or lets it wait for a server.
    fn begin(&mut self, mut pending: Pending) {
        // The server is told wishes from before the call first, for example the log level.
        self.tell_wishes();
        if let Stage::Open(peer) = &self.stage {
            if peer.version.has_handshake() != pending.call.has_session {
                return self.fail(pending.call.id, failures::changed(&pending.call.method));
            }
            pending.is_sent = true;
            let line = match request::only_reads(&pending.call.method) {
                true => pending.call.line.clone(),
                // The line may be long, so it is not kept. If the server did not look at it, the line comes back.
                false => std::mem::take(&mut pending.call.line),
            };
            self.out.push_back(Output::Send(line));
        }
        self.pending.insert(pending.call.id, pending);
    }

    /// Cancels a call that nobody waits for any more.
    pub fn cancel(&mut self, id: i64) {
        let Some(pending) = self.pending.remove(&id) else {
            return;
        };
        if pending.is_sent && self.is_open() {
            let params = CancelledParams::new(id.into());
            self.tell(notification::CANCELLED, &params);
        }
    }

    /// Answers a question of the server.
    pub fn answer(&mut self, question: u64, answer: Result<&RawValue, &RpcError>) {
        let Some(Question { id, .. }) = self.questions.remove(&question) else {
            return;
        };
        let line = match answer {
            Ok(result) => jsonrpc::result(&id, &result),
            Err(error) => jsonrpc::error(Some(&id), error),
        };
        self.out.push_back(Output::Send(line.into()));
    }

    /// Sends the server a notification, if the conversation is open.
    pub fn notify(&mut self, method: &str) {
        if self.is_open() {
            self.tell(method, &serde_json::json!({}));
        }
    }

    /// Takes back a line that the server has not looked at.
    pub fn unsent(&mut self, line: &Bytes) {
        if let Envelope::Request {
            id: RequestId::Number(id),
            ..
        } = Envelope::read(line)
            && let Some(pending) = self.pending.get_mut(&id)
        {
            pending.is_sent = false;
            pending.call.line = line.clone();
        }
    }

    /// Notes that the server is gone.
    pub fn lost(&mut self, why: &str) {
        self.close();
        let mut over = Vec::new();
        for pending in self.pending.values_mut().filter(|pending| pending.is_sent) {
            pending.is_sent = false;
            pending.losses += 1;
            if !request::only_reads(&pending.call.method) || pending.losses >= MOST_LOSSES {
                over.push((pending.call.id, failures::lost(&pending.call.method, why)));
            }
        }
        for (id, error) in over {
            self.fail(id, error);
        }
    }

    /// Fails all calls that wait, because no server will be there soon.
    pub fn give_up(&mut self, error: &RpcError) {
        let waiting: Vec<_> = self.pending.keys().copied().collect();
        waiting
            .into_iter()
            .for_each(|id| self.fail(id, error.clone()));
    }

    /// Returns whether the server has written more than [`RUBBISH_BYTES`] without a message.
    pub fn is_rubbish(&self) -> bool {
        self.rubbish > RUBBISH_BYTES
    }

    fn close(&mut self) {
        self.rubbish = 0;
        let was = std::mem::replace(&mut self.stage, Stage::Closed);
        self.note_how_it_ended(&was);
        self.told = wishes::Told::default();
        self.wishes.begin_again();
        self.listening = None;
        self.retiring.clear();
        self.unconfirmed.clear();
        let questions = self.questions.drain();
        self.out
            .extend(questions.map(|(question, _)| Output::TakenBack(question)));
    }

    fn fail(&mut self, id: i64, error: RpcError) {
        self.pending.remove(&id);
        self.out.push_back(Output::Done(id, Err(error)));
    }

    /// Returns whether the server has opened, so that calls can be made.
    pub fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Open(_))
    }

    fn tell(&mut self, method: &str, params: &impl serde::Serialize) {
        let line = jsonrpc::notification(method, params);
        self.out.push_back(Output::Send(line.into()));
    }

    /// Sends a request of the conversation itself.
    fn ask(&mut self, method: &str, params: &impl serde::Serialize) -> i64 {
        let id = self.ids.next();
        let mut text = Vec::new();
        jsonrpc::append(&mut text, params);
        let line = jsonrpc::request_with(&id.into(), method, &text);
        self.out.push_back(Output::Send(line.into()));
        id
    }
}

/// A request that was lost with this number of servers in a row is given up, because the servers may die of it.
const MOST_LOSSES: u32 = 3;
