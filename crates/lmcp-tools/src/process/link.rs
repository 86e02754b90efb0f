//! The server's end of a connection to a guard: one that the server started, or the guard of a job that it found.

use std::{
    fs::File, io, os::unix::net::UnixStream as StdStream, path::Path, process::Stdio,
    time::Duration,
};

use lmcp_private::{connect_in_turn, guards::GUARD, processes::expect_own_numbers};
use rustix::{net::SocketAddrUnix, process::Pid};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    process::Command,
    time::{Instant, sleep, timeout},
};

use super::{
    attend::{Guards, Leash},
    dir::{self, Insistence},
    helper::Helper,
    owner::Owner,
    protocol::{Ask, Order, Waits, Word},
    store::Job,
};

/// A guard answers at once, unless it was halted.
pub(super) const SOON: Duration = Duration::from_secs(5);
/// How long a server tries again to reach a guard that hangs up, and the pause between two tries.
pub(super) const PERSISTENCE: Duration = Duration::from_secs(1);
pub(super) const AGAIN: Duration = Duration::from_millis(5);

pub(super) const IS_GONE: &str = "its guard is gone";
pub(super) const HUNG_UP: &str = "its guard has closed the connection";
pub(super) const OUT_OF_REACH: &str =
    "its guard cannot be reached now, because too many processes connect to it; try again";

const NO_WATCHES: &str = "the programs of this user watch as many files as the kernel lets them together \
                          (fs.epoll.max_user_watches); one of them must close some, or end";

/// A connection to a guard. Dropping it ends the command, unless the command is a job.
#[derive(Debug)]
pub(crate) struct Link {
    lines: Lines<BufReader<OwnedReadHalf>>,
    writer: OwnedWriteHalf,
    /// Words that arrived while [`Link::ask`] waited for an answer.
    heard: Vec<Word>,
    /// The leash of a guard that this server started.
    leash: Option<Leash>,
    /// How long the guard may take to answer.
    patience: Duration,
}

impl Link {
    /// Starts a guard, and with it the command. The first word tells whether the command was started.
    ///
    /// The input is written into a file without a name, and is not in memory any more once the guard runs. A line that
    /// follows the order is sent as it is.
    pub(crate) async fn start(
        guards: &Guards,
        helper: &Helper,
        (order, line): (&Order, Option<&str>),
        owner: Owner,
        (log, input): (Option<File>, Option<String>),
    ) -> io::Result<Self> {
        // A guard that sees other processes under the numbers of its own would end those.
        expect_own_numbers()?;
        let (ours, theirs) = StdStream::pair()?;
        let program = helper.starts().clone();
        let mut guard = Command::new(program.path());
        guard
            .arg(GUARD)
            .arg(order.rights.for_command_line())
            .arg(owner.word())
            .stdin(std::os::fd::OwnedFd::from(theirs))
            .stdout(log.map_or_else(Stdio::null, Stdio::from))
            .env_clear()
            .current_dir("/");
        let mut link = Self::over(ours)?;
        let (guards, dir) = (guards.clone(), order.dir.clone());
        let grace = Duration::from_millis(order.grace_ms);
        // Starting a process takes time, in which the server must serve other callers.
        let spawned = tokio::task::spawn_blocking(move || {
            let input = input.map(|text| dir::nameless(&dir, text.as_bytes()));
            guard.stderr(input.transpose()?.map_or_else(Stdio::null, Stdio::from));
            guards.start((&program, &mut guard), grace, dir)
        })
        .await;
        link.leash = Some(spawned.map_err(io::Error::other)??);
        link.send(order).await?;
        if let Some(line) = line {
            link.writer.write_all(line.as_bytes()).await?;
        }
        Ok(link)
    }

    /// Connects to the guard of a job, to ask for something.
    pub(crate) async fn find(job: &Job) -> io::Result<Self> {
        Self::meet(job, false).await
    }

    /// Connects to the guard of a job, to follow the job.
    pub(crate) async fn follow(job: &Job) -> io::Result<Self> {
        Self::meet(job, true).await
    }

