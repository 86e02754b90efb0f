//! The way to a server: which socket, and what is said there first.

use std::{
    os::fd::{AsRawFd as _, OwnedFd},
    path::{Path, PathBuf},
};

use lmcp_wire::greeting::Greeting;
use rustix::{
    fs::{Mode, OFlags, open},
    io::Errno,
    net::{
        AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with,
        sockopt::socket_peercred,
    },
    process::geteuid,
};

use crate::{Error, identity::Identity, target::Target};

/// The way to a server, to be gone as often as it takes.
pub struct Way {
    /// `None`: the credentials say it.
    socket: Option<PathBuf>,
    identity: Option<Identity>,
    start: Option<Start>,
}

/// Starts a server where there is none.
type Start = Box<dyn Fn() -> Result<(), String>>;

/// Why there is no connection.
#[derive(Debug)]
pub(crate) enum Miss {
    /// Nobody is there.
    Absent(Error),
    /// Nobody is there yet.
    Starting,
    /// Nobody is there, and nobody can be started: people should know why.
    Useless(Error),
}

impl From<Error> for Miss {
    fn from(err: Error) -> Self {
        Self::Absent(err)
    }
}

impl Way {
    /// To this target, or else to the one that the credentials name.
    ///
    /// # Errors
    /// Neither names one, or the credentials cannot be read.
    pub fn new(target: Option<Target>, identity: Option<Identity>) -> Result<Self, Error> {
        let socket = match target {
            None => None,
            Some(Target::Socket(path)) => Some(path),
            Some(Target::Url(url)) => {
                return Err(Error::new(format!("`{url}` is not the path of a socket")));
            }
        };
        let way = Self {
            socket,
            identity,
            start: None,
        };
        // What is wrong from the beginning is told at once, and not tried again.
        way.find()?;
        Ok(way)
    }

    /// Where nobody listens, calls this, which starts a server, without waiting for it, or says why it cannot. Called
    /// again, after a while, for as long as there is none.
    #[must_use]
    pub fn starting(mut self, start: impl Fn() -> Result<(), String> + 'static) -> Self {
        self.start = Some(Box::new(start));
        self
    }

    /// Connects, without waiting. If the server is to hear who we are, that is to be said first.
    pub(crate) fn open(&self) -> Result<(OwnedFd, Option<Greeting>), Miss> {
        let (path, token) = self.find()?;
        let failed = |err: Errno| Error::new(format!("cannot reach `{}`: {err}", path.display()));
        let socket = reach(&path).map_err(|err| {
            let is_absent = matches!(err, Errno::NOENT | Errno::CONNREFUSED);
            match self
                .start
                .as_ref()
                .filter(|_| is_absent)
                .map(|start| start())
            {
                Some(Ok(())) => Miss::Starting,
                Some(Err(why)) => Miss::Useless(Error::new(why)),
                None => failed(err).into(),
            }
        })?;
        let Some(token) = token else {
            return Ok((socket, None));
        };
        let owner = socket_peercred(&socket).map_err(failed)?.uid;
        if owner != geteuid() {
            let words = format!(
                "`{}` is served by user {}, who is not to see our identity",
                path.display(),
                owner.as_raw()
            );
            return Err(Error::new(words).into());
        }
        Ok((socket, Some(Greeting::new(token))))
    }

    /// Where to go, and the token to show there.
    fn find(&self) -> Result<(PathBuf, Option<String>), Error> {
        let credentials = self.identity.as_ref().map(|identity| {
            let credentials = identity.read();
            credentials.map(|credentials| (credentials, identity.for_any))
        });
        match (self.socket.clone(), credentials.transpose()?) {
            (Some(socket), None) => Ok((socket, None)),
            (None, Some((credentials, _))) => Ok((credentials.socket, Some(credentials.token))),
            (Some(socket), Some((credentials, for_any))) => {
                let is_for_it = for_any || credentials.socket == socket;
                Ok((socket, is_for_it.then_some(credentials.token)))
            }
            (None, None) => Err(Error::new("no server is named")),
        }
    }
}

impl std::fmt::Debug for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Way")
            .field("socket", &self.socket)
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

fn reach(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match SocketAddrUnix::new(path) {
        Ok(address) => connect(&socket, &address)?,
        // Too long for an address: Linux has a short way to say where a folder is.
        Err(Errno::NAMETOOLONG) => {
            let folder = path.parent().unwrap_or(Path::new("/"));
            let folder = open(folder, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
            let name = path.file_name().unwrap_or_default();
            let short = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string());
            connect(&socket, &SocketAddrUnix::new(short.join(name))?)?;
        }
        Err(err) => return Err(err),
    }
    Ok(socket)
}
