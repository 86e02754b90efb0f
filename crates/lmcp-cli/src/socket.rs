//! The unix socket of `serve`: one that is named, the user's own, or one that a service manager passes on.

use std::{
    env,
    fs::{self, DirBuilder, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use listenfd::ListenFd;
use lmcp::{Unix, unix};
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};

use crate::{
    options::{OWN_SOCKET, Options},
    report::Failure,
};

/// The user's own socket, where `lmcp proxy` looks when nobody says where.
const NAME: &str = "serve.sock";

/// Held by the server of that socket: of two that start at once, one serves.
const LOCK: &str = "serve.lock";

/// The code of a server that ends because there is one already: who started it need not mind.
pub(crate) const TAKEN: u8 = 75;

/// What it says.
const LOG: &str = "serve.log";

/// The socket that the options ask for, and what makes sure that there is one server on it.
pub(crate) fn listen(options: &Options) -> Result<Option<(Unix, Option<File>)>, Failure> {
    let (unix, lock) = match (passed_on()?, &options.unix) {
        (Some(unix), _) => (unix, None),
        (None, None) => return no_socket(options),
        (None, Some(path)) if path.as_os_str() == OWN_SOCKET => {
            let own = own()?;
            let lock = lock(&own)?;
            (unix(own.path())?, Some(lock))
        }
        (None, Some(path)) => (unix(path)?, None),
    };
    let unix = match &options.idle_exit {
        Some(seconds) => unix.until_idle(Duration::from_secs(seconds.0 as u64)),
        None => unix,
    };
    Ok(Some((unix, lock)))
}

fn no_socket(options: &Options) -> Result<Option<(Unix, Option<File>)>, Failure> {
    if options.idle_exit.is_some() {
        let failure = Failure::misuse("--idle-exit is about a unix socket, and there is none");
        return Err(failure.hint("add --unix"));
    }
    Ok(None)
}

/// Is a socket passed on to this process?
pub(crate) fn is_passed_on() -> bool {
    let process = env::var("LISTEN_PID").ok();
    env::var_os("LISTEN_FDS").is_some()
        && process.is_some_and(|process| process == std::process::id().to_string())
}

/// The socket of a systemd unit. There can be more than one; the first counts.
fn passed_on() -> Result<Option<Unix>, Failure> {
    if !is_passed_on() {
        return Ok(None);
    }
    let listener = ListenFd::from_env().take_unix_listener(0);
    let listener =
        listener.map_err(|err| Failure::new("cannot take the socket of systemd", err))?;
    let Some(listener) = listener else {
        return Ok(None);
    };
    Ok(Some(Unix::from_listener(listener)?))
}

/// Leaves the terminal: who started this may go, and its terminal too.
pub(crate) fn detach() -> Result<(), Failure> {
    // Fails for the leader of a group, which has no terminal to lose then.
    let _ = rustix::process::setsid();
    let home = env::var_os("HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from);
    let failed = |err| Failure::new(&format!("cannot go to {}", home.display()), err);
    env::set_current_dir(&home).map_err(failed)
}

/// The user's own socket, whether anybody listens there or not.
#[derive(Debug)]
pub(crate) struct Own(PathBuf);

/// Finds it, and makes its folder, which only this user can enter.
pub(crate) fn own() -> Result<Own, Failure> {
    let folder = match env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from) {
        Some(runtime) if runtime.is_absolute() && expect_own(&runtime).is_ok() => {
            runtime.join("lmcp")
        }
        _ => {
            let user = rustix::process::geteuid().as_raw();
            PathBuf::from(format!("/tmp/lmcp-{user}"))
        }
    };
    let failed = |err| {
        let words = format!("{} is no place for a socket of yours", folder.display());
        Failure::new(&words, err).hint("name another path")
    };
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(err) if err.kind() != io::ErrorKind::AlreadyExists => return Err(failed(err)),
        _ => expect_own(&folder).map_err(failed)?,
    }
    Ok(Own(folder))
}

impl Own {
    pub(crate) fn path(&self) -> PathBuf {
        self.0.join(NAME)
    }

    /// Where the server says what it says, when nobody sits in front of it.
    pub(crate) fn log(&self) -> PathBuf {
        self.0.join(LOG)
    }
}

/// A folder, and no link to one, that is ours and that others cannot enter: anybody may have made it before us.
fn expect_own(folder: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(folder)?;
    let ours = found.uid() == rustix::process::geteuid().as_raw();
    if found.is_dir() && ours && found.mode() & 0o077 == 0 {
        return Ok(());
    }
    Err(io::Error::other(
        "it must be a folder that belongs to you, with mode 700",
    ))
}

fn lock(own: &Own) -> Result<File, Failure> {
    let path = own.0.join(LOCK);
    let failed = |err| Failure::new(&format!("cannot lock {}", path.display()), err);
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(&path)
        .map_err(failed)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(Errno::WOULDBLOCK) => {
            let words = format!("another server serves {}", own.path().display());
            Err(Failure::of(words).code(TAKEN))
        }
        Err(err) => Err(failed(err.into())),
    }
}