    /// Connects, and waits until the guard has welcomed this server. A guard that hangs up may have had no place, so the server
    /// tries again for a while.
    async fn meet(job: &Job, follows: bool) -> io::Result<Self> {
        let key = job.about.key.clone();
        let hello = Ask::Hello { key, follows };
        let mut until = None;
        loop {
            let mut link = Self::reach(job).await?;
            // A guard that hangs up may do so before it has read this.
            let _ = link.send(&hello).await;
            match timeout(SOON, link.read()).await {
                Ok(Some(word)) => {
                    link.heard.push(word);
                    return Ok(link);
                }
                // The guard was halted, perhaps. The caller may need the number of its process.
                Err(_) => {
                    link.patience = Duration::ZERO;
                    return Ok(link);
                }
                Ok(None) if !job.is_guarded() => return Err(io::Error::other(IS_GONE)),
                Ok(None) => {}
            }
            let now = Instant::now();
            if *until.get_or_insert(now + PERSISTENCE) <= now {
                return Err(io::Error::new(io::ErrorKind::WouldBlock, OUT_OF_REACH));
            }
            sleep(AGAIN).await;
        }
    }

    async fn reach(job: &Job) -> io::Result<Self> {
        let opened = dir::insist(&job.dir, || File::open(&job.dir))?;
        let path = dir::short_path(&opened, dir::SOCKET);
        // The command itself can change the mode of the socket, because the socket belongs to its user.
        let (mut insistence, named) = (Insistence::default(), job.dir.join(dir::SOCKET));
        loop {
            match connect(&path).await {
                Err(err) if insistence.mends(&named, &err) => {}
                connected => return Ok(Self::halves(connected?)),
            }
        }
    }

    fn over(socket: StdStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let socket = UnixStream::from_std(socket).map_err(|err| match err.kind() {
            // The kernel's message sounds as if a disk were full.
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
            patience: SOON,
        }
    }

    /// Lets the command go on as a job when the link is dropped.
    pub(crate) fn let_go(self) {
        if let Some(leash) = self.leash {
            leash.let_go();
        }
    }

    /// Returns the process of the guard, as the kernel reports it.
    pub(crate) fn guard(&self) -> Option<Pid> {
        let peer = self.writer.as_ref().peer_cred().ok()?;
        Pid::from_raw(peer.pid()?)
    }

    /// Returns the next word; `None` once the guard is gone. The future may be dropped without losing a word.
    pub(crate) async fn next(&mut self) -> Option<Word> {
        if !self.heard.is_empty() {
            return Some(self.heard.remove(0));
        }
        self.read().await
    }

    /// Asks the guard for something, and waits until it is done.
    pub(crate) async fn ask(&mut self, ask: &Ask) -> io::Result<()> {
        let patience = self.patience;
        let answered = async {
            self.send(ask).await?;
            loop {
                match self.read().await {
                    Some(Word::Done) => return Ok(()),
                    Some(Word::Refused { why }) => return Err(io::Error::other(why)),
                    Some(word) => self.heard.push(word),
                    None => return Err(io::Error::other(HUNG_UP)),
                }
            }
        };
        let late = |_| {
            let words = "its guard does not answer; somebody may have halted it";
            io::Error::new(io::ErrorKind::TimedOut, words)
        };
        timeout(patience, answered).await.map_err(late)?
    }

    /// Returns whether the command waits for input, as far as its guard can tell.
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

/// Connects to a guard. If the guard's queue is full, because of a flood, waits in turn for a place.
async fn connect(path: &Path) -> io::Result<UnixStream> {
    match UnixStream::connect(path).await {
        Err(err) if err.kind() == io::ErrorKind::WouldBlock => {}
        connected => return connected,
    }
    let address = SocketAddrUnix::new(path)?;
    let connecting = move || connect_in_turn(&address, SOON);
    let connected = tokio::task::spawn_blocking(connecting).await;
    let socket = connected
        .map_err(io::Error::other)?
        .map_err(|err| match err.kind() {
            kind @ io::ErrorKind::WouldBlock => io::Error::new(kind, OUT_OF_REACH),
            _ => err,
        })?;
    let socket = StdStream::from(socket);
    socket.set_nonblocking(true)?;
    UnixStream::from_std(socket)
}
