//! The guard: one small process between the server and each command.
//!
//! It adopts everything the command starts, so that nothing can hide from it; it records the output; and when its server
//! is gone, killed or not, it ends them all, unless the command was made a job: then it stays, and the next server finds
//! it by its socket. Nothing here is asynchronous and there is one thread: a loop over what is ready.

mod awake;
mod ending;
mod feed;
mod ignored;
mod peer;
mod start;
mod waiting;

use std::{
    fs::{self, File},
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    os::{
        fd::AsFd as _,
        unix::{
            fs::PermissionsExt as _,
            net::{UnixListener, UnixStream},
        },
    },
    process::ExitCode,
    time::{Duration, Instant},
};

use nix::sys::{
    signal::{SigSet, Signal as Kind},
    signalfd::{SfdFlags, SignalFd},
    timer::Timer,
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{FlockOperation, Mode, flock},
    net::sockopt::socket_peercred,
    process::{
        Pid, Signal, WaitStatus, getpid, kill_process_group, set_child_subreaper, setsid, umask,
    },
};

use super::{
    dir::{self, in_dir},
    peers::{self, Confined},
    protocol::{Ask, End, Order, Stdin, Word},
    spool::{Spool, Stream},
    tree,
};
use peer::Peer;
use start::{Started, start};

/// How long output of processes that stay is waited for once the command itself has ended: what it wrote itself is in the
/// pipe by then.
const DRAIN: Duration = Duration::from_millis(50);
/// Between two looks at processes that do not die.
const AGAIN: Duration = Duration::from_millis(10);
/// Between two news of growth.
const NEWS: Duration = Duration::from_millis(50);
/// Between two looks whether the record of a job is still there.
const STILL_THERE: Duration = Duration::from_secs(30);
/// More than the record of an end takes, in bytes.
const END: u64 = 4096;
/// Connections at once. A server has one to follow a job, and one more for a moment when it asks for something.
const MOST_PEERS: usize = 32;
/// Connections that are let in during one turn.
const MOST_ACCEPTED: usize = 16;
/// Longest between TERM and KILL.
const MOST_GRACE: Duration = Duration::from_secs(600);

/// Reads the order from standard input and sees it through.
pub(super) fn run() -> ExitCode {
    match Guard::begin() {
        Ok(mut guard) => {
            guard.watch();
            guard.tidy_up();
            ExitCode::SUCCESS
        }
        Err(_) => ExitCode::FAILURE,
    }
}

struct Guard {
    order: Order,
    pid: Pid,
    started: Instant,
    outputs: Vec<(Stream, File)>,
    input: Option<File>,
    terminal: Option<File>,
    /// Where the last step before the command says why it cannot be run.
    step: Option<File>,
    /// For its stdin, when it reads.
    feed: Vec<u8>,
    /// Where more of that is read from, a little at a time.
    feed_file: Option<File>,
    /// Close stdin after that.
    feed_ends: bool,
    log: Option<File>,
    spool: Spool,
    signals: SignalFd,
    /// Sends one of them, for as long as the command is to end with its server.
    awake: Option<Timer>,
    peers: Vec<Peer>,
    /// Other servers come in here, once the command is a job.
    listener: Option<UnixListener>,
    /// Does it go on when the server that started it is gone?
    kept: bool,
    /// That server left before the end, or while the command was a job.
    orphaned: bool,
    /// The command has ended, like this.
    status: Option<WaitStatus>,
    /// And all was told about it, after this time at the latest.
    drained_at: Option<Instant>,
    end: Option<End>,
    no_children: bool,
    /// More processes have ended than were waited for in this turn.
    more_ended: bool,
    stop: Stop,
    timed_out: bool,
    /// When to speak of growth again, and what was said last.
    news_at: Instant,
    told: u64,
    /// When to look for the record again.
    look_at: Instant,
    /// Processes that came and may do less than the command.
    confined: Confined,
}

/// Are we ending everything?
#[derive(Clone, Copy)]
enum Stop {
    No,
    /// TERM was sent; KILL at this time.
    Asked(Instant),
    /// KILL is sent, and again, until nothing is left.
    Killing,
}

