//! The way to a server: finds its socket, and makes the greeting for it.

use std::{
    cell::{Cell, RefCell},
    os::fd::{AsRawFd as _, OwnedFd},
    path::{Path, PathBuf},
};

use lmcp_private::{connect_in_turn, mend_file};
use lmcp_wire::greeting::Greeting;
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use rustix::{
    fs::{FlockOperation, Mode, OFlags, flock, open},
    io::{Errno, ioctl_fionbio},
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with},
};

use crate::{
    Error,
    identity::{Credentials, Identity, Unread},
    limits::FULL_QUEUE_WAIT,
    target::Target,
};

/// The way to a server, which can be opened again and again.
pub struct Way {
    /// `None`: the credentials name the socket.
    socket: Option<PathBuf>,
    identity: Option<Identity>,
    start: Option<Start>,
    /// The host lock in the credentials, when they could last be read.
    host_lock: RefCell<Option<PathBuf>>,
    /// The host removes the credentials only when the identity has ended.
    is_kept: Cell<bool>,
}

/// Starts a server if there is none.
type Start = Box<dyn Fn() -> Result<(), String>>;

/// The reason why there is no connection.
#[derive(Debug)]
pub(crate) enum Miss {
    /// No server listens.
    Absent(Error),
    /// No server listens yet.
    Starting,
    /// No server listens, and none can be started. People should be told why.
    Useless(Error),
    /// No server listens, and no later server will know this identity.
    Gone(Error),
}

impl From<Error> for Miss {
    fn from(err: Error) -> Self {
        Self::Absent(err)
    }
}

impl Way {
    /// Makes a way to this target, or else to the socket that the credentials name.
    ///
    /// # Errors
    /// Neither the target nor the credentials name a socket, or the credentials cannot be read.
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
        // An error at the start is reported at once, and not tried again.
        way.find().map_err(Error::from)?;
        Ok(way)
    }

    /// Sets a function that starts a server without waiting for it, or returns why it cannot. The function is called when no
    /// server listens, and again after a while as long as there is none.
    #[must_use]
    pub fn starting(mut self, start: impl Fn() -> Result<(), String> + 'static) -> Self {
        self.start = Some(Box::new(start));
        self
    }

    /// Connects, without waiting. If the server must know our identity, returns a greeting that has to be sent first.
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
        // rustix's function fails if the server is in another namespace, because its process has no number here.
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

    /// Decides what it means that no server listens. That depends on the host that gave the identity.
    fn absent(&self, err: Error) -> Miss {
        if self.host_has_ended() {
            return Miss::Gone(Error::new(HOST_ENDED));
        }
        match self.start.as_ref().map(|start| start()) {
            Some(Ok(())) => Miss::Starting,
            Some(Err(why)) => Miss::Useless(Error::new(why)),
            None => Miss::Absent(err),
        }
    }

    /// Has the host of the credentials ended, and says nothing of another?
    fn host_has_ended(&self) -> bool {
        let is_free = || {
            let lock = self.host_lock.borrow().clone();
            lock.is_some_and(|lock| !is_held(&lock))
        };
        // A host that another one follows says so in the credentials before it lets go of its lock, perhaps since they were
        // read.
        is_free() && self.find().is_ok() && is_free()
    }

    /// The credentials are gone, or cannot be used. A host that has a lock, or comes back, removes them only when the
    /// identity has ended.
    fn judge(&self, unread: Unread) -> Miss {
        match unread {
            Unread::Absent(_) if self.is_kept.get() => Miss::Gone(Error::new(IDENTITY_ENDED)),
            Unread::Absent(err) | Unread::Unfit(err) => Miss::Absent(err),
        }
    }

    /// Returns the socket, and the token to show there.
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
            // The named socket belongs to another server. That server must not see the token, and the identity does not
            // depend on it.
            Some(named) if named != socket && !identity.for_any => Ok((named, None)),
            named => {
                self.is_kept.set(returns || host_lock.is_some());
                *self.host_lock.borrow_mut() = host_lock;
                Ok((named.unwrap_or(socket), Some(token)))
            }
        }
    }
}

/// Failures that waiting does not repair.
const HOST_ENDED: &str =
    "the program that gave this process its identity has ended, and nobody else knows it";
const IDENTITY_ENDED: &str = "the identity of this process has ended: the child that had it has \
                              ended, or the program that gave it has taken it back";

/// Returns whether a host holds this lock. If that cannot be read, the lock counts as held.
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
    match SocketAddrUnix::new(path) {
        Ok(address) => reach_address(&address),
        // The path is too long for an address. On Linux, a folder has a short path through its open file.
        Err(Errno::NAMETOOLONG) => {
            let folder = path.parent().unwrap_or(Path::new("/"));
            let folder = open(folder, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
            let name = path.file_name().unwrap_or_default();
            let short = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string());
            reach_address(&SocketAddrUnix::new(short.join(name))?)
        }
        Err(err) => Err(err),
    }
}

fn reach_address(address: &SocketAddrUnix) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match connect(&socket, address) {
        // A flood of connections, in which tries from time to time hardly find a place.
        Err(Errno::AGAIN) => {
            let connected = connect_in_turn(address, FULL_QUEUE_WAIT);
            let socket =
                connected.map_err(|err| Errno::from_io_error(&err).unwrap_or(Errno::IO))?;
            ioctl_fionbio(&socket, true)?;
            Ok(socket)
        }
        connected => connected.map(|()| socket),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_host_that_has_just_said_that_another_comes_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("identity.json");
        let say = |more: &str| {
            let text = format!(r#"{{"identity":"t","socket":"/nowhere/host.sock"{more}}}"#);
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        };
        let lock = folder.path().join("host.lock");
        say(&format!(r#","host_lock":{lock:?}"#));
        let way = Way::new(None, Some(Identity::file(&file))).unwrap();
        let nobody = || Error::new("nobody listens");
        assert!(matches!(way.absent(nobody()), Miss::Gone(_)));
        // Between the look at the credentials and the look at the lock.
        say(r#","returns":true"#);
        assert!(matches!(way.absent(nobody()), Miss::Absent(_)));
    }
}
