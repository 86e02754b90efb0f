//! The guard: one small process between the server and each command.
//!
//! The guard adopts everything the command starts, so that no process can hide from it, and records the output. When its
//! server is gone, killed or not, the guard ends all these processes. For a job it stays instead, and the next server
//! finds it by its socket. Nothing here is asynchronous and there is one thread: a loop over the files that are ready.

mod awake;
mod ending;
mod feed;
mod ignored;
mod peer;
mod places;
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
    process::{
        Pid, Signal, WaitStatus, getpid, kill_process_group, set_child_subreaper, setsid, umask,
    },
};

use super::{
    dir::{self, in_dir},
    peers::{Gate, Known},
    protocol::{Ask, End, Order, Stdin, Word},
    spool::{Spool, Stream},
};
use peer::Peer;
use start::{Started, start};

/// How long the guard waits for output of processes that stay, once the command itself has ended. All output of the
/// command itself is in the pipe by then.
const DRAIN: Duration = Duration::from_millis(50);
/// The pause between two looks at processes that do not die.
const AGAIN: Duration = Duration::from_millis(10);
/// The pause between two messages about growth.
const NEWS: Duration = Duration::from_millis(50);
/// The pause between two checks that the record of a job is still there.
const STILL_THERE: Duration = Duration::from_secs(30);
/// More bytes than the record of an end takes.
const END: u64 = 4096;
/// The longest time between TERM and KILL.
const MOST_GRACE: Duration = Duration::from_secs(600);

/// Reads the order from standard input and carries it out.
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
    /// The file in which the last step before the command says why the command cannot be run.
    step: Option<File>,
    /// Bytes for the standard input of the command, which it has not taken yet.
    feed: Vec<u8>,
    /// The file from which more input is read, a little at a time.
    feed_file: Option<File>,
    /// Whether the standard input is closed after that.
    feed_ends: bool,
    log: Option<File>,
    spool: Spool,
    signals: SignalFd,
    /// The timer that sends SIGCONT, for as long as the command is to end with its server.
    awake: Option<Timer>,
    peers: Vec<Peer>,
    /// The socket for other servers, once the command is a job.
    listener: Option<UnixListener>,
    /// Whether the command goes on when the server that started it is gone.
    kept: bool,
    /// Whether that server left before the end, or while the command was a job.
    orphaned: bool,
    /// How the command ended, if it has.
    status: Option<WaitStatus>,
    /// The latest time at which the end is reported, once the command has ended.
    drained_at: Option<Instant>,
    end: Option<End>,
    no_children: bool,
    /// Whether more processes have ended than were collected in this turn.
    more_ended: bool,
    stop: Stop,
    timed_out: bool,
    /// When growth is reported again, and the length that was reported last.
    news_at: Instant,
    told: u64,
    /// When the record is checked again.
    look_at: Instant,
    /// Processes that connected, and may do less than the command.
    known: Known,
    /// The rights of the command. The socket of the guard serves only processes that have at least these rights.
    gate: Gate,
}

/// Whether the guard is ending everything.
#[derive(Clone, Copy)]
enum Stop {
    No,
    /// TERM was sent; KILL follows at this time.
    Asked(Instant),
    /// KILL is sent again and again, until nothing is left.
    Killing,
}

impl Guard {
    fn begin() -> io::Result<Self> {
        // The command does not inherit the files with which the server was started.
        close_fds::set_fds_cloexec(3, &[]);
        // A session of its own keeps the guard away from the terminal of the server.
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
                // This comes before the server is told of the job: from then on the job must be found.
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
        // The command inherits the umask. Files that the guard itself makes are for their owner alone.
        let of_server = umask(Mode::empty());
        umask(of_server | Mode::from_raw_mode(order.umask));
        // The timer is set before there is a command that could halt the guard.
        let awake = awake::stay_awake();
        let started = Instant::now();
        let Started {
            pid,
            outputs,
            input,
            terminal,
            step,
        } = {
            // The command would inherit signals that are blocked here.
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
            known: Known::default(),
            gate: Gate::of_command(order.rights.clone()),
            order,
        })
    }

    /// Runs until nothing is left to watch.
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

    /// Waits until a file is ready, or until it is time for something.
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
            // The wait is rounded up, so that the time has come when the wait is over.
            Timespec::try_from(wait + Duration::from_millis(1)).unwrap_or(Timespec {
                tv_sec: 1,
                tv_nsec: 0,
            })
        });
        // An interrupted wait is treated as if nothing were ready.
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

    /// Returns the next time at which something must be done even if nothing happens.
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

    /// Reads the output of the command: a bounded amount, so that a flood does not keep the guard from its other work.
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
                    // A terminal whose programs are gone returns an error.
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
                // The command has not been waited for, so the number is still its own.
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
                    // A job goes on without a server, and need not wake for nothing. The next server can end it by force.
                    self.awake = None;
                }
                Ok(())
            }
        }
    }

    /// Lists the command from now on, and lets other servers connect.
    fn open(&mut self) -> io::Result<()> {
        if self.listener.is_some() {
            return Ok(());
        }
        let listener = in_dir(&self.order.dir, dir::SOCKET, |path| {
            let listener = UnixListener::bind(&path)?;
            // No other user can enter the folder. The mode protects the socket if the command opened the folder to
            // others.
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
            // If this fails, the record of the end may find no room; nothing else is lost.
            let _ = dir::reserve(&self.order.dir, dir::END, END);
        }
        Ok(())
    }
}

/// The sources that can be handled without waiting.
struct Ready {
    signals: bool,
    outputs: bool,
    listener: bool,
    peers: Vec<usize>,
}

/// Returns the signals that the loop handles.
fn heard() -> SigSet {
    [
        Kind::SIGCHLD,
        Kind::SIGTERM,
        Kind::SIGINT,
        Kind::SIGHUP,
        // A signal to go on wakes the guard and is read like the others: see `awake`.
        Kind::SIGCONT,
        // A limit on the size of files is like a full disk, and no reason to end.
        Kind::SIGXFSZ,
    ]
    .into_iter()
    .collect()
}
