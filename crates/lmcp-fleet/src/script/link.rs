//! One connection: a shell at the other end of a command, which makes one call at a time.
//!
//! Several calls in one shell would have to share its output, and a shell cannot write whole messages; a new connection for
//! every call would be slow to open. So connections are kept and used again, and a slow call has one for itself (`pool.rs`).
//! The shell starts a call as a separate process and reads on. So the shell notices at once when the hub is gone, and ends
//! the call (`far/open.sh`): a call is cancelled by dropping its connection.

use std::{
    ffi::OsString,
    io,
    process::Stdio,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use lmcp_core::{Account, CALL_BYTES, Reservation, Server, Tasks, ToolError, ToolResult};
use lmcp_wire::RpcError;
use memchr::memmem;
use serde_json::json;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, ReadBuf},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    time::timeout,
};

use super::{
    facts::Facts,
    parts::Answer,
    quote::{Coding, encoded, line, word},
};
use crate::limits::{CLOSE_TIME, COMPLAINT_BYTES, NOISE_BYTES, OPEN_TIME, REPLY_BYTES};

/// The scripts that are defined on every connection.
const FIND: &str = include_str!("far/find.sh");
const OPEN: &str = include_str!("far/open.sh");
const COMMANDS: &str = include_str!("far/commands.sh");
const FILES: &str = include_str!("far/files.sh");
const COPY: &str = include_str!("far/copy.sh");
/// The scripts that run outside of the shell of a connection.
const GUARD: &str = include_str!("far/guard.sh");
const SIEVE: &str = include_str!("far/sieve.sh");

/// The longest text that is sent as a word, in bytes.
const SHORT: usize = 16 * 1024;

/// The number of bytes that are encoded and sent at once: whole lines.
const AT_ONCE: usize = 48 * 1024;

/// The smallest step by which the read buffer grows, in bytes.
const LEAST_READ: usize = 4 * 1024;

/// The longest exit code, in bytes: it is a number.
const CODE_BYTES: usize = 64;

/// A program, with its arguments, that gives a shell of a host.
#[derive(Clone, Debug)]
pub(super) struct Way {
    pub(super) program: OsString,
    pub(super) args: Vec<OsString>,
}

/// A connection that is free or makes one call.
#[derive(Debug)]
pub(super) struct Link {
    /// `None` when the connection is closed.
    process: Option<Child>,
    input: Option<ChildStdin>,
    output: ChildStdout,
    errors: Option<ChildStderr>,
    /// Bytes that were read and belong to no call yet.
    read: Vec<u8>,
    /// The end of the standard error of the program.
    complaints: Vec<u8>,
    mark: String,
    /// The number of the last call.
    number: u64,
    /// The call whose beginning was read.
    begun: Option<u64>,
    pub(super) facts: Arc<Facts>,
    /// The tasks that wait for the program when this is dropped.
    closing: Arc<Tasks>,
    /// The account that pays for the output of the host.
    account: Option<Account>,
    /// The part of the account that `read` takes.
    counted: Option<Reservation>,
}

/// The name of data that a command reads: it is in no file with a name, and the function of the call has it as descriptor 5.
pub(super) const INPUT: &str = "in";

/// The parts of a call.
#[derive(Debug, Default)]
pub(super) struct Call<'a> {
    /// The data that the call needs as files, with their names.
    pub(super) taken: Vec<(&'a str, &'a [u8])>,
    /// The job that ends with the connection, unless it is kept.
    pub(super) current: Option<&'a str>,
    /// A function of the scripts.
    pub(super) function: &'a str,
    pub(super) words: Vec<&'a str>,
}

impl Link {
    /// Starts the program, and waits for its shell.
    ///
    /// # Errors
    /// The program does not start, is not a shell, or takes too long. The error has its own words.
    pub(super) async fn open(way: &Way, closing: Arc<Tasks>) -> ToolResult<Self> {
        let mut link = Self::start(way, closing)?;
        match timeout(OPEN_TIME, link.greet()).await {
            Ok(Ok(())) => Ok(link),
            Ok(Err(err)) => Err(unreached(link.last_words("no shell answers", err).await)),
            Err(_) => {
                let late = io::Error::other(format!("nothing within {} s", OPEN_TIME.as_secs()));
                Err(unreached(link.last_words("no shell answers", late).await))
            }
        }
    }

