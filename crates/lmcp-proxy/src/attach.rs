//! The way to a server: which socket, and what is said there first.

use std::{
    cell::{Cell, RefCell},
    os::fd::{AsRawFd as _, OwnedFd},
    path::{Path, PathBuf},
};

use lmcp_private::mend_file;
use lmcp_wire::greeting::Greeting;
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use rustix::{
    fs::{FlockOperation, Mode, OFlags, flock, open},
    io::Errno,
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with},
};

use crate::{
    Error,
    identity::{Credentials, Identity, Unread},
    target::Target,
};

/// The way to a server, to be gone as often as it takes.
pub struct Way {
    /// `None`: the credentials say it.
    socket: Option<PathBuf>,
    identity: Option<Identity>,
    start: Option<Start>,
    /// The lock of the host that the credentials were from when they could be read last.
    host_lock: RefCell<Option<PathBuf>>,
    /// That host removes them only when the identity has ended.
    is_kept: Cell<bool>,
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
    /// Nobody is there, and nobody ever will be who knows us.
    Gone(Error),
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
            host_lock: RefCell::default(),
            is_kept: Cell::default(),
        };
        // What is wrong from the beginning is told at once, and not tried again.
        way.find().map_err(Error::from)?;
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
        let (path, token) = self.find().map_err(|unread| self.judge(unread))?;
        let failed = |err: Errno| Error::new(format!("cannot reach `{}`: {err}", path.display()));
        let socket = reach(&path).or_else(|err| match err {
            // A confined command can change the mode of every file of its user, our socket among them.
            Errno::ACCESS if mend_file(&path).is_ok() => reach(&path),
            _ => Err(err),
        });
        let socket = socket.map_err(|err| match err {
            Errno::NOENT | Errno::CONNREFUSED => self.absent(failed(err)),
            _ => failed(err).into(),
        })?;
        let Some(token) = token else {
            return Ok((socket, None));
        };
        // Not rustix's, which fails where the server is in another namespace and its process has no number here.
        let peer = getsockopt(&socket, PeerCredentials);
        let peer = peer.map_err(|err| failed(Errno::from_raw_os_error(err as i32)))?;
        let owner = peer.uid();
        if !lmcp_private::is_ours(owner) {
            let words = format!(
                "`{}` is served by user {owner}, who is not to see our identity",
                path.display(),
            );
            return Err(Error::new(words).into());
        }
        Ok((socket, Some(Greeting::new(token))))
    }

    /// Nobody listens. Whether somebody will depends on who it was.
    fn absent(&self, err: Error) -> Miss {
        let lock = self.host_lock.borrow();
        if lock.as_ref().is_some_and(|lock| !is_held(lock)) {
            return Miss::Gone(Error::new(HOST_ENDED));
        }
        match self.start.as_ref().map(|start| start()) {
            Some(Ok(())) => Miss::Starting,
            Some(Err(why)) => Miss::Useless(Error::new(why)),
            None => Miss::Absent(err),
        }
    }

    /// The credentials are gone, or cannot be used. A host that has a lock, or comes back, removes them only when the
    /// identity has ended.
    fn judge(&self, unread: Unread) -> Miss {
        match unread {
            Unread::Absent(_) if self.is_kept.get() => Miss::Gone(Error::new(IDENTITY_ENDED)),
            Unread::Absent(err) | Unread::Unfit(err) => Miss::Absent(err),
        }
    }

    /// Where to go, and the token to show there.
    fn find(&self) -> Result<(PathBuf, Option<String>), Unread> {
        let Some(identity) = &self.identity else {
            let none = || Unread::Unfit(Error::new("no server is named"));
            return Ok((self.socket.clone().ok_or_else(none)?, None));
        };
        let Credentials {
            socket,
            token,
            host_lock,
            returns,
            was,
        } = identity.read()?;
        let named = self.socket.clone();
        match named.filter(|named| Some(named) != was.as_ref()) {
            // It is another server, who is not to see the token and whose life has nothing to do with it.
            Some(named) if named != socket && !identity.for_any => Ok((named, None)),
            named => {
                self.is_kept.set(returns || host_lock.is_some());
                *self.host_lock.borrow_mut() = host_lock;
                Ok((named.unwrap_or(socket), Some(token)))
            }
        }
    }
}

/// What cannot be mended by waiting.
const HOST_ENDED: &str =
    "the program that gave this process its identity has ended, and nobody else knows it";
const IDENTITY_ENDED: &str =
    "the identity of this process has ended: the program that gave it has taken it back";

/// Does a host hold this lock? What cannot be told counts as held.
fn is_held(lock: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    match open(lock, flags, Mode::empty()) {
        Ok(file) => flock(&file, FlockOperation::NonBlockingLockShared).is_err(),
        Err(err) => err != Errno::NOENT,
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
