//! The user's own server, started by the first proxy that needs it.

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

/// When it stops: so many seconds after the last proxy has gone.
const IDLE_SECONDS: &str = "600";

/// What it said before is forgotten when it is longer than this.
const MOST_LOG: u64 = 64 << 10;

/// Between two tries to start one that cannot start: this long after the first, then twice as long each time.
const RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// Starts a server when it is asked to, and one at a time.
pub(crate) struct Daemon {
    own: Own,
    last: RefCell<Option<Start>>,
}

struct Start {
    child: Child,
    at: Instant,
    /// How many before it could not start.
    failures: u32,
}

impl Daemon {
    pub(crate) fn new(own: Own) -> Self {
        Self {
            own,
            last: RefCell::new(None),
        }
    }

    /// Starts it, unless it is just starting. The error is why the last one was of no use.
    pub(crate) fn start(&self) -> Result<(), String> {
        let mut last = self.last.borrow_mut();
        let ended = last.as_mut().map(|start| start.child.try_wait());
        // It is on its way, or somebody else's is.
        if matches!(ended, Some(Ok(None))) || self.own.is_taken() {
            return Ok(());
        }
        // A code of 0: it has stopped because nobody was there. None: it was killed. And another may have been quicker.
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

    /// It serves others, too: of our environment it gets what says whose server it is and how it is to be, and no variable
    /// that is ours alone. Each session brings its own.
    fn spawn(&self) -> io::Result<Child> {
        // Else nobody could tell that it cannot start.
        hear_of_children()?;
        // What the client left open for us is not for it.
        close_fds::set_fds_cloexec(3, &[]);
        Command::new(this_program()?)
            .args(["serve", "--detach", "--unix", OWN_SOCKET])
            .args(["--idle-exit", IDLE_SECONDS])
            .env_clear()
            .envs(env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_for_server)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            // Not the proxy's: the client may wait for its end, and this goes on.
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

    /// Why it ended, as far as it said.
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
