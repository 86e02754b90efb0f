//! A conversation with a server, without I/O: lines of the server and wishes of callers go in, lines to the server and
//! news for callers come out.
//!
//! It opens with whatever the server knows, `server/discover` or a handshake, and opens again in the same way with the next
//! server. Calls have ids that are never used twice, so callers need not agree on any. What a lost server had not been
//! sent waits for the next one, and so does what changes nothing.

mod failures;
mod hearing;
mod opening;
#[cfg(test)]
mod tests;
mod wishes;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
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

/// Who this client says it is.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Profile {
    /// Its name and version.
    pub info: Implementation,
    /// What it can be asked for. Told in a handshake; where there is none, every request tells its own.
    pub capabilities: ClientCapabilities,
    /// The revision to be spoken. `None`: the newest that the server knows.
    pub pinned: Option<ProtocolVersion>,
    /// Does it tell its own callers apart for the server? By [`meta::FOR`](lmcp_wire::meta::FOR), with every request.
    pub names_callers: bool,
}

impl Profile {
    /// Somebody who can be asked nothing.
    pub fn new(info: Implementation) -> Self {
        Self {
            info,
            capabilities: ClientCapabilities::default(),
            pinned: None,
            names_callers: false,
        }
    }

    /// Can it be asked nothing at all?
    pub fn asks_nobody(&self) -> bool {
        self.capabilities == ClientCapabilities::default()
    }
}

/// The server at the other end, as it opened.
#[derive(Debug)]
#[non_exhaustive]
pub struct Peer {
    /// The revision that is spoken with it.
    pub version: ProtocolVersion,
    /// The result of `server/discover` or of the handshake.
    pub result: Box<RawValue>,
    /// Which lists it offers, and whether it logs. Anything else is in the result only.
    pub capabilities: ServerCapabilities,
}

/// The ids of calls, shared by whoever makes some.
#[derive(Clone, Debug)]
pub struct Ids(Arc<AtomicI64>);

impl Default for Ids {
    fn default() -> Self {
        Self(Arc::new(AtomicI64::new(1)))
    }
}

impl Ids {
    /// One that nobody has.
    #[must_use]
    pub fn next(&self) -> i64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// What is to be sent for a caller.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Call {
    /// From [`Ids`]. It is the progress token, too.
    pub id: i64,
    /// The whole request, without line breaks. It is let go of once it is sent, unless it may be sent again.
    pub line: Bytes,
    /// What is wanted.
    pub method: Box<str>,
    /// The line is written for a server with sessions, or for one without.
    pub has_session: bool,
}

impl Call {
    /// A request with these parameters, an object.
    pub fn new(id: i64, method: &str, params: &[u8], peer: &Peer) -> Self {
        let line = jsonrpc::request_with(&id.into(), method, params);
        Self::written(id, method, line, peer)
    }

