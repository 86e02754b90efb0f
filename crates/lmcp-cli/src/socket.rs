//! The unix socket of `serve`: a named one, the user's own, or one that a service manager passes on.

use std::{
    env,
    ffi::OsString,
    fs::{File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process,
    time::Duration,
};

use listenfd::ListenFd;
use lmcp::{Unix, unix};
use lmcp_private::{first_usable, fixed_folders, runtime_folder, spare_folder};
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};

use crate::{
    options::{OWN_SOCKET, Options},
    report::{self, Failure},
};

/// The beginning of the file names of the user's own server, which `lmcp proxy` uses by default.
const NAME: &str = "serve";

/// The exit code of a server that ends because another server is running already. That is not a failure for the program that
/// started it.
pub(crate) const TAKEN: u8 = 75;

/// The place to listen, before any action.
pub(crate) enum Asked {
    Nowhere,
    PassedOn(Unix),
    Own(Own),
    At(PathBuf),
}

/// A socket, and a lock that keeps other servers away from it.
pub(crate) type Listening = (Unix, Option<File>);

/// Finds the socket that the options name. Call it before the server leaves its folder.
pub(crate) fn find(options: &Options) -> Result<Asked, Failure> {
    let asked = match (passed_on()?, &options.unix) {
        (Some(unix), _) => Asked::PassedOn(unix),
        (None, None) => Asked::Nowhere,
        (None, Some(path)) if path.as_os_str() == OWN_SOCKET => Asked::Own(own()?),
        (None, Some(path)) => Asked::At(path.clone()),
    };
    // The demo tools start no commands.
    if options.demo != Some(true) {
        let socket = match &asked {
            Asked::Nowhere | Asked::PassedOn(_) => None,
            Asked::Own(own) => Some(own.path()),
            Asked::At(path) => Some(path.clone()),
        };
        socket.map_or(Ok(()), |socket| options.expect_socket_outside(&socket))?;
    }
    let is_alone = options.http.is_none() && options.join.is_none();
    if options.idle_exit.is_some() && (!is_alone || matches!(asked, Asked::Nowhere)) {
        let words = "--idle-exit is for a server on a unix socket and nothing else";
        return Err(
            Failure::misuse(words).hint("say --unix, and leave out --http, --join and --stdio")
        );
    }
    Ok(asked)
}

/// Listens on the socket.
pub(crate) fn listen(asked: Asked, options: &Options) -> Result<Option<Listening>, Failure> {
    let (unix, lock) = match asked {
        Asked::Nowhere => return Ok(None),
        Asked::PassedOn(unix) => (unix, None),
        Asked::At(path) => (unix(path)?, None),
        Asked::Own(own) => {
            let lock = own.lock()?;
            (unix(own.path())?, Some(lock))
        }
    };
    let unix = match &options.idle_exit {
        Some(seconds) => unix.until_idle(Duration::from_secs(seconds.0 as u64)),
        None => unix,
    };
    Ok(Some((unix, lock)))
}

/// Returns whether a socket is passed on to this process.
fn is_passed_on() -> bool {
    let process = env::var("LISTEN_PID").ok();
    env::var_os("LISTEN_FDS").is_some()
        && process.is_some_and(|process| process == process::id().to_string())
}

/// Takes the socket of a systemd unit. If there are several, takes the first.
fn passed_on() -> Result<Option<Unix>, Failure> {
    if !is_passed_on() {
        return Ok(None);
    }
    let listener = ListenFd::from_env().take_unix_listener(0);
    let listener =
        listener.map_err(|err| Failure::new("cannot take the socket of systemd", err))?;
    let none = || Failure::of("systemd passes on no unix socket, though it says so");
    let listener = listener.ok_or_else(none)?;
    Ok(Some(Unix::from_listener(listener)?))
}

