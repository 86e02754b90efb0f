//! Who may come in, on sockets that want to know: the first line says it, and nothing is read before that.

use std::{pin::Pin, sync::Arc};

use lmcp_wire::{
    RpcError,
    greeting::{Greeting, Welcome},
    jsonrpc,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    time::timeout,
};

use super::framing::{Frame, Framer};
use crate::{
    caller::{Caller, Process},
    limits::Limits,
};

/// Decides who is at the other end of a connection.
pub trait Gate: Send + Sync + 'static {
    /// Whom a token belongs to, shown by this process.
    ///
    /// What is refused is told to the peer in the error's words, and the connection ends: nobody comes in as a
    /// stranger.
    fn admit<'a>(&'a self, token: &'a str, peer: Process) -> Admitting<'a>;
}

/// The answer of a [`Gate`], which may have to wait for somebody.
pub type Admitting<'a> = Pin<Box<dyn Future<Output = Result<Admission, RpcError>> + Send + 'a>>;

/// Somebody who may come in.
pub struct Admission {
    pub(crate) caller: Caller,
    pub(crate) over: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Admission {
    /// This caller may come in, and stay until the future ends.
    pub fn new(caller: Caller, over: impl Future<Output = ()> + Send + 'static) -> Self {
        Self {
            caller,
            over: Box::pin(over),
        }
    }
}

impl std::fmt::Debug for Admission {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Admission").field(&self.caller).finish()
    }
}

/// Longer than any greeting.
const GREETING_BYTES: usize = 4096;

/// Reads the first line and asks the gate. What was read behind it is left in the framer.
pub(super) async fn pass(
    gate: &Arc<dyn Gate>,
    peer: Process,
    reader: &mut (impl AsyncRead + Unpin),
    writer: &mut (impl AsyncWrite + Unpin),
    limits: &Limits,
) -> Option<(Admission, Framer)> {
    let mut framer = Framer::new(GREETING_BYTES);
    let line = timeout(limits.header_wait, first_line(reader, &mut framer)).await;
    let admitted = match line {
        Ok(Some(Frame::Line(line))) => match Greeting::parse(&line) {
            Some(greeting) => {
                let admitted = gate.admit(greeting.token(), peer).await;
                admitted.map(|admission| (admission, greeting.wants_welcome()))
            }
            None => Err(RpcError::invalid_request(
                "the first line on this socket must say who calls: {\"lmcp_identity\": TOKEN}",
            )),
        },
        Ok(Some(Frame::TooLong)) => Err(RpcError::invalid_request(format!(
            "a greeting has at most {GREETING_BYTES} bytes"
        ))),
        // It went away without a word: somebody looked whether the socket is alive.
        Ok(None) => return None,
        Err(_) => Err(RpcError::invalid_request(
            "nobody said who calls on this connection, in time",
        )),
    };
    let mut said = Vec::new();
    let passed = match admitted {
        Ok((admission, wants_welcome)) => {
            if let Some(identity) = admission.caller.identity().filter(|_| wants_welcome) {
                let welcome = Welcome::new(&identity.id, &identity.label, &identity.role);
                jsonrpc::append(&mut said, &welcome);
                said.push(b'\n');
            }
            framer.set_limit(limits.line_bytes);
            Some((admission, framer))
        }
        Err(error) => {
            tracing::warn!(pid = peer.pid, uid = peer.uid, "refused: {}", error.message);
            said = jsonrpc::error(None, &error);
            said.push(b'\n');
            None
        }
    };
    // A peer that does not take a line of greeting will take nothing else.
    let written = timeout(limits.header_wait, writer.write_all(&said)).await;
    passed.filter(|_| matches!(written, Ok(Ok(()))))
}

async fn first_line(reader: &mut (impl AsyncRead + Unpin), framer: &mut Framer) -> Option<Frame> {
    loop {
        if let Some(frame) = framer.next_frame() {
            return Some(frame);
        }
        if !matches!(reader.read_buf(framer.buffer()).await, Ok(1..)) {
            return framer.last_frame();
        }
    }
}
