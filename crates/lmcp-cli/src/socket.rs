//! The unix socket of `serve`: one that is named, the user's own, or one that a service manager passes on.

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

/// What the files of the user's own server begin with, where `lmcp proxy` looks when nobody says where.
const NAME: &str = "serve";

/// The code of a server that ends because there is one already: who started it need not mind.
pub(crate) const TAKEN: u8 = 75;

/// Where to listen, before anything is done about it.
pub(crate) enum Asked {
    Nowhere,
    PassedOn(Unix),
    Own(Own),
    At(PathBuf),
}

/// A socket, and what makes sure that there is one server on it.
pub(crate) type Listening = (Unix, Option<File>);

/// The socket that the options ask for. To be done before the server leaves its folder.
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

/// Listens there.
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

/// Is a socket passed on to this process?
fn is_passed_on() -> bool {
    let process = env::var("LISTEN_PID").ok();
    env::var_os("LISTEN_FDS").is_some()
        && process.is_some_and(|process| process == process::id().to_string())
}

/// The socket of a systemd unit. There can be more than one; the first counts.
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

/// Leaves the terminal: who started this may go, and its terminal too.
pub(crate) fn detach() {
    // Fails for the leader of a group, which has no terminal to lose then.
    let _ = rustix::process::setsid();
    let home = env::var_os("HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from);
    // Any folder will do that is not in anybody's way.
    let _ = env::set_current_dir(home).or_else(|_| env::set_current_dir("/"));
}

/// The user's own socket, whether anybody listens there or not.
#[derive(Debug)]
pub(crate) struct Own {
    folder: PathBuf,
    /// What the names of its files begin with.
    name: String,
}

/// Finds it, and makes its folder, which only this user can enter.
pub(crate) fn own() -> Result<Own, Failure> {
    let folders = match runtime_folder() {
        Some(runtime) => vec![runtime],
        // Somebody else may have taken the name in a shared folder: then it is one in the home.
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

    /// Where the server says what it says, when nobody sits in front of it.
    pub(crate) fn log(&self) -> PathBuf {
        self.file("log")
    }

    fn file(&self, kind: &str) -> PathBuf {
        self.folder.join(format!("{}.{kind}", self.name))
    }

    /// Held by the server of that socket, whose process it names: of two that start at once, one serves.
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

    /// Does somebody serve it, or is about to?
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

/// Sessions whose variables ask for another server get another one: who says that nothing is to be written must not come
/// to a server that writes.
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

/// A variable that says something about the server, but for where it listens and who may come in there.
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

/// What looks like a path in this folder is one.
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