impl Guard {
    fn begin() -> io::Result<Self> {
        // Whatever the server itself was started with stays out of the command.
        close_fds::set_fds_cloexec(3, &[]);
        // Its own session: the terminal of the server is none of its business.
        setsid()?;
        set_child_subreaper(Some(getpid()))?;
        ignored::hear()?;
        let mask = heard();
        mask.thread_block()?;
        let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;

        let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        let mut line = Vec::new();
        let mut reader = BufReader::new(&socket);
        reader.read_until(b'\n', &mut line)?;
        let mut order: Order = serde_json::from_slice(&line)?;
        order.read_line(&mut reader)?;
        let mut peer = Peer::owner(socket)?;
        match Self::start(order, signals) {
            Ok(mut guard) => {
                // Before anybody hears of it: who is told of a job must find it.
                if guard.order.keep && guard.on_ask(Ask::Keep).is_err() {
                    guard.begin_stop(Duration::ZERO);
                }
                peer.say(&Word::Started {
                    pid: guard.pid.as_raw_pid(),
                });
                guard.peers.push(peer);
                Ok(guard)
            }
            Err(err) => {
                peer.say(&Word::Failed {
                    error: err.to_string(),
                });
                Err(err)
            }
        }
    }

    fn start(order: Order, signals: SignalFd) -> io::Result<Self> {
        let spool = match Spool::create(&order.dir, order.spool_bytes) {
            // A job without a record could be found by nobody.
            Err(err) if !order.keep => Spool::in_memory(&err)?,
            created => created?,
        };
        flock(spool.output(), FlockOperation::NonBlockingLockExclusive)?;
        let log = if order.log {
            Some(File::from(io::stdout().as_fd().try_clone_to_owned()?))
        } else {
            None
        };
        // The command inherits it. What the guard itself makes is for its owner alone.
        let of_server = umask(Mode::empty());
        umask(of_server | Mode::from_raw_mode(order.umask));
        // Before there is a command that could halt us.
        let awake = awake::stay_awake();
        let started = Instant::now();
        let Started {
            pid,
            outputs,
            input,
            terminal,
            step,
        } = {
            // What is blocked here would be blocked in the command, too.
            heard().thread_unblock()?;
            let started = start(&order);
            heard().thread_block()?;
            started?
        };
        let feed_file = match &order.stdin {
            Stdin::Given => Some(File::from(io::stderr().as_fd().try_clone_to_owned()?)),
            Stdin::Closed | Stdin::Open => None,
        };
        Ok(Self {
            pid,
            started,
            outputs,
            input,
            terminal,
            step,
            feed: Vec::new(),
            feed_ends: feed_file.is_some(),
            feed_file,
            log,
            spool,
            signals,
            awake,
            peers: Vec::new(),
            listener: None,
            kept: false,
            orphaned: false,
            status: None,
            drained_at: None,
            end: None,
            no_children: false,
            more_ended: false,
            stop: Stop::No,
            timed_out: false,
            news_at: started,
            told: 0,
            look_at: started + STILL_THERE,
            confined: Confined::default(),
            order,
        })
    }

    /// Until nothing is left to watch.
    fn watch(&mut self) {
        loop {
            self.reap();
            self.give_input();
            self.tell_growth();
            self.look_at_clock();
            self.settle();
            if self.end.is_some() && self.no_children && !self.is_being_read() {
                self.say_goodbye();
                return;
            }
            let ready = self.wait_for_something();
            if ready.signals {
                self.on_signals();
            }
            if ready.outputs {
                self.read_outputs();
            }
            if ready.listener {
                self.accept();
            }
            for at in ready.peers {
                self.on_peer(at);
            }
            self.forget_peers();
        }
    }

    /// Waits until something is ready, or until it is time for something.
    fn wait_for_something(&self) -> Ready {
        let mut fds = vec![PollFd::new(&self.signals, PollFlags::IN)];
        let peers = fds.len();
        fds.extend(
            self.peers
                .iter()
                .map(|peer| PollFd::new(peer, peer.interest())),
        );
        let outputs = fds.len();
        fds.extend(
            self.outputs
                .iter()
                .map(|(_, file)| PollFd::new(file, PollFlags::IN)),
        );
        let listener = fds.len();
        fds.extend(
            self.listener
                .iter()
                .map(|listener| PollFd::new(listener, PollFlags::IN)),
        );
        if let Some(input) = self.input.as_ref().filter(|_| !self.feed.is_empty()) {
            fds.push(PollFd::new(input, PollFlags::OUT));
        }
        let wait = self.next_time().map(|time| {
            let wait = time.saturating_duration_since(Instant::now());
            // Rounded up, so that the time has come when the wait is over.
            Timespec::try_from(wait + Duration::from_millis(1)).unwrap_or(Timespec {
                tv_sec: 1,
                tv_nsec: 0,
            })
        });
        // An interruption is as good as nothing being ready.
        let _ = poll(&mut fds, wait.as_ref());
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let is_ready = |at: usize| ready.get(at).copied().unwrap_or_default();
        Ready {
            signals: is_ready(0),
            peers: (0..self.peers.len())
                .filter(|at| is_ready(peers + at))
                .collect(),
            outputs: (outputs..listener).any(is_ready),
            listener: self.listener.is_some() && is_ready(listener),
        }
    }

