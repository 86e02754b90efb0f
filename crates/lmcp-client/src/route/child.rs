//! A server as a child process, on its standard input and output.

use std::{
    collections::VecDeque,
    ffi::OsString,
    future::poll_fn,
    mem::MaybeUninit,
    path::PathBuf,
    pin::Pin,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, ReadBuf},
    process,
    time::timeout,
};

use super::{
    lines::{Lines, Output},
    system::{Leash, input_of, signal_of, start_apart},
};
use crate::{
    Error, Event,
    limits::{GRACE, LAST_WORDS, STDERR_LINE_BYTES, STDERR_LINES},
};

/// A program and what it is started with. It gets the environment of this one, but for the variables `LMCP_…`: those that it needs
/// are named with [`env`](Self::env).
#[derive(Clone, Debug)]
pub struct Command {
    program: OsString,
    args: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
    folder: Option<PathBuf>,
}

impl Command {
    /// Returns a command for a program, by its path or by a name that is searched in `PATH`.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            variables: Vec::new(),
            folder: None,
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds several arguments.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets a variable of the program.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// Sets the working folder.
    #[must_use]
    pub fn current_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// Returns the name of the program for people.
    pub(super) fn name(&self) -> String {
        self.program.to_string_lossy().into_owned()
    }

    pub(super) fn start(&self) -> Result<Child, Error> {
        let name = self.name();
        let refused = |err: std::io::Error| Error::Refused(format!("cannot start `{name}`: {err}"));
        let mut command = process::Command::new(&self.program);
        command.args(&self.args);
        for name in lmcp_private::own_variables() {
            command.env_remove(name);
        }
        command.envs(self.variables.iter().cloned());
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut process = start_apart(&mut command).map_err(refused)?;
        let leash = Leash::new(process.id()).map_err(refused)?;
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(Error::Refused(format!("`{name}` has no standard input")));
        };
        let said = process.stderr.take();
        Ok(Child {
            lines: Lines::new(output, input_of(input).map_err(refused)?),
            complaints: Complaints::new(&name, said.map(|said| Box::pin(said) as Errors)),
            ended: None,
            name,
            leash: Some(leash),
            process,
        })
    }
}

/// A server that was started.
pub(super) struct Child {
    pub(super) lines: Lines,
    complaints: Complaints,
    ended: Option<String>,
    name: String,
    /// `None` when the process has ended. It is dropped before the process: the process number is valid until the process is
    /// waited for.
    leash: Option<Leash>,
    process: process::Child,
}

impl Child {
    pub(super) async fn next(&mut self) -> Event {
        loop {
            // Neither has priority: a flood on one must not delay the other.
            let output = tokio::select! {
                () = self.complaints.listen() => continue,
                output = self.lines.next() => output,
            };
            return match output {
                Output::Line(line) => Event::Line(line),
                Output::Refusal(line) => Event::Failure(line),
                Output::Unsent(line) => Event::Unsent(line),
                Output::Room => Event::Room,
                Output::Ended(why) => Event::Lost(self.ending(why).await),
            };
        }
    }

    /// Closes its input, and waits for its end; then asks it to end, then kills it.
    pub(super) async fn close(mut self) {
        self.lines.flush().await;
        self.lines.hang_up();
        if !self.ends_within(GRACE).await {
            if let Some(leash) = &self.leash {
                leash.terminate();
            }
            self.ends_within(GRACE).await;
        }
        self.leash = None;
    }

    /// Reads its output meanwhile: a process whose output is not read may be unable to end.
    async fn ends_within(&mut self, time: Duration) -> bool {
        let (lines, complaints) = (&mut self.lines, &mut self.complaints);
        let reading = async {
            loop {
                tokio::select! {
                    () = complaints.listen() => {}
                    output = lines.next() => if let Output::Ended(_) = output {
                        return std::future::pending::<()>().await;
                    },
                }
            }
        };
        let ended = async {
            tokio::select! {
                _ = self.process.wait() => {}
                () = reading => {}
            }
        };
        timeout(time, ended).await.is_ok()
    }

    /// Returns how the process ended, with the last lines of its standard error.
    async fn ending(&mut self, why: String) -> String {
        if let Some(ended) = &self.ended {
            return ended.clone();
        }
        let status = timeout(GRACE, self.process.wait()).await;
        let mut words = match status {
            Ok(Ok(status)) => format!("`{}` {}", self.name, how(status)),
            _ => format!("`{}` {why}", self.name),
        };
        self.leash = None;
        let _ = timeout(LAST_WORDS, self.complaints.rest()).await;
        let complaints = self.complaints.words();
        if !complaints.is_empty() {
            words = format!("{words}; its last words: {complaints}");
        }
        self.ended = Some(words.clone());
        words
    }
}

fn how(status: ExitStatus) -> String {
    match (status.code(), signal_of(status)) {
        (Some(code), _) => format!("ended with exit status {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

type Errors = Pin<Box<dyn AsyncRead + Send>>;

/// The last lines of its standard error.
struct Complaints {
    /// The program, for the log.
    name: String,
    /// `None` when it has ended.
    source: Option<Errors>,
    lines: VecDeque<String>,
    line: Vec<u8>,
}

impl Complaints {
    fn new(name: &str, source: Option<Errors>) -> Self {
        Self {
            name: name.to_owned(),
            source,
            lines: VecDeque::new(),
            line: Vec::new(),
        }
    }

    /// Reads some bytes; waits for ever after the end.
    async fn listen(&mut self) {
        let Some(source) = &mut self.source else {
            return std::future::pending().await;
        };
        // This is polled with every line of the server: filling the buffer with zeros each time would cost more than the
        // line.
        let heard = poll_fn(|cx| {
            let mut space = [MaybeUninit::uninit(); 4096];
            let mut read = ReadBuf::uninit(&mut space);
            let polled = source.as_mut().poll_read(cx, &mut read);
            polled.map_ok(|()| read.filled().to_vec())
        });
        match heard.await {
            Ok(heard) if !heard.is_empty() => heard.into_iter().for_each(|byte| self.take(byte)),
            _ => self.source = None,
        }
    }

    async fn rest(&mut self) {
        while self.source.is_some() {
            self.listen().await;
        }
    }

    fn take(&mut self, byte: u8) {
        if byte != b'\n' {
            if self.line.len() < STDERR_LINE_BYTES {
                self.line.push(byte);
            }
            return;
        }
        let line = String::from_utf8_lossy(&self.line).trim().to_owned();
        self.line.clear();
        if !line.is_empty() {
            // With escapes, so that a program cannot write to the terminal of the log.
            tracing::debug!("`{}` writes to its standard error: {line:?}", self.name);
            self.lines.push_back(line);
        }
        while self.lines.len() > STDERR_LINES {
            self.lines.pop_front();
        }
    }

    fn words(&mut self) -> String {
        self.take(b'\n');
        let lines: Vec<_> = self.lines.iter().map(String::as_str).collect();
        lines.join(" | ")
    }
}
