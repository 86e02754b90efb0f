//! The user's own server, started by the first proxy that needs it.

use std::{
    cell::RefCell,
    env,
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt as _,
    process::{Child, Command, Stdio},
};

use crate::{
    options::OWN_SOCKET,
    socket::{Own, TAKEN},
};

/// When it stops: so many seconds after the last proxy has gone.
const IDLE_SECONDS: &str = "600";

/// What it said before is forgotten when it is longer than this.
const MOST_LOG: u64 = 64 << 10;

/// Starts a server when it is asked to, and one at a time.
pub(crate) struct Daemon {
    own: Own,
    started: RefCell<Option<Child>>,
}

impl Daemon {
    pub(crate) fn new(own: Own) -> Self {
        Self {
            own,
            started: RefCell::new(None),
        }
    }

    /// Starts it, unless it is just starting. The error is why the last one was of no use.
    pub(crate) fn start(&self) -> Result<(), String> {
        let mut started = self.started.borrow_mut();
        let before = match started.as_mut().map(Child::try_wait) {
            // It is on its way.
            Some(Ok(None)) => return Ok(()),
            Some(Ok(Some(status))) => Some(status),
            Some(Err(_)) | None => None,
        };
        // A code of 0: it has stopped because nobody was there. None: it was killed. And another may have been quicker.
        let code = before.and_then(|status| status.code());
        let has_failed = code.is_some_and(|code| code != 0 && code != i32::from(TAKEN));
        let why = has_failed.then(|| self.last_words());
        let child = self.spawn();
        *started = Some(child.map_err(|err| format!("cannot start a server: {err}"))?);
        why.map_or(Ok(()), Err)
    }

    fn spawn(&self) -> io::Result<Child> {
        Command::new(env::current_exe()?)
            .args(["serve", "--detach", "--unix", OWN_SOCKET])
            .args(["--idle-exit", IDLE_SECONDS])
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