    fn start(way: &Way, closing: Arc<Tasks>) -> ToolResult<Self> {
        let name = way.program.to_string_lossy();
        let cannot = |err: io::Error| unreached(format!("cannot start `{name}`: {err}"));
        let mut command = Command::new(&way.program);
        command.args(&way.args);
        for name in lmcp_private::own_variables() {
            command.env_remove(name);
        }
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // The interrupt of a terminal is for us, and not for the programs that we started.
            .process_group(0)
            .spawn()
            .map_err(cannot)?;
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(unreached(format!("`{name}` has no standard input")));
        };
        let key = Server::random_key();
        Ok(Self {
            input: Some(input),
            output,
            errors: process.stderr.take(),
            process: Some(process),
            read: Vec::new(),
            complaints: Vec::new(),
            mark: key
                .iter()
                .take(16)
                .map(|byte| format!("{byte:02x}"))
                .collect(),
            number: 0,
            begun: None,
            facts: Arc::default(),
            closing,
            account: None,
            counted: None,
        })
    }

    /// Starts bash if the host has it, because only bash has job control without a terminal. Then sends the scripts that
    /// calls need.
    async fn greet(&mut self) -> io::Result<()> {
        let mark = self.mark.clone();
        let first = format!(
            "{{ printf '\\n%s\\n' '{mark} shell'; if command -v bash >/dev/null 2>&1; then unset BASH_ENV; exec bash; fi; }}\n"
        );
        self.send(&first).await?;
        // Nothing more is sent before this answer: otherwise the first shell could read it before the next shell takes over.
        let (_, after) = self.find(&format!("\n{mark} shell\n"), NOISE_BYTES).await?;
        self.read.drain(..after);
        let (guard, sieve) = (word(&format!("{FIND}\n{GUARD}")), word(SIEVE));
        let all = format!(
            "LMCP_MARK={mark}\nfar_guard={guard}\nfar_sieve={sieve}\n{FIND}\n{COMMANDS}\n{FILES}\n{COPY}\n{OPEN}\n"
        );
        self.send(&all).await?;
        let answer = self.answer(0, NOISE_BYTES).await?;
        self.facts = Arc::new(Facts::read(&answer).ok_or_else(|| {
            io::Error::other("it says nothing of its host; is it a POSIX shell?")
        })?);
        Ok(())
    }

    /// Makes a call, and returns its output.
    ///
    /// # Errors
    /// The connection was lost: nobody knows how far the call got.
    pub(super) async fn call(&mut self, call: &Call<'_>) -> ToolResult<Answer> {
        let number = self.begin(call, "far_call").await?;
        self.end(number).await
    }

    /// Begins a call; [`Link::end`] waits for its end.
    pub(super) async fn begin(&mut self, call: &Call<'_>, how: &str) -> ToolResult<u64> {
        self.number += 1;
        for (name, bytes) in &call.taken {
            if let Err(err) = self.give(name, bytes).await {
                return Err(self.lost(err).await);
            }
        }
        let mut text = String::new();
        if let Some(id) = call.current {
            text.push_str(&format!("far_current={}\n", word(id)));
        }
        let number = self.number.to_string();
        let words = [number.as_str(), call.function].into_iter();
        text.push_str(&line(how, words.chain(call.words.iter().copied())));
        match self.send(&text).await {
            Ok(()) => Ok(self.number),
            Err(err) => Err(self.lost(err).await),
        }
    }

    /// Sends data that a call needs as a file, or as its input. Long data is encoded in parts.
    async fn give(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        // Short text needs no program to decode it.
        let short = Some(bytes).filter(|bytes| bytes.len() <= SHORT && !bytes.contains(&0));
        if let Some(short) = short.and_then(|bytes| std::str::from_utf8(bytes).ok()) {
            let short = word(short);
            let line = match name {
                INPUT => format!("far_open_input && printf %s {short} >&4; exec 4>&-\n"),
                name => format!("(umask 077; printf %s {short} >\"$far_tmp/{name}\")\n"),
            };
            return self.send(&line).await;
        }
        let (end, coding) = (self.mark.clone(), self.facts.coding);
        let take = match name {
            INPUT => "far_take_input".to_owned(),
            name => format!("far_take {name}"),
        };
        self.send(&format!("{take} <<'{end}'\n")).await?;
        for part in bytes.chunks(AT_ONCE) {
            self.send(&encoded(part, coding)).await?;
        }
        self.send(&format!("{end}\n")).await
    }

    /// Waits until a call begins. Before that, the host takes in the data of the call.
    pub(super) async fn begun(&mut self, number: u64) -> ToolResult<()> {
        match self.beginning(number, REPLY_BYTES).await {
            Ok(()) => Ok(()),
            Err(err) => Err(self.lost(err).await),
        }
    }

    /// Waits for the end of a call.
    ///
    /// # Cancellation
    /// Bytes that were read are kept, so the call can be waited for again.
    pub(super) async fn end(&mut self, number: u64) -> ToolResult<Answer> {
        match self.answer(number, REPLY_BYTES).await {
            Ok(answer) => Ok(answer),
            Err(err) => Err(self.lost(err).await),
        }
    }

    /// Ends the call that runs, and makes another. Also returns the output of the first call, if it had just ended.
    pub(super) async fn cut(&mut self, call: &Call<'_>) -> ToolResult<(Option<Answer>, Answer)> {
        let before = self.number;
        let number = self.begin(call, "far_cut").await?;
        let wait = async {
            let begin = format!("\n{} begin {number}\n", self.mark);
            let (at, _) = self.find(&begin, REPLY_BYTES).await?;
            let end = format!("\n{} end {before} ", self.mark);
            let had_ended = memmem::find(self.read.get(..at).unwrap_or_default(), end.as_bytes());
            let first = match had_ended {
                Some(_) => Some(self.answer(before, REPLY_BYTES).await?),
                None => None,
            };
            io::Result::Ok((first, self.answer(number, REPLY_BYTES).await?))
        };
        match wait.await {
            Ok(answers) => Ok(answers),
            Err(err) => Err(self.lost(err).await),
        }
    }

    /// Sends the shell a text that has no answer.
    pub(super) async fn tell(&mut self, text: &str) -> ToolResult<()> {
        match self.send(text).await {
            Ok(()) => Ok(()),
            Err(err) => Err(self.lost(err).await),
        }
    }

    /// Returns whether the other end is there, as far as that is known without asking.
    pub(super) fn is_there(&mut self) -> bool {
        let mut space = [0; 512];
        let mut read = ReadBuf::new(&mut space);
        let mut context = Context::from_waker(Waker::noop());
        match std::pin::Pin::new(&mut self.output).poll_read(&mut context, &mut read) {
            Poll::Pending => true,
            Poll::Ready(Ok(())) if !read.filled().is_empty() => {
                self.read.extend_from_slice(read.filled());
                true
            }
            Poll::Ready(_) => false,
        }
    }

    async fn send(&mut self, text: &str) -> io::Result<()> {
        let Some(input) = &mut self.input else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        input.write_all(text.as_bytes()).await?;
        input.flush().await
    }

    /// Reads until the output of a call begins.
    async fn beginning(&mut self, number: u64, most: usize) -> io::Result<()> {
        if self.begun != Some(number) {
            let begin = format!("\n{} begin {number}\n", self.mark);
            let (_, start) = self.find(&begin, most).await?;
            self.read.drain(..start);
            self.begun = Some(number);
        }
        Ok(())
    }

    /// Returns the output of a call after its end, at most `most` bytes.
    async fn answer(&mut self, number: u64, most: usize) -> io::Result<Answer> {
        self.beginning(number, most).await?;
        let end = format!("\n{} end {number} ", self.mark);
        let (end, after) = self.find(&end, most).await?;
        let tail = loop {
            let rest = self.read.get(after..).unwrap_or_default();
            match memchr::memchr(b'\n', rest) {
                Some(length) => break after + length,
                None if rest.len() > CODE_BYTES => return Err(io::ErrorKind::InvalidData.into()),
                None => self.more().await?,
            }
        };
        let code = self.read.get(after..tail).unwrap_or_default();
        let code = std::str::from_utf8(code)
            .ok()
            .and_then(|code| code.parse().ok());
        let rest = self.read.split_off(tail);
        let mut bytes = std::mem::replace(&mut self.read, rest);
        bytes.truncate(end);
        let answer = Answer::new(code.unwrap_or(-1), bytes, &self.mark);
        Ok(answer.counted(self.counted.take()))
    }

    /// Reads until a text appears. Returns where it begins and where it ends. Reads at most `most` bytes.
    async fn find(&mut self, text: &str, most: usize) -> io::Result<(usize, usize)> {
        let mut looked = 0;
        loop {
            let from = looked.min(self.read.len());
            if let Some(at) =
                memmem::find(self.read.get(from..).unwrap_or_default(), text.as_bytes())
            {
                return Ok((from + at, from + at + text.len()));
            }
            looked = self.read.len().saturating_sub(text.len());
            if self.read.len() > most {
                return Err(io::Error::other(format!("it wrote more than {most} bytes")));
            }
            self.more().await?;
        }
    }

    /// Counts the output of the host as memory of this caller from now on.
    pub(super) fn counts_for(&mut self, account: Option<Account>) {
        self.counted = None;
        self.account = account;
    }

    /// Makes room to read more. The room grows by an eighth, because unused room is counted, too.
    fn make_room(&mut self) -> io::Result<()> {
        if self.read.len() < self.read.capacity() {
            return Ok(());
        }
        let more = (self.read.len() / 8).max(LEAST_READ);
        if let Some(account) = self
            .account
            .as_ref()
            .filter(|_| self.read.len() + more > CALL_BYTES)
        {
            let reserved = match &mut self.counted {
                Some(counted) => counted.grow(more),
                None => account
                    .take_if_modest(self.read.len() + more)
                    .map(|all| self.counted = Some(all)),
            };
            reserved.map_err(|_| {
                let bytes = self.read.len();
                let words = format!("what the host wrote, more than {bytes} bytes, does not fit your share of the hub's memory; ask for less of it, or again later");
                io::Error::new(io::ErrorKind::OutOfMemory, words)
            })?;
        }
        self.read.reserve_exact(more);
        Ok(())
    }

    /// Reads more of the output, and the standard error meanwhile.
    async fn more(&mut self) -> io::Result<()> {
        self.make_room()?;
        loop {
            let mut heard = [0; 1024];
            tokio::select! {
                count = self.output.read_buf(&mut self.read) => return match count? {
                    0 => Err(io::ErrorKind::UnexpectedEof.into()),
                    _ => Ok(()),
                },
                count = listen(&mut self.errors, &mut heard) => {
                    self.complaints.extend(heard.iter().take(count));
                    let old = self.complaints.len().saturating_sub(COMPLAINT_BYTES);
                    self.complaints.drain(..old);
                }
            }
        }
    }

    /// Makes the error after the connection was lost during a call. If the caller has no memory for the rest of the answer,
    /// the connection is given up; that is no fault of the host, which has other connections.
    async fn lost(&mut self, err: io::Error) -> ToolError {
        if err.kind() == io::ErrorKind::OutOfMemory {
            self.input = None;
            let data = json!({ "limit": "memory_bytes", "began": true, "retriable": true });
            return ToolError::rpc(RpcError::internal(err.to_string()).with_data(data));
        }
        broken(self.last_words("the connection was lost", err).await)
    }

    /// Returns the error, with the last words of the program.
    async fn last_words(&mut self, what: &str, err: io::Error) -> String {
        self.input = None;
        let rest = async {
            let mut heard = [0; 1024];
            while self.errors.is_some() {
                let count = listen(&mut self.errors, &mut heard).await;
                self.complaints.extend(heard.iter().take(count));
            }
        };
        // The program writes its reason shortly before it ends.
        let _ = timeout(std::time::Duration::from_secs(1), rest).await;
        let said = String::from_utf8_lossy(&self.complaints);
        let said = said.trim();
        match (err.kind(), said) {
            (io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe, "") => what.to_owned(),
            (io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe, said) => {
                format!("{what}: {said}")
            }
            (_, "") => format!("{what}: {err}"),
            (_, said) => format!("{what}: {err}; {said}"),
        }
    }
}

