//! Admits callers on sockets that need to know them: the first line must tell who calls, and nothing is read before it.

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use lmcp_wire::{
    RpcError,
    framing::{Frame, Framer},
    greeting::{Greeting, Welcome},
    jsonrpc,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    time::timeout,
};

use crate::{
    authenticate::Authenticator,
    caller::Caller,
    limits::Limits,
    peer::{Peer, Process},
    throttle::Throttle,
};

/// Decides who connects to a unix socket, by the token of the first line.
pub trait Gate: Send + Sync + 'static {
    /// Decides who the holder of this token is. `peer` has shown the token. A refused peer is told the words of the error, and
    /// its connection ends.
    fn admit<'a>(&'a self, token: &'a str, peer: &'a Peer) -> Admitting<'a>;

    /// Tells the gate that a caller which it admitted was welcomed. Its connection begins.
    fn entered(&self, caller: &Caller) {
        let _ = caller;
    }

    /// Tells the gate that the connection of such a caller has ended.
    fn left(&self, caller: &Caller) {
        let _ = caller;
    }

    /// Tells the gate who was refused and why: by the gate itself, or because of a missing or wrong greeting.
    fn refused(&self, process: Process, why: &RpcError) {
        let _ = (process, why);
    }
}

/// A connection that a gate admitted. The gate is told of its beginning and its end, however it ends.
pub(super) struct Entered {
    gate: Arc<dyn Gate>,
    caller: Caller,
}

impl Entered {
    pub(super) fn new(gate: &Arc<dyn Gate>, caller: &Caller) -> Self {
        gate.entered(caller);
        Self {
            gate: Arc::clone(gate),
            caller: caller.clone(),
        }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.gate.left(&self.caller);
    }
}

/// A future of the decision of a [`Gate`]. The connection ends when its caller is [gone](Caller::gone).
pub type Admitting<'a> = Pin<Box<dyn Future<Output = Result<Caller, RpcError>> + Send + 'a>>;

/// Logs refused connections. A process that tries again and again does not fill the log.
#[derive(Default)]
pub(super) struct Refusals(Mutex<Throttle>);

impl Refusals {
    pub(super) fn log(&self, Process { uid, pid }: Process, error: &RpcError) {
        let mut throttle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(times) = throttle.count() {
            let words = &error.message;
            tracing::warn!(pid, uid, times, "a connection was not let in: {words}");
        }
    }
}

/// Decides who may connect.
#[derive(Clone)]
pub(super) enum Keeper {
    /// A gate: every caller must greet, and the token of the greeting tells who calls.
    Gate(Arc<dyn Gate>),
    /// The program: it decides by the process, and by the token of a greeting if the caller sends one.
    Authenticator(Authenticator),
}

/// The longest greeting. No real one is so long.
const GREETING_BYTES: usize = 4096;

/// Asks the program who connected, with the token if the first line is a greeting. Any other line is left in the framer.
/// `greeted` is set as soon as a line came, or the wait is over: a peer may be silent for long.
pub(super) async fn ask(
    authenticator: &Authenticator,
    caller: Caller,
    (reader, writer): (
        &mut (impl AsyncRead + Unpin),
        &mut (impl AsyncWrite + Unpin),
    ),
    (greeted, refusals): (&AtomicBool, &Refusals),
    limits: &Limits,
) -> Option<(Caller, Framer)> {
    let mut framer = Framer::new(limits.line_bytes);
    let line = timeout(limits.header_wait, greeting(reader, &mut framer)).await;
    let greeting = match line {
        Ok(Some(greeting)) => greeting,
        // The peer closed the connection without a word.
        Ok(None) => return None,
        Err(_) => None,
    };
    greeted.store(true, Ordering::Relaxed);
    let process = caller.peer();
    let shown = match &greeting {
        Some(greeting) => caller.showing(greeting.token()),
        None => caller,
    };
    let asked = timeout(limits.auth_wait, authenticator.ask(shown)).await;
    let mut said = Vec::new();
    let passed = match asked {
        Ok(Ok(caller)) => {
            if greeting.is_some_and(|greeting| greeting.wants_welcome()) {
                let name = caller.principal().unwrap_or("anyone");
                let welcome = Welcome::new(name, name, caller.role().unwrap_or_default());
                jsonrpc::append(&mut said, &welcome);
                said.push(b'\n');
            }
            Some((caller, framer))
        }
        refused => {
            let error = match refused {
                Ok(Err(challenge)) => challenge.error().clone(),
                _ => RpcError::internal("nobody could tell in time who calls"),
            };
            if let Some(process) = process {
                refusals.log(process, &error);
            }
            said = jsonrpc::error(None, &error);
            said.push(b'\n');
            None
        }
    };
    let written = timeout(limits.header_wait, writer.write_all(&said)).await;
    passed.filter(|_| matches!(written, Ok(Ok(()))))
}