    /// The whole request, as it is written for this server.
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

/// What comes of it.
#[derive(Debug)]
#[non_exhaustive]
pub enum Output {
    /// A line for the server.
    Send(Bytes),
    /// The server has opened, and calls can be made.
    Ready(Arc<Peer>),
    /// The server cannot be spoken with.
    Unfit(RpcError),
    /// How far a call has got.
    Progress(i64, ProgressParams),
    /// How a call ended.
    Done(i64, Result<Box<RawValue>, RpcError>),
    /// A notification that belongs to no call.
    Heard(Box<str>, Box<RawValue>),
    /// A question of the server, by a number of ours: its method and its parameters.
    Asked(u64, Box<str>, Box<RawValue>),
    /// A question need not be answered any more.
    TakenBack(u64),
    /// The server has confirmed all that is wished for.
    Granted,
}

/// A call that has no answer.
#[derive(Debug)]
struct Pending {
    call: Call,
    is_sent: bool,
    /// So many servers went away that had it.
    losses: u32,
}

/// A question of the server that has no answer.
#[derive(Debug)]
struct Question {
    id: RequestId,
    /// How long it is.
    bytes: usize,
}

/// A conversation.
#[derive(Debug)]
pub struct Conversation {
    profile: Profile,
    ids: Ids,
    stage: Stage,
    /// How the last server was opened; the next one is tried in the same way first.
    known: Option<ProtocolVersion>,
    pending: BTreeMap<i64, Pending>,
    wishes: Wishes,
    /// What the server was told of the wishes.
    told: wishes::Told,
    /// The stream on which a server of 2026-07-28 tells of changes.
    listening: Option<i64>,
    /// Those before it: each goes on until the next one has begun, so that nothing is missed in between.
    retiring: Vec<i64>,
    /// What the server was told of the wishes, and has not confirmed.
    unconfirmed: BTreeSet<i64>,
    /// Questions of the server by our number.
    questions: HashMap<u64, Question>,
    next_question: u64,
    /// What the server wrote since its last message, in bytes.
    rubbish: usize,
    out: VecDeque<Output>,
}

impl Conversation {
    /// Nobody is connected yet.
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
            unconfirmed: BTreeSet::new(),
            questions: HashMap::new(),
            next_question: 0,
            rubbish: 0,
            out: VecDeque::new(),
        }
    }

    /// What is to be done next; `None`: nothing, until something is put in.
    pub fn output(&mut self) -> Option<Output> {
        if self.out.is_empty() {
            self.tell_wishes();
        }
        self.out.pop_front()
    }

    /// Does somebody wait for a server? A log level alone is no reason for one: every call of an older revision leaves its own.
    pub fn wants_server(&self) -> bool {
        !self.pending.is_empty() || self.wishes.has_changes()
    }

    /// A call is to be made.
    pub fn call(&mut self, call: Call) {
        self.begin(Pending {
            call,
            is_sent: false,
            losses: 0,
        });
    }

    /// Sends a call, or has it wait for a server.
    fn begin(&mut self, mut pending: Pending) {
        // What was wished for before the call is told before it: from which level on it shall log, for one.
        self.tell_wishes();
        if let Stage::Open(peer) = &self.stage {
            if peer.version.has_handshake() != pending.call.has_session {
                return self.fail(pending.call.id, failures::changed(&pending.call.method));
            }
            pending.is_sent = true;
            let line = match request::only_reads(&pending.call.method) {
                true => pending.call.line.clone(),
                // It may be long. Where the server does not look at it, it comes back.
                false => std::mem::take(&mut pending.call.line),
            };
            self.out.push_back(Output::Send(line));
        }
        self.pending.insert(pending.call.id, pending);
    }

    /// Nobody waits for a call any more.
    pub fn cancel(&mut self, id: i64) {
        let Some(pending) = self.pending.remove(&id) else {
            return;
        };
        if pending.is_sent && self.is_open() {
            let params = CancelledParams::new(id.into());
            self.tell(notification::CANCELLED, &params);
        }
    }

    /// The answer to a question of the server.
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

    /// Tells the server something, if it is there.
    pub fn notify(&mut self, method: &str) {
        if self.is_open() {
            self.tell(method, &serde_json::json!({}));
        }
    }

    /// A line that the server has not looked at.
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

    /// The server is gone.
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

    /// Nobody will be there soon: whoever waits is told.
    pub fn give_up(&mut self, error: &RpcError) {
        let waiting: Vec<_> = self.pending.keys().copied().collect();
        waiting
            .into_iter()
            .for_each(|id| self.fail(id, error.clone()));
    }

    /// Has the server written more than [`RUBBISH_BYTES`] without a message in it?
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

    /// Has the server opened, and can calls be made?
    pub fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Open(_))
    }

    fn tell(&mut self, method: &str, params: &impl serde::Serialize) {
        let line = jsonrpc::notification(method, params);
        self.out.push_back(Output::Send(line.into()));
    }

    /// A request of the conversation's own.
    fn ask(&mut self, method: &str, params: &impl serde::Serialize) -> i64 {
        let id = self.ids.next();
        let mut text = Vec::new();
        jsonrpc::append(&mut text, params);
        let line = jsonrpc::request_with(&id.into(), method, &text);
        self.out.push_back(Output::Send(line.into()));
        id
    }
}

/// A request that so many servers in a row went away from is given up: they may die of it.
const MOST_LOSSES: u32 = 3;
