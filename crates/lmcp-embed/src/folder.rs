//! A folder for one child, which only this user can enter: its credentials, and whatever else is made for it.
//!
//! A secret goes into a file, never on a command line, where everybody reads it. The folder goes with its [`Child`]; one
//! that a killed program left goes when the program and the child's process have both ended, and not before.
//!
//! [`Child`]: crate::Child

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use rustix::process::Pid;
use serde::{Deserialize, Serialize};

use crate::{
    lock::{Lock, is_held},
    register,
    stat::Started,
};

/// How the folders of children end.
pub(crate) const SUFFIX: &str = ".child";

/// Locked for as long as the program has its [`Child`](crate::Child).
const LOCK: &str = "lock";

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
            credentials: path.join("identity.json"),
            path: path.to_owned(),
            stays: false,
            _lock: lock,
        })
    }

    /// Notes which process the child is.
    pub(crate) fn note(&self, process: Started) -> io::Result<()> {
        let process = Process {
            pid: process.process.as_raw_pid(),
            start: process.at,
            namespace: register::namespace(),
        };
        replace(&self.path.join(PROCESS), &process)
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
    }
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
