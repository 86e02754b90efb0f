//! The server's end of a guard: one that it started, or one of a job that it found.

use std::{
    fs::File, io, os::unix::net::UnixStream as StdStream, path::Path, process::Stdio,
    time::Duration,
};

use rustix::process::Pid;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    process::Command,
    time::{sleep, timeout},
};

use super::{
    attend::{Guards, Leash},
    dir,
    helper::Helper,
    protocol::{Ask, Order, Waits, Word},
    store::Job,
};

/// A guard answers at once, unless somebody halted it.
pub(super) const SOON: Duration = Duration::from_secs(5);
/// Between two tries to connect to a guard whose queue is full.
const AGAIN: Duration = Duration::from_millis(5);

const NO_WATCHES: &str = "the programs of this user watch as many files as the kernel lets them together \
                          (fs.epoll.max_user_watches); one of them must close some, or end";

/// A conversation with a guard. Dropping it ends the command, unless that is a job.
#[derive(Debug)]
pub(crate) struct Link {
    lines: Lines<BufReader<OwnedReadHalf>>,
    writer: OwnedWriteHalf,
    /// Words that came while an answer was waited for.
    heard: Vec<Word>,
    /// Of a guard that this server started.
    leash: Option<Leash>,
}

impl Link {
    /// Starts a guard, and with it the command. What happens next is the first word.
    ///
    /// The input is written into a file that has no name, and is in memory no longer once the guard runs. A line that follows
    /// the order is sent as it is.
    pub(crate) async fn start(
        guards: &Guards,
        helper: &Helper,
        (order, line): (&Order, Option<&str>),
        log: Option<File>,
        input: Option<String>,
    ) -> io::Result<Self> {
        let (ours, theirs) = StdStream::pair()?;
        let (program, argument) = helper.command();
        let mut guard = Command::new(program);
        guard
            .arg(argument)
            .arg(order.rights.for_command_line())
            .stdin(std::os::fd::OwnedFd::from(theirs))
            .stdout(log.map_or_else(Stdio::null, Stdio::from))
            .env_clear()
            .current_dir("/");
        let mut link = Self::over(ours)?;
        let (guards, dir) = (guards.clone(), order.dir.clone());
        let grace = Duration::from_millis(order.grace_ms);
        // Starting a process takes its time, in which others want to be served.
        let spawned = tokio::task::spawn_blocking(move || {
            let input = input.map(|text| dir::nameless(&dir, text.as_bytes()));
            guard.stderr(input.transpose()?.map_or_else(Stdio::null, Stdio::from));
            guards.start(&mut guard, grace, dir)
        })
        .await;
        link.leash = Some(spawned.map_err(io::Error::other)??);
        link.send(order).await?;
        if let Some(line) = line {
            link.writer.write_all(line.as_bytes()).await?;
        }
        Ok(link)
    }

    /// Finds the guard of a job, to ask for something.
    pub(crate) async fn find(job: &Job) -> io::Result<Self> {
        Self::meet(job, false).await
    }

    /// Finds the guard of a job, to hear what happens for as long as it does.
    pub(crate) async fn follow(job: &Job) -> io::Result<Self> {
        Self::meet(job, true).await
    }

    async fn meet(job: &Job, follows: bool) -> io::Result<Self> {
        let opened = dir::insist(&job.dir, || File::open(&job.dir))?;
        let path = dir::short_path(&opened, dir::SOCKET);
        let socket = match timeout(SOON, connect(&path)).await? {
            Err(err) if err.kind() == io::ErrorKind::PermissionDenied => {
                // The command itself can change the mode of the socket, because that is its user's.
                lmcp_private::restore(&job.dir.join(dir::SOCKET));
                timeout(SOON, connect(&path)).await??
            }
            connected => connected?,
        };
        let mut link = Self::halves(socket);
        let key = job.about.key.clone();
        link.send(&Ask::Hello { key, follows }).await?;
        Ok(link)
    }

    fn over(socket: StdStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let socket = UnixStream::from_std(socket).map_err(|err| match err.kind() {
            // What the kernel says sounds as if a disk were full.
            kind @ io::ErrorKind::StorageFull => io::Error::new(kind, NO_WATCHES),
            _ => err,
        })?;
        Ok(Self::halves(socket))
    }

    fn halves(socket: UnixStream) -> Self {
        let (reader, writer) = socket.into_split();
        Self {
            lines: BufReader::new(reader).lines(),
            writer,
            heard: Vec::new(),
            leash: None,
        }
    }

    /// The command is a job: it stays when this is dropped.
    pub(crate) fn let_go(self) {
        if let Some(leash) = self.leash {
            leash.let_go();
        }
    }

    /// The process of the guard, as the kernel says.
    pub(crate) fn guard(&self) -> Option<Pid> {
        let peer = self.writer.as_ref().peer_cred().ok()?;
        Pid::from_raw(peer.pid()?)
    }

    /// The next word; none once the guard is gone. May be dropped without losing one.
    pub(crate) async fn next(&mut self) -> Option<Word> {
        if !self.heard.is_empty() {
            return Some(self.heard.remove(0));
        }
        self.read().await
    }

    /// Asks for something, and waits until it is done.
    pub(crate) async fn ask(&mut self, ask: &Ask) -> io::Result<()> {
        let answered = async {
            self.send(ask).await?;
            loop {
                match self.read().await {
                    Some(Word::Done) => return Ok(()),
                    Some(Word::Refused { why }) => return Err(io::Error::other(why)),
                    Some(word) => self.heard.push(word),
                    None => return Err(io::Error::other("its guard is gone")),
                }
            }
        };
        let late = |_| {
            let words = "its guard does not answer; somebody may have halted it";
            io::Error::new(io::ErrorKind::TimedOut, words)
        };
        timeout(SOON, answered).await.map_err(late)?
    }

    /// Whether the command waits for input, as far as its guard can tell.
    pub(crate) async fn look(&mut self) -> Option<Waits> {
        self.ask(&Ask::Look).await.ok()?;
        let looks = |word: &Word| match word {
            Word::Looks { waits } => Some(*waits),
            _ => None,
        };
        let found = self.heard.iter().rev().find_map(looks);
        self.heard.retain(|word| looks(word).is_none());
        found?
    }

    async fn read(&mut self) -> Option<Word> {
        let line = self.lines.next_line().await.ok()??;
        serde_json::from_str(&line).ok()
    }

    async fn send(&mut self, words: &impl serde::Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(words)?;
        line.push(b'\n');
        self.writer.write_all(&line).await
    }
}

/// Connects to a guard. One whose queue is full, because of a flood, is tried again until its turn comes.
async fn connect(path: &Path) -> io::Result<UnixStream> {
    loop {
        match UnixStream::connect(path).await {
            Err(err) if err.kind() == io::ErrorKind::WouldBlock => sleep(AGAIN).await,
            connected => return connected,
        }
    }
}
