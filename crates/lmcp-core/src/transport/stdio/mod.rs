//! Standard input and output.
//!
//! A thread reads, because there is no other way to wait for standard input. A second thread writes once an answer does not fit
//! into the pipe at once. The system calls for both are in `unix.rs` and `windows.rs`.

#[cfg_attr(unix, path = "unix.rs")]
#[cfg_attr(windows, path = "windows.rs")]
mod ends;

use std::{
    io::{self, IsTerminal as _, Write as _},
    sync::{Arc, Mutex, PoisonError, Weak},
    thread,
    time::Duration,
};

use lmcp_wire::framing::Framer;
use tokio::{
    runtime,
    sync::{mpsc, oneshot, watch},
};

use super::{
    intake::{Frame, Intake},
    lines::{Connection, Lines},
    outgoing::Outgoing,
};
use crate::{
    budget::Account,
    caller::{self, Caller},
    endpoint::{Endpoint, Transport},
    error::Error,
};
use ends::{Input, Output, take_over};

/// Serves on standard input and output, until the input ends.
///
/// ```no_run
/// # async fn run(server: lmcp::Server) -> Result<(), lmcp::Error> {
/// server.serve(lmcp::stdio()).await
/// # }
/// ```
///
/// The protocol owns both streams while the server runs. On unix, from the moment that `serve` runs, lmcp takes them from the rest of
/// the program: a stray `println!` goes to standard error, reading standard input gives nothing, and child processes get the same. Print
/// nothing to standard output before `serve`, and on Windows nothing at all: the client would read it as a message.
///
/// A person who starts the program on a terminal reads on standard error that it waits for a client.
pub fn stdio() -> Stdio {
    Stdio(())
}

/// See [`stdio`].
#[derive(Debug)]
pub struct Stdio(());

impl Transport for Stdio {
    async fn serve(self, server: Endpoint) -> Result<(), Error> {
        if io::stdin().is_terminal() {
            let words = "waiting for an MCP client on standard input; Ctrl-D ends the server";
            let _ = writeln!(io::stderr(), "{words}");
        }
        let (input, output) =
            take_over().map_err(|err| Error::io("cannot take over stdin and stdout", err))?;
        let mut limits = server.limits().clone();
        limits.drain_wait = limits.input_wait;
        let caller = Caller::new(caller::Transport::Stdio);
        let (batches, received) = mpsc::channel(2);
        let (written, all_written) = oneshot::channel();
        let limit = limits.line_bytes;
        let watched = input
            .watch()
            .map_err(|err| Error::io("cannot watch stdin", err))?;
        let account = server.budget().account(&caller.payer());
        let intake = Intake::new(Framer::new(limit), account.clone(), &limits);
        let runtime = runtime::Handle::current();
        start("lmcp-stdin", move || {
            read(&input, intake, &runtime, &batches)
        })?;
        let out = outgoing(output, limits.outgoing_bytes, account.clone(), written);
        let lines = Batches {
            received,
            batch: Vec::new().into_iter(),
        };
        let (_open, closing) = watch::channel(None);
        let stall_wait = limits.stall_wait;
        let connection = Connection::new(server, caller, account, limits, Arc::clone(&out));
        let served = async {
            connection.run(lines, closing).await;
            // If a writer was needed, it still has the last answers.
            match all_written.await {
                Ok(Err(err)) => Err(Error::io("not every answer could be written", err)),
                Ok(Ok(())) | Err(_) => Ok(()),
            }
        };
        let unread = async {
            loop {
                out.stalled(stall_wait).await;
                if watched.has_ended() {
                    return;
                }
            }
        };
        tokio::select! {
            served = served => served,
            // The client has closed our input and does not read. It must not keep the server alive.
            () = unread => {
                let nobody = io::ErrorKind::BrokenPipe.into();
                Err(Error::io("the last answers were not read", nobody))
            }
        }
    }
}

