//! The identity for a server that asks for one: credentials in a file, or in an inherited descriptor.

use std::{
    fmt,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use serde::Deserialize;

use crate::{Error, limits::IDENTITY_BYTES};

/// The place of a child's credentials: `{"socket": PATH, "identity": TOKEN}`.
#[derive(Debug)]
pub struct Identity {
    source: Source,
    /// The token may be shown to any named server, and not only to the one in the credentials.
    pub(crate) for_any: bool,
}

#[derive(Debug)]
enum Source {
    /// The file is read each time: a server that was restarted may have written another one.
    File(PathBuf),
    Read(Credentials),
}

/// A token, and the socket of the server that it is for.
#[derive(Clone, Deserialize)]
pub(crate) struct Credentials {
    pub(crate) socket: PathBuf,
    #[serde(rename = "identity")]
    pub(crate) token: String,
    /// Locked while the host that knows the token lives. Absent if the host can come back.
    pub(crate) host_lock: Option<PathBuf>,
    /// The host can come back, and removes this file only when the identity has ended.
    #[serde(default)]
    pub(crate) returns: bool,
    /// The socket of the host before, which sent the child to this host. A process that still names the old socket means
    /// this host.
    pub(crate) was: Option<PathBuf>,
}

/// The reason why there are no credentials.
#[derive(Debug)]
pub(crate) enum Unread {
    /// The file does not exist.
    Absent(Error),
    Unfit(Error),
}

impl From<Unread> for Error {
    fn from(unread: Unread) -> Self {
        match unread {
            Unread::Absent(err) | Unread::Unfit(err) => err,
        }
    }
}

impl Identity {
    /// Uses a file that a person named: its token may be shown to any server that they name, too.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self {
            source: Source::File(path.into()),
            for_any: true,
        }
    }

    /// Uses a file that the environment names. Its token is shown only to the server in the credentials, because a process
    /// that inherits the environment may want to talk to another server.
    pub fn inherited(path: impl Into<PathBuf>) -> Self {
        Self {
            source: Source::File(path.into()),
            for_any: false,
        }
    }

    /// Uses a descriptor that the environment names. It is read now, and only once.
    ///
    /// # Errors
    /// The descriptor does not exist, does not hold credentials, or is a file that belongs to another user or is open to
    /// others.
    pub fn descriptor(number: u32) -> Result<Self, Error> {
        let open = |folder: &str| File::open(format!("{folder}/{number}"));
        let read = open("/proc/self/fd").or_else(|_| open("/dev/fd"));
        let failed = |err: io::Error| {
            Error::new(format!(
                "cannot read an identity from descriptor {number}: {err}"
            ))
        };
        let read = read.and_then(|file| {
            lmcp_private::expect_secret(&file)?;
            credentials(file)
        });
        let credentials = read.map_err(failed)?;
        Ok(Self {
            source: Source::Read(credentials),
            for_any: false,
        })
    }

    pub(crate) fn read(&self) -> Result<Credentials, Unread> {
        let path = match &self.source {
            Source::Read(credentials) => return Ok(credentials.clone()),
            Source::File(path) => path,
        };
        let mut read = lmcp_private::open_secret(path);
        if let Err(err) = &read
            && err.kind() == io::ErrorKind::PermissionDenied
            && mend(path)
        {
            read = lmcp_private::open_secret(path);
        }
        let read = read.and_then(credentials);
        read.map_err(|err| {
            let shown = path.display();
            let error = Error::new(format!("cannot use the identity file `{shown}`: {err}"));
            match err.kind() {
                io::ErrorKind::NotFound => Unread::Absent(error),
                _ => Unread::Unfit(error),
            }
        })
    }
}

/// Restores the modes of a file of ours, and of the two folders above it that exist for such files alone. A confined command
/// can change the modes of all files that its user owns, also of the runtime folder of the user. Returns true if the file
/// may be readable now.
fn mend(path: &Path) -> bool {
    let Some(folder) = path.parent() else {
        return false;
    };
    let above = folder.parent().unwrap_or(folder);
    let name = above.file_name().unwrap_or_default().as_encoded_bytes();
    if !name.starts_with(b"lmcp") {
        return false;
    }
    // The folder that holds them may be closed, too.
    lmcp_private::restore(above);
    let _ = lmcp_private::runtime_folder();
    let mended = [lmcp_private::mend(above), lmcp_private::mend(folder)];
    let file = lmcp_private::mend_file(path);
    mended.iter().any(Result::is_ok) || file.is_ok()
}

fn credentials(mut file: impl Read) -> io::Result<Credentials> {
    let mut text = Vec::new();
    loop {
        let mut part = [0; 512];
        let read = file.read(&mut part)?;
        text.extend_from_slice(part.get(..read).unwrap_or_default());
        match serde_json::from_slice::<Credentials>(&text) {
            // The writer of a pipe may keep it open, so its end is not waited for.
            Ok(credentials) if !credentials.token.is_empty() => return Ok(credentials),
            _ if read > 0 && text.len() < IDENTITY_BYTES => {}
            _ => {
                let words = "it does not hold {\"socket\": PATH, \"identity\": TOKEN}";
                return Err(io::Error::new(io::ErrorKind::InvalidData, words));
            }
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("socket", &self.socket)
            .finish_non_exhaustive()
    }
}