/// Leaves the terminal, because the program that started this one and its terminal may end.
pub(crate) fn detach() {
    // This fails for the leader of a group, which has no terminal to lose.
    let _ = rustix::process::setsid();
    let home = env::var_os("HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from);
    // Any folder is fine that nobody needs to remove or unmount.
    let _ = env::set_current_dir(home).or_else(|_| env::set_current_dir("/"));
}

/// The user's own socket, with or without a server.
#[derive(Debug)]
pub(crate) struct Own {
    folder: PathBuf,
    /// The beginning of its file names.
    name: String,
}

/// Finds the user's own socket, and makes its folder, which only this user can enter.
pub(crate) fn own() -> Result<Own, Failure> {
    let folders = match runtime_folder() {
        Some(runtime) => vec![runtime],
        // Another user may have taken the name in a shared folder: then a folder in the home is used.
        None => fixed_folders().into_iter().chain(spare_folder()).collect(),
    };
    let (folder, mended) = first_usable(folders).map_err(|err| {
        Failure::new("there is no place for a socket of yours", err).hint("name a path")
    })?;
    if mended {
        report::note(&format!(
            "warning: {} had a wrong mode; it is 0700 again",
            folder.display()
        ));
    }
    let name = own_name(env::vars_os());
    Ok(Own { folder, name })
}

impl Own {
    pub(crate) fn path(&self) -> PathBuf {
        self.file("sock")
    }

    /// Returns the log file of a server that has no terminal.
    pub(crate) fn log(&self) -> PathBuf {
        self.file("log")
    }

    fn file(&self, kind: &str) -> PathBuf {
        self.folder.join(format!("{}.{kind}", self.name))
    }

    /// Takes the lock of the socket, and writes the process number into its file: of two servers that start at once, only
    /// one serves.
    fn lock(&self) -> Result<File, Failure> {
        let path = self.file("lock");
        let failed = |err| Failure::new(&format!("cannot lock {}", path.display()), err);
        match self.try_lock() {
            Ok(Some(mut file)) => {
                let named = file.set_len(0);
                let named = named.and_then(|()| writeln!(file, "{}", process::id()));
                named.map_err(failed)?;
                Ok(file)
            }
            Ok(None) => {
                let words = format!("another server serves {}", self.path().display());
                Err(Failure::of(words).code(TAKEN))
            }
            Err(err) => Err(failed(err)),
        }
    }

    /// Returns whether a server uses the socket, or is about to.
    pub(crate) fn is_taken(&self) -> bool {
        matches!(self.try_lock(), Ok(None))
    }

    fn try_lock(&self) -> io::Result<Option<File>> {
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(self.file("lock"))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(err) => Err(err.into()),
        }
    }
}

/// Returns the name of the server for these variables. Sessions with other settings get another server: a session that
/// forbids writing must not reach a server that writes.
fn own_name(variables: impl Iterator<Item = (OsString, OsString)>) -> String {
    let mut said: Vec<_> = variables
        .filter(|(name, _)| name.to_str().is_some_and(is_setting))
        .map(|(name, value)| [name, in_full(value)].map(OsString::into_encoded_bytes))
        .collect();
    if said.is_empty() {
        return NAME.to_owned();
    }
    said.sort();
    let text = said.concat().join(&0);
    let digest = ring::digest::digest(&ring::digest::SHA256, &text);
    let digits = digest.as_ref().iter().take(6);
    let digits: String = digits.map(|byte| format!("{byte:02x}")).collect();
    format!("{NAME}-{digits}")
}

/// Returns whether a variable is a setting of the server. Variables that say where it listens and who may connect do not
/// count.
fn is_setting(name: &str) -> bool {
    const OTHERS: [&str; 11] = [
        "LMCP_ALLOW_HOST",
        "LMCP_ALLOW_ORIGIN",
        "LMCP_HOST",
        "LMCP_HTTP",
        "LMCP_IDENTITY_FD",
        "LMCP_IDENTITY_FILE",
        "LMCP_PORT",
        "LMCP_SOCKET",
        "LMCP_TOKEN",
        "LMCP_TRANSPORT",
        "LMCP_UNIX",
    ];
    name.starts_with("LMCP_") && !OTHERS.contains(&name)
}

/// Makes a value absolute if it is a path in this folder.
fn in_full(value: OsString) -> OsString {
    let is_path = Path::new(&value).exists() && !Path::new(&value).is_absolute();
    if is_path {
        std::path::absolute(&value).map_or(value, PathBuf::into_os_string)
    } else {
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(variables: &[(&str, &str)]) -> String {
        let variables = variables.iter();
        own_name(variables.map(|(name, value)| (OsString::from(name), OsString::from(value))))
    }

    #[test]
    fn other_settings_are_another_server() {
        assert_eq!(name(&[]), "serve");
        assert_eq!(name(&[("HOME", "/x"), ("LMCP_SOCKET", "/x")]), "serve");
        let strict = name(&[("LMCP_READ_ONLY", "true"), ("LMCP_ROOT", "/x")]);
        assert_eq!(
            strict,
            name(&[("LMCP_ROOT", "/x"), ("LMCP_READ_ONLY", "true")])
        );
        assert_ne!(strict, name(&[("LMCP_ROOT", "/x")]));
        assert_ne!(strict, "serve");
    }
}
