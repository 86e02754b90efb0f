//! A folder for one child, which only this user can enter, with its credentials and other files for it.
//!
//! A secret goes into a file, never on a command line, where everybody can read it. The folder is removed with its
//! [`Child`]. If the program was killed, the folder is removed after the program and the child's process have both ended.
//!
//! [`Child`]: crate::Child

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, symlink},
    path::{Path, PathBuf},
};

use rustix::process::Pid;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    lock::{self, Lock, is_held},
    register,
    stat::Started,
};

/// The end of the names of children's folders.
pub(crate) const SUFFIX: &str = ".child";

/// Locked while the program has its [`Child`](crate::Child).
const LOCK: &str = "lock";

/// The file with the credentials of the child.
const CREDENTIALS: &str = "identity.json";

/// The greatest number of bytes that is read of a file: far more than an inbox holds.
const MOST_BYTES: u64 = 64 << 20;

/// The file that names the process of the child.
const PROCESS: &str = "process.json";

/// The data that a child needs to connect.
#[derive(Serialize)]
pub(crate) struct Credentials<'a> {
    pub(crate) socket: &'a Path,
    pub(crate) identity: &'a str,
    /// A file that is locked while the host lives: a process that cannot reach the socket sees from the lock whether to
    /// wait. Absent for a host that comes back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) host_lock: Option<&'a Path>,
    /// Another host may take the place of this one: a process that cannot reach the socket waits while the file with the
    /// credentials exists.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) returns: bool,
}

/// The process of a child, for a later reader of the folder.
#[derive(Deserialize, Serialize)]
struct Process {
    pid: i32,
    start: u64,
    namespace: Option<u64>,
}

/// The folder, which is removed with all its files when this is dropped.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    credentials: PathBuf,
    /// A link to the folder beside the socket, if a host at another path made the folder. The next host finds the folder by
    /// this link.
    link: Option<PathBuf>,
    /// The folder is left for the next host.
    pub(crate) stays: bool,
    _lock: Lock,
}

impl Folder {
    /// Makes the folder beside the socket. Its name contains the id of the child.
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

    /// Makes a link, so that the next host at the same socket finds the folder at another path.
    pub(crate) fn link(&mut self, at: PathBuf) -> io::Result<()> {
        match symlink(&self.path, &at) {
            Err(err) if err.kind() != io::ErrorKind::AlreadyExists => return Err(err),
            _ => self.link = Some(at),
        }
        Ok(())
    }

    /// Writes the process of the child into the folder.
    pub(crate) fn note(&self, process: Started) -> io::Result<()> {
        let process = Process {
            pid: process.process.as_raw_pid(),
            start: process.at,
            namespace: register::namespace(),
        };
        match replace(&self.path.join(PROCESS), &process) {
            // A child that already runs may remove its folder. Then the folder is not found, and the child runs on.
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

/// Writes into the credentials of a child whether its host holds a lock while it lives, or comes back. The rest stays.
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

/// Writes into the credentials of a child that a host at another socket takes it over.
pub(crate) fn move_credentials(folder: &Path, socket: &Path) -> io::Result<()> {
    let mut credentials = read_credentials(folder)?;
    let was = credentials.insert("socket".into(), serde_json::to_value(socket)?);
    // A child that moves again keeps the first socket, which it was told at its start.
    credentials.entry("was").or_insert(was.unwrap_or_default());
    replace(&folder.join(CREDENTIALS), &credentials)?;
    change_credentials(folder, None)
}

/// Returns the socket in the credentials of a child.
pub(crate) fn socket_of(folder: &Path) -> Option<PathBuf> {
    let socket = read_credentials(folder).ok()?.remove("socket")?;
    serde_json::from_value(socket).ok()
}

fn read_credentials(folder: &Path) -> io::Result<Map<String, Value>> {
    Ok(serde_json::from_slice(&read(&folder.join(CREDENTIALS))?)?)
}

/// Reads a file of a folder. Does not wait at a pipe, and refuses a file that is not a regular file of this user or is too
/// long.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = lock::open(OpenOptions::new().read(true), path)?;
    let found = file.metadata()?;
    if !found.is_file() || !lmcp_private::is_ours(found.uid()) || found.len() > MOST_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the folder of a child of the host at this socket.
pub(crate) fn path_for(socket: &Path, child: &str) -> PathBuf {
    socket.with_extension(format!("{child}{SUFFIX}"))
}

/// Replaces a file in one step, so that nobody reads a half of it.
pub(crate) fn replace(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let draft = path.with_extension("new");
    // A killed program may have left a draft.
    let _ = fs::remove_file(&draft);
    write(&draft, value)?;
    fs::rename(&draft, path)
}

/// Returns whether no process is left that could use this folder of a child: its program has dropped the `Child`, and the
/// child's process has ended. A process of another namespace cannot be judged, and counts as alive. Call it only after the
/// host is gone.
pub(crate) fn is_left_over(folder: &Path) -> bool {
    if is_held(&folder.join(LOCK)) {
        return false;
    }
    let text = match read(&folder.join(PROCESS)) {
        Ok(text) => text,
        // The host was killed before it had started a process.
        Err(err) if err.kind() == io::ErrorKind::NotFound => return true,
        // A file of another user or kind counts like a file that cannot be parsed.
        Err(err) => return err.kind() == io::ErrorKind::InvalidData,
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
