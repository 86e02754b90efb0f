//! A folder for one child, which only this user can enter: its credentials, and whatever else is made for it.
//!
//! A secret goes into a file, never on a command line, where everybody reads it. The folder goes with its [`Child`]; one
//! that a killed program left goes when the program and the child's process have both ended, and not before.
//!
//! [`Child`]: crate::Child

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, symlink},
    path::{Path, PathBuf},
};

use rustix::process::Pid;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    lock::{Lock, is_held},
    register,
    stat::Started,
};

/// How the folders of children end.
pub(crate) const SUFFIX: &str = ".child";

/// Locked for as long as the program has its [`Child`](crate::Child).
const LOCK: &str = "lock";

/// What the child comes in with.
const CREDENTIALS: &str = "identity.json";

/// Which process the child is.
const PROCESS: &str = "process.json";

/// What a child needs to come in.
#[derive(Serialize)]
pub(crate) struct Credentials<'a> {
    pub(crate) socket: &'a Path,
    pub(crate) identity: &'a str,
    /// Locked for as long as the host lives: who cannot reach the socket learns here whether to wait. None of a host that
    /// comes back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) host_lock: Option<&'a Path>,
    /// Another host may take this one's place: who cannot reach the socket waits for as long as this file is there.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) returns: bool,
}

/// Which process a child is, for whoever finds its folder.
#[derive(Deserialize, Serialize)]
struct Process {
    pid: i32,
    start: u64,
    namespace: Option<u64>,
}

/// The folder. Goes when this goes, with all that is in it.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    credentials: PathBuf,
    /// A link to it beside the socket, if a host elsewhere made it. The next host finds it by that.
    link: Option<PathBuf>,
    /// It is left for the next host.
    pub(crate) stays: bool,
    _lock: Lock,
}

impl Folder {
    /// Makes it beside the socket, under a name that says whose it is.
    pub(crate) fn make(credentials: &Credentials<'_>, child: &str) -> io::Result<Self> {
        let path = path_for(credentials.socket, child);
        DirBuilder::new().mode(0o700).create(&path)?;
        let folder = Self::reopen(&path)?;
        write(&folder.credentials, credentials)?;
        Ok(folder)
    }

    /// Takes over a folder that another host left, or that was just made.
    pub(crate) fn reopen(path: &Path) -> io::Result<Self> {
        let lock = Lock::take(&path.join(LOCK))?.ok_or(io::ErrorKind::AlreadyExists)?;
        Ok(Self {
            credentials: path.join(CREDENTIALS),
            path: path.to_owned(),
            link: None,
            stays: false,
            _lock: lock,
        })
    }

    /// Has the next host at the same socket find it, though it is elsewhere.
    pub(crate) fn link(&mut self, at: PathBuf) -> io::Result<()> {
        match symlink(&self.path, &at) {
            Err(err) if err.kind() != io::ErrorKind::AlreadyExists => return Err(err),
            _ => self.link = Some(at),
        }
        Ok(())
    }

    /// Notes which process the child is.
    pub(crate) fn note(&self, process: Started) -> io::Result<()> {
        let process = Process {
            pid: process.process.as_raw_pid(),
            start: process.at,
            namespace: register::namespace(),
        };
        match replace(&self.path.join(PROCESS), &process) {
            // A child that is quicker than this may remove its folder. Then nobody finds it, and the child runs all the same.
            Err(err) if err.kind() == io::ErrorKind::NotFound && !self.path.exists() => Ok(()),
            noted => noted,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn credentials(&self) -> &Path {
        &self.credentials
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.stays {
            return;
        }
        lmcp_private::restore_folder_of(&self.path);
        lmcp_private::restore(&self.path);
        let _ = fs::remove_dir_all(&self.path);
        if let Some(link) = &self.link {
            let _ = fs::remove_file(link);
        }
    }
}

/// Says in the credentials of a child whether a host holds a lock for as long as it lives, or comes back. The rest stays.
pub(crate) fn change_credentials(folder: &Path, host_lock: Option<&Path>) -> io::Result<()> {
    let path = folder.join(CREDENTIALS);
    let mut credentials = read_credentials(folder)?;
    credentials.remove("host_lock");
    credentials.remove("returns");
    match host_lock {
        Some(lock) => credentials.insert("host_lock".into(), serde_json::to_value(lock)?),
        None => credentials.insert("returns".into(), true.into()),
    };
    replace(&path, &credentials)
}

/// Says in the credentials of a child that another host goes on with it, at another socket.
pub(crate) fn move_credentials(folder: &Path, socket: &Path) -> io::Result<()> {
    let mut credentials = read_credentials(folder)?;
    let was = credentials.insert("socket".into(), serde_json::to_value(socket)?);
    // A child that moves again was told of its first socket.
    credentials.entry("was").or_insert(was.unwrap_or_default());
    replace(&folder.join(CREDENTIALS), &credentials)?;
    change_credentials(folder, None)
}

/// The socket that the credentials of a child name.
pub(crate) fn socket_of(folder: &Path) -> Option<PathBuf> {
    let socket = read_credentials(folder).ok()?.remove("socket")?;
    serde_json::from_value(socket).ok()
}

fn read_credentials(folder: &Path) -> io::Result<Map<String, Value>> {
    Ok(serde_json::from_slice(&fs::read(
        folder.join(CREDENTIALS),
    )?)?)
}

/// The folder of a child of the host at this socket.
pub(crate) fn path_for(socket: &Path, child: &str) -> PathBuf {
    socket.with_extension(format!("{child}{SUFFIX}"))
}

/// Writes a file anew, in one step, so that nobody reads the half of it.
pub(crate) fn replace(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let draft = path.with_extension("new");
    // What a killed program left of an earlier one.
    let _ = fs::remove_file(&draft);
    write(&draft, value)?;
    fs::rename(&draft, path)
}

/// Is nobody left who could use this folder of a child? Its program must have let go of it, and the child's process have
/// ended. A process of another namespace cannot be judged, and counts as alive. To be asked when its host is gone.
pub(crate) fn is_left_over(folder: &Path) -> bool {
    if is_held(&folder.join(LOCK)) {
        return false;
    }
    let text = match fs::read(folder.join(PROCESS)) {
        Ok(text) => text,
        // The host was killed before it had started anybody.
        Err(err) => return err.kind() == io::ErrorKind::NotFound,
    };
    let Ok(process) = serde_json::from_slice::<Process>(&text) else {
        return true;
    };
    let here = register::namespace();
    let started = Pid::from_raw(process.pid).map(|pid| Started {
        process: pid,
        at: process.start,
    });
    here.is_some() && process.namespace == here && started.is_none_or(Started::has_ended)
}

fn write(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(&serde_json::to_vec(value)?)
}
