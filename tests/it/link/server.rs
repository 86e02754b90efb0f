//! Starting a fresh fixture on each of the transports that speak in lines.

use std::{
    os::fd::OwnedFd,
    process::{Child, Command, ExitStatus, Stdio},
};

use lmcp::Caller;
use lmcp_core::CallerTransport;
use lmcp_testkit::Folder;
use tokio::{
    io::{duplex, split},
    net::{UnixStream, unix::pipe},
    task::{JoinSet, spawn_blocking},
};

use super::lines::Lines;

/// A server that ends with its connection.
pub(crate) enum Running {
    Task(JoinSet<Result<(), lmcp::Error>>),
    /// Serves more than one connection, so it is stopped with its task.
    Socket {
        _server: JoinSet<Result<(), lmcp::Error>>,
        _folder: Folder,
    },
    Program(Program),
}

pub(crate) fn memory() -> Result<Lines, String> {
    Ok(memory_of(start()?))
}

/// The same, of any server.
pub(crate) fn memory_of(server: lmcp::Handle) -> Lines {
    let (ours, theirs) = duplex(64 << 10);
    let (reader, writer) = split(theirs);
    let caller = Caller::new(CallerTransport::Memory);
    let mut task = JoinSet::new();
    task.spawn(async move { server.serve(lmcp::streams(reader, writer, caller)).await });
    let (reader, writer) = split(ours);
    Lines::new(reader, writer, Running::Task(task))
}

pub(crate) fn stdio() -> Result<Lines, String> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_transcript-server"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|err| format!("cannot start the server: {err}"))?;
    let stdin = child.stdin.take().ok_or("the child has a stdin")?;
    let stdout = child.stdout.take().ok_or("the child has a stdout")?;
    let program = Running::Program(Program(Some(child)));
    let wrong = |err| format!("cannot use the child's pipe: {err}");
    let writer = pipe::Sender::from_owned_fd(OwnedFd::from(stdin)).map_err(wrong)?;
    let reader = pipe::Receiver::from_owned_fd(OwnedFd::from(stdout)).map_err(wrong)?;
    Ok(Lines::new(reader, writer, program))
}

pub(crate) async fn unix() -> Result<Lines, String> {
    let server = start()?;
    let folder = Folder::new();
    let path = folder.join("socket");
    let transport = lmcp::unix(&path).map_err(|err| err.to_string())?;
    let mut task = JoinSet::new();
    task.spawn(async move { server.serve(transport).await });
    let stream = UnixStream::connect(&path).await;
    let (reader, writer) = stream
        .map_err(|err| format!("cannot connect: {err}"))?
        .into_split();
    let server = Running::Socket {
        _server: task,
        _folder: folder,
    };
    Ok(Lines::new(reader, writer, server))
}

pub(crate) fn start() -> Result<lmcp::Handle, String> {
    lmcp_tests::fixture().start().map_err(|err| err.to_string())
}

impl Running {
    /// Waits until the server ended well, where it ends with its connection.
    pub(crate) async fn finish(&mut self) -> Result<(), String> {
        match self {
            Self::Task(task) => match task.join_next().await {
                Some(Ok(Ok(()))) => Ok(()),
                ended => Err(format!("the server ended badly: {ended:?}")),
            },
            Self::Program(program) => match program.wait().await? {
                status if status.success() => Ok(()),
                status => Err(format!("the server ended badly: {status}")),
            },
            Self::Socket { .. } => Ok(()),
        }
    }
}

/// A child process; dropped before it ended, it is killed.
pub(crate) struct Program(Option<Child>);

impl Program {
    async fn wait(&mut self) -> Result<ExitStatus, String> {
        let mut child = self.0.take().ok_or("the child was waited for already")?;
        let waited = spawn_blocking(move || child.wait()).await;
        match waited {
            Ok(Ok(status)) => Ok(status),
            Ok(Err(err)) => Err(format!("cannot wait for the server: {err}")),
            Err(err) => Err(format!("cannot wait for the server: {err}")),
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