/// Makes the error of a call that was not sent, because the host was not reached.
fn unreached(words: String) -> ToolError {
    transport_fault(words, false)
}

/// Makes the error of a call that was sent and not answered: it may or may not have taken effect.
pub(super) fn broken(words: String) -> ToolError {
    transport_fault(words, true)
}

/// Makes an error in the form of other ways: `began` says whether the call may have begun, and decides whether it is made
/// again.
fn transport_fault(words: String, began: bool) -> ToolError {
    let data = json!({ "fault": "transport", "began": began, "retriable": !began });
    ToolError::rpc(RpcError::internal(words).with_data(data))
}

/// Reads the standard error of the program; waits for ever after its end.
async fn listen(errors: &mut Option<ChildStderr>, heard: &mut [u8]) -> usize {
    let Some(source) = errors else {
        return std::future::pending().await;
    };
    match source.read(heard).await {
        Ok(count) if count > 0 => count,
        _ => {
            *errors = None;
            0
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // Closing the input ends the call on the other side.
        self.input = None;
        let Some(mut process) = self.process.take() else {
            return;
        };
        if tokio::runtime::Handle::try_current().is_ok() {
            self.closing.spawn(async move {
                if timeout(CLOSE_TIME, process.wait()).await.is_err() {
                    // The process may have ended just now.
                    let _ = process.kill().await;
                }
            });
        }
    }
}

/// The coding before the first answer: every shell knows it.
impl Default for Coding {
    fn default() -> Self {
        Self::Octal
    }
}