/// Makes the buffer for stdout. A short answer is written at once, if it fits into the pipe. The thread that waits for a slow
/// reader is started only when a line has to wait.
fn outgoing(output: Output, enough: usize, account: Account, written: Written) -> Arc<Outgoing> {
    Arc::new_cyclic(|outgoing: &Weak<Outgoing>| {
        let (output, outgoing) = (Arc::new(output), Weak::clone(outgoing));
        let direct = Arc::clone(&output);
        let write_now = move |bytes: &[u8]| direct.write_now(bytes);
        let start_writer = move || {
            let Some(outgoing) = outgoing.upgrade() else {
                return;
            };
            let writer = Writer(Arc::new(Mutex::new(Some((written, output, outgoing)))));
            if !writer.start() {
                // This user may start no more threads now. The lines wait until one can be started.
                runtime::Handle::current().spawn(writer.start_later());
            }
        };
        Outgoing::with_direct(enough, account, Box::new(write_now), Box::new(start_writer))
    })
}

/// The thread that writes, before it runs.
struct Writer(Arc<Mutex<Option<Needed>>>);

/// The channel for the result of the writer, the output, and the buffer with the lines.
type Needed = (Written, Arc<Output>, Arc<Outgoing>);

impl Writer {
    /// Tries to start the thread, and returns whether that succeeded.
    fn start(&self) -> bool {
        let needed = Arc::clone(&self.0);
        let work = move || {
            let mut needed = needed.lock().unwrap_or_else(PoisonError::into_inner);
            let Some((written, output, outgoing)) = needed.take() else {
                return;
            };
            drop(needed);
            let _ = written.send(write(&output, &outgoing));
        };
        start("lmcp-stdout", work).is_ok()
    }

    async fn start_later(self) {
        while !self.start() {
            tokio::time::sleep(AGAIN).await;
        }
    }
}

/// The time between two tries to start a thread.
const AGAIN: Duration = Duration::from_millis(50);

fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Error> {
    // Each thread holds one buffer only, so the stack of an ordinary thread would be a waste.
    let thread = thread::Builder::new()
        .name(name.into())
        .stack_size(128 << 10)
        .spawn(work);
    thread
        .map(drop)
        .map_err(|err| Error::io("cannot start a thread for stdio", err))
}

/// Reads lines until the input ends or nobody takes them. The lines of one read are handed over at once.
fn read(
    input: &Input,
    mut intake: Intake,
    runtime: &runtime::Handle,
    batches: &mpsc::Sender<Vec<Frame>>,
) {
    loop {
        let count = input.read(intake.buffer());
        let mut batch: Vec<_> = std::iter::from_fn(|| intake.next_frame()).collect();
        if count == 0 {
            batch.extend(intake.last_frame());
        } else if intake.needs_room() {
            batch.extend(runtime.block_on(intake.make_room()));
        }
        if !batch.is_empty() && batches.blocking_send(batch).is_err() || count == 0 {
            return;
        }
    }
}

/// Writes messages until there are no more, or the reader is gone. Waiting messages go out in one write.
fn write(output: &Output, outgoing: &Outgoing) -> io::Result<()> {
    let mut lines = Vec::new();
    while outgoing.take_blocking(&mut lines) {
        let mut rest = &lines[..];
        while !rest.is_empty() {
            match output.write(rest) {
                Ok(count @ 1..) => {
                    rest = &rest[count..];
                    outgoing.progressed();
                }
                failed => {
                    outgoing.abandon();
                    return failed.and(Err(io::ErrorKind::WriteZero.into()));
                }
            }
        }
    }
    outgoing.abandon();
    Ok(())
}

/// The channel for the result of the writer.
type Written = oneshot::Sender<io::Result<()>>;

/// The most bytes of one read.
const MOST_AT_ONCE: usize = 32 << 10;

struct Batches {
    received: mpsc::Receiver<Vec<Frame>>,
    batch: std::vec::IntoIter<Frame>,
}

impl Lines for Batches {
    fn has_more(&self) -> bool {
        self.batch.len() > 0
    }

    async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.batch.next() {
                return Some(frame);
            }
            self.batch = self.received.recv().await?.into_iter();
        }
    }
}