/// Reads the first line, and returns the greeting if it is one. `None`: the peer sent nothing.
async fn greeting(
    reader: &mut (impl AsyncRead + Unpin),
    framer: &mut Framer,
) -> Option<Option<Greeting>> {
    loop {
        let (read, is_empty) = {
            let buffer = framer.buffer();
            let end = memchr::memchr(b'\n', buffer);
            if let Some(end) = end.filter(|end| *end <= GREETING_BYTES) {
                let greeting = Greeting::parse(&buffer[..end]);
                if greeting.is_some() {
                    buffer.drain(..=end);
                }
                return Some(greeting);
            }
            if buffer.len() > GREETING_BYTES {
                return Some(None);
            }
            let before = buffer.len();
            (reader.read_buf(buffer).await, before == 0)
        };
        match read {
            Ok(1..) => {}
            // The last line is answered although it has no end.
            _ if !is_empty => return Some(None),
            _ => return None,
        }
    }
}

/// Reads the first line and asks the gate. The bytes after the line are left in the framer. `greeted` is set as soon as the
/// peer has greeted, however long the gate takes.
pub(super) async fn pass(
    gate: &Arc<dyn Gate>,
    peer: Peer,
    (reader, writer): (
        &mut (impl AsyncRead + Unpin),
        &mut (impl AsyncWrite + Unpin),
    ),
    (greeted, refusals): (&AtomicBool, &Refusals),
    limits: &Limits,
) -> Option<(Caller, Framer)> {
    let mut framer = Framer::new(GREETING_BYTES);
    let line = timeout(limits.header_wait, first_line(reader, &mut framer)).await;
    let admitted = match line {
        Ok(Some(Ok(line))) => match Greeting::parse(&line) {
            Some(greeting) => {
                greeted.store(true, Ordering::Relaxed);
                let admitted = gate.admit(greeting.token(), &peer).await;
                admitted.map(|caller| (caller, greeting.wants_welcome()))
            }
            None => Err(RpcError::invalid_request(
                "the first line on this socket must say who calls: {\"lmcp_identity\": TOKEN}",
            )),
        },
        Ok(Some(Err(_))) => Err(RpcError::invalid_request(format!(
            "a greeting has at most {GREETING_BYTES} bytes"
        ))),
        // The peer closed the connection without a word: some program checked whether the socket is alive.
        Ok(None) => return None,
        Err(_) => Err(RpcError::invalid_request(
            "nobody said who calls on this connection, in time",
        )),
    };
    let mut said = Vec::new();
    let passed = match admitted {
        Ok((caller, wants_welcome)) => {
            if let Some(identity) = caller.identity().filter(|_| wants_welcome) {
                let welcome = Welcome::new(&identity.id, &identity.label, &identity.role);
                jsonrpc::append(&mut said, &welcome.with(&identity.fields));
                said.push(b'\n');
            }
            framer.set_limit(limits.line_bytes);
            Some((caller, framer))
        }
        Err(error) => {
            refusals.log(peer.process(), &error);
            gate.refused(peer.process(), &error);
            said = jsonrpc::error(None, &error);
            said.push(b'\n');
            None
        }
    };
    // A peer that does not take this one line will take nothing else.
    let written = timeout(limits.header_wait, writer.write_all(&said)).await;
    passed.filter(|_| matches!(written, Ok(Ok(()))))
}

async fn first_line(reader: &mut (impl AsyncRead + Unpin), framer: &mut Framer) -> Option<Frame> {
    loop {
        if let Some(frame) = framer.next_frame() {
            return Some(frame);
        }
        let has_more = !framer.is_past_limit() && framer.blank_bytes() <= GREETING_BYTES;
        if !has_more || !matches!(reader.read_buf(framer.buffer()).await, Ok(1..)) {
            return framer.last_frame();
        }
    }
}