    /// The next time at which something must be done even if nothing happens.
    fn next_time(&self) -> Option<Instant> {
        let timeout = self
            .time_limit()
            .filter(|_| self.status.is_none() && matches!(self.stop, Stop::No));
        let kill = match self.stop {
            Stop::No => None,
            Stop::Asked(at) => Some(at),
            Stop::Killing => (!self.no_children).then(|| Instant::now() + AGAIN),
        };
        let news = (self.told < self.spool.bytes()).then_some(self.news_at);
        let drained = self.drained_at.filter(|_| self.end.is_none());
        let look = self.listener.is_some().then_some(self.look_at);
        let reap = self.more_ended.then(Instant::now);
        [timeout, kill, news, drained, look, reap]
            .into_iter()
            .flatten()
            .min()
    }

    /// Reads what the command wrote: a bounded amount, so that a flood does not keep us from everything else.
    fn read_outputs(&mut self) {
        let mut chunk = [0; 64 * 1024];
        let mut ended = Vec::new();
        for (at, (stream, file)) in self.outputs.iter_mut().enumerate() {
            for _ in 0..16 {
                match file.read(&mut chunk) {
                    Ok(0) => {
                        ended.push(at);
                        break;
                    }
                    Ok(count) => {
                        let bytes = chunk.get(..count).unwrap_or_default();
                        self.spool.write(*stream, bytes);
                        if let Some(log) = &mut self.log {
                            let _ = log.write_all(bytes);
                        }
                    }
                    Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
                    Err(err) if err.kind() == io::ErrorKind::WouldBlock => break,
                    // A terminal whose programs are gone reads as an error.
                    Err(_) => {
                        ended.push(at);
                        break;
                    }
                }
            }
        }
        for at in ended.into_iter().rev() {
            self.outputs.remove(at);
        }
    }

    fn tell_growth(&mut self) {
        let (bytes, now) = (self.spool.bytes(), Instant::now());
        if bytes == self.told || now < self.news_at {
            return;
        }
        self.told = bytes;
        self.news_at = now + NEWS;
        self.say(&self.growth());
    }

    fn growth(&self) -> Word {
        Word::Grown {
            bytes: self.spool.bytes(),
            extent: self.spool.extent(),
        }
    }

    fn say(&mut self, word: &Word) {
        for peer in self.peers.iter_mut().filter(|peer| peer.is_known) {
            peer.say(word);
        }
    }

    /// Lets in some of those who wait: the command itself may be most of them.
    fn accept(&mut self) {
        for _ in 0..MOST_ACCEPTED {
            let accepted = self.listener.as_ref().map(UnixListener::accept);
            let Some(Ok((socket, _))) = accepted else {
                return;
            };
            self.let_in(socket);
        }
    }

    fn let_in(&mut self, socket: UnixStream) {
        let from = socket_peercred(&socket).map(|peer| peer.pid);
        // The command itself has no say in how it is guarded, nor has one that may do less.
        let is_refused = |pid: Pid| {
            let rights = &self.order.rights;
            // The cheaper question first.
            tree::is_below(pid, getpid())
                || peers::admit(rights, &self.confined, Some(pid), &socket).is_err()
        };
        if from.map_or(true, is_refused) || !self.has_place() {
            return;
        }
        if let Ok(peer) = Peer::new(socket) {
            self.peers.push(peer);
        }
    }

    /// Is there a place for one more? Strangers make room first, then those who only listen, the oldest first: who comes
    /// to stop the command gets in, however many are here.
    fn has_place(&mut self) -> bool {
        if self.peers.len() < MOST_PEERS {
            return true;
        }
        let stranger = self.peers.iter().position(|peer| !peer.is_known);
        let listener = || self.peers.iter().position(|peer| peer.follows);
        match stranger.or_else(listener) {
            Some(at) => drop(self.peers.remove(at)),
            None => return false,
        }
        true
    }

    /// Tells somebody who knows the key all there is to know.
    fn welcome(&mut self, at: usize, follows: bool) {
        let started = Word::Started {
            pid: self.pid.as_raw_pid(),
        };
        let (growth, end) = (
            self.growth(),
            self.end.as_ref().map(|end| self.end_now(end)),
        );
        let Some(peer) = self.peers.get_mut(at) else {
            return;
        };
        peer.is_known = true;
        peer.follows = follows;
        peer.say(&started);
        peer.say(&growth);
        if let Some(end) = end {
            peer.say(&Word::Ended(end));
        }
    }

