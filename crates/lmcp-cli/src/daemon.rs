//! The user's own server, which the first proxy that needs it starts.

use std::{
    cell::RefCell,
    env,
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt as _,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use lmcp::workplace::is_of_session;

use crate::{
    options::OWN_SOCKET,
    signals::hear_of_children,
    socket::{Own, TAKEN},
    this_program::this_program,
};

/// The server stops this number of seconds after the last proxy has gone.
const IDLE_SECONDS: &str = "600";

/// The log is deleted at a start if it is longer than this.
const MOST_LOG: u64 = 64 << 10;

/// The pause between two tries to start a server that fails: this long after the first, then twice as long each time.
const RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// Starts the server on request, one start at a time.
pub(crate) struct Daemon {
    own: Own,
    last: RefCell<Option<Start>>,
}

struct Start {
    child: Child,
    at: Instant,
    /// The number of failures in a row before.
    failures: u32,
}

impl Daemon {
    pub(crate) fn new(own: Own) -> Self {
        Self {
            own,
            last: RefCell::new(None),
        }
    }

    /// Starts the server, unless one is starting. The error is the reason why the last one failed.
    pub(crate) fn start(&self) -> Result<(), String> {
        let mut last = self.last.borrow_mut();
        let ended = last.as_mut().map(|start| start.child.try_wait());
        // Our server is starting, or that of another process is.
        if matches!(ended, Some(Ok(None))) || self.own.is_taken() {
            return Ok(());
        }
        // A code of 0 means that the server stopped because nobody used it, and no code that it was killed. Another server
        // may also have been faster.
        let code = ended.and_then(|ended| ended.ok()??.code());
        let has_failed = code.is_some_and(|code| code != 0 && code != i32::from(TAKEN));
        let (mut failures, mut why) = (0, Ok(()));
        if let Some(start) = last.as_ref().filter(|_| has_failed) {
            failures = start.failures + 1;
            why = Err(self.last_words());
            let wait = RETRY.saturating_mul(1 << start.failures.min(8));
            if start.at.elapsed() < wait.min(LONGEST_RETRY) {
                return why;
            }
        }
        let child = self.spawn();
        let child = child.map_err(|err| format!("cannot start a server: {err}"))?;
        *last = Some(Start {
            child,
            at: Instant::now(),
            failures,
        });
        why
    }

    /// Starts the server process. The server also serves other sessions: it gets only the variables that name its user and
    /// its settings, and none that belongs to this session. Each session sends its own.
    fn spawn(&self) -> io::Result<Child> {
        // Without this, the end of a failed server could not be noticed.
        hear_of_children()?;
        // Files that the client left open for us must not be passed on.
        close_fds::set_fds_cloexec(3, &[]);
        Command::new(this_program()?)
            .args(["serve", "--detach", "--unix", OWN_SOCKET])
            .args(["--idle-exit", IDLE_SECONDS])
            .env_clear()
            .envs(env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_for_server)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            // The stderr of the proxy is not passed on: the client may wait for its end, and the server lives longer.
            .stderr(self.log()?)
            .spawn()
    }

    fn log(&self) -> io::Result<File> {
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(self.own.log())?;
        if log.metadata()?.len() > MOST_LOG {
            log.set_len(0)?;
        }
        Ok(log)
    }

    /// Returns the reason why the server ended, from its log.
    fn last_words(&self) -> String {
        let text = fs::read_to_string(self.own.log()).unwrap_or_default();
        let last = text.lines().rfind(|line| line.starts_with("error: "));
        let words = last.map_or("it ended", |line| line.trim_start_matches("error: "));
        format!("the server cannot start: {words}")
    }
}

fn is_for_server(name: &str) -> bool {
    const USER: [&str; 4] = ["HOME", "LOGNAME", "SHELL", "USER"];
    USER.contains(&name) || name.starts_with("LMCP_") || is_of_session(name)
}