    fn on_peer(&mut self, at: usize) {
        let Some(peer) = self.peers.get_mut(at) else {
            return;
        };
        peer.write();
        for ask in peer.asks() {
            let known = self.peers.get(at).is_some_and(|peer| peer.is_known);
            match &ask {
                Ask::Hello { key, follows } if *key == self.order.key => {
                    self.welcome(at, *follows);
                    continue;
                }
                // Who does not know the key is told nothing, not even that.
                _ if !known => {
                    if let Some(peer) = self.peers.get_mut(at) {
                        peer.gone = true;
                    }
                    return;
                }
                _ => {}
            }
            if matches!(ask, Ask::Look) {
                let waits = self.waits();
                if let Some(peer) = self.peers.get_mut(at) {
                    peer.say(&Word::Looks { waits });
                }
            }
            let answer = match self.on_ask(ask) {
                Ok(()) => Word::Done,
                Err(err) => Word::Refused {
                    why: err.to_string(),
                },
            };
            if let Some(peer) = self.peers.get_mut(at) {
                peer.say(&answer);
            }
        }
    }

    fn on_ask(&mut self, ask: Ask) -> io::Result<()> {
        match ask {
            Ask::Hello { .. } | Ask::Look => Ok(()),
            Ask::Input { text, eof } => self.take_input(&text, eof),
            Ask::Signal { number } => {
                let signal = Signal::from_named_raw(number)
                    .ok_or_else(|| io::Error::other(format!("{number} is not a signal")))?;
                if self.status.is_some() {
                    return Err(io::Error::other("it has ended"));
                }
                // It has not been waited for, so the number is still its own.
                Ok(kill_process_group(self.pid, signal)?)
            }
            Ask::Stop { grace_ms } => {
                self.begin_stop(Duration::from_millis(grace_ms));
                Ok(())
            }
            Ask::Resize(size) => match &self.terminal {
                Some(terminal) => start::resize(terminal, size),
                None => Err(io::Error::other("it has no terminal")),
            },
            Ask::Open => self.open(),
            Ask::Keep if self.end.is_some() => Err(io::Error::other("it has ended")),
            Ask::Keep => {
                self.open()?;
                self.kept = !self.order.passing;
                if self.kept {
                    // A job goes on without anybody, and need not wake for nothing. The next server can end it by force.
                    self.awake = None;
                }
                Ok(())
            }
        }
    }

    /// From now on it is listed, and other servers can come in.
    fn open(&mut self) -> io::Result<()> {
        if self.listener.is_some() {
            return Ok(());
        }
        let listener = in_dir(&self.order.dir, dir::SOCKET, |path| {
            let listener = UnixListener::bind(&path)?;
            // Nobody else can enter the folder; the mode is for when its command opened that.
            fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
            Ok(listener)
        })?;
        listener.set_nonblocking(true)?;
        self.listener = Some(listener);
        let pid = self.pid.as_raw_pid().to_string();
        dir::write_whole(&self.order.dir, dir::KEPT, pid.as_bytes())?;
        if let Some(end) = &self.end {
            self.write_end(end)?;
        } else {
            // Where that fails, the end may not find room, and no more.
            let _ = dir::reserve(&self.order.dir, dir::END, END);
        }
        Ok(())
    }

    /// A server that goes takes its command with it, unless that is a job.
    fn forget_peers(&mut self) {
        let owner_left = self.peers.iter().any(|peer| peer.gone && peer.is_owner);
        self.orphaned |= owner_left && (self.end.is_none() || self.listener.is_some());
        self.peers.retain(|peer| !peer.gone);
        if owner_left && !self.kept {
            self.begin_stop(Duration::from_millis(self.order.grace_ms));
        }
    }
}

/// What can be done without waiting.
struct Ready {
    signals: bool,
    outputs: bool,
    listener: bool,
    peers: Vec<usize>,
}

/// What the loop hears of.
fn heard() -> SigSet {
    [
        Kind::SIGCHLD,
        Kind::SIGTERM,
        Kind::SIGINT,
        Kind::SIGHUP,
        // What is sent to go on is sent to be heard, see `awake`.
        Kind::SIGCONT,
        // A limit on the size of files is like a full disk, and no reason to end.
        Kind::SIGXFSZ,
    ]
    .into_iter()
    .collect()
}
