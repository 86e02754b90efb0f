//! The file of a unix socket: made for its owner alone, taken from the dead and never from the living.

use std::{
    fs::{self, File},
    io,
    os::{
        fd::AsRawFd as _,
        unix::{
            fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _},
            net::UnixListener,
        },
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType},
};

use crate::random;

/// Which file this is, so that nobody else's is removed.
type Identity = (u64, u64);

/// Removes the socket when the server is done with it, unless another took its place.
pub(super) struct SocketFile {
    path: PathBuf,
    identity: Identity,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identify(&self.path).is_ok_and(|found| found == self.identity) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Does somebody listen on this socket? Whoever is too busy to be let in at once does.
pub fn is_served(path: &Path) -> bool {
    !matches!(
        knock(path),
        Err(Errno::CONNREFUSED | Errno::NOENT | Errno::NOTDIR)
    )
}

/// Connects and lets go, without waiting.
fn knock(path: &Path) -> Result<(), Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match SocketAddrUnix::new(path) {
        Err(Errno::NAMETOOLONG) => {
            let (folder, name) = split(path);
            let folder = File::open(folder).map_err(|_| Errno::NOENT)?;
            let short = short_path(&folder).join(name);
            rustix::net::connect(&socket, &SocketAddrUnix::new(short)?)
        }
        address => rustix::net::connect(&socket, &address?),
    }
}

/// Listens there. What a dead server left is replaced; one that answers, or anything that is not a socket, is not.
pub(super) fn bind(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    let folder = File::open(split(path).0)?;
    // Two that start at once take turns, or both would find the place free.
    flock(&folder, FlockOperation::LockExclusive)?;
    if let Ok(found) = fs::symlink_metadata(path) {
        if !found.file_type().is_socket() {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "something that is not a socket is there",
            ));
        }
        if is_served(path) {
            return Err(io::Error::new(
                io::ErrorKind::AddrInUse,
                "another server listens there",
            ));
        }
    }
    // Bound in a folder of our own and moved into place once its mode is right: at no moment can others open it.
    let own = scratch(path)?;
    let bound = bind_in(&own, path);
    let _ = fs::remove_dir_all(&own);
    let listener = bound?;
    let file = SocketFile {
        identity: identify(path)?,
        path: path.to_owned(),
    };
    Ok((listener, file))
}

fn bind_in(own: &Path, path: &Path) -> io::Result<UnixListener> {
    fs::set_permissions(own, fs::Permissions::from_mode(0o700))?;
    let socket = own.join("s");
    let listener = match UnixListener::bind(&socket) {
        // Too long by our folder's name.
        Err(err) if err.kind() == io::ErrorKind::InvalidInput => {
            UnixListener::bind(short_path(&File::open(own)?).join("s"))
        }
        bound => bound,
    }?;
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    fs::rename(&socket, path)?;
    Ok(listener)
}

/// Linux has a short way to say where an open folder is.
fn short_path(folder: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()))
}

/// The folder of a path, and its name there.
fn split(path: &Path) -> (&Path, &Path) {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let name = path.file_name().map_or(Path::new(""), Path::new);
    (folder.unwrap_or(Path::new(".")), name)
}

/// A folder beside the path, with a name so short that a path that fits the system still does.
fn scratch(path: &Path) -> io::Result<PathBuf> {
    let mut taken = Err(io::ErrorKind::AlreadyExists.into());
    for _ in 0..16 {
        let folder = path.with_file_name(format!(".{}", random::hex::<1>()));
        taken = fs::DirBuilder::new().create(&folder).map(|()| folder);
        match &taken {
            Err(err) if err.kind() == io::ErrorKind::AlreadyExists => {}
            _ => break,
        }
    }
    taken
}

fn identify(path: &Path) -> io::Result<Identity> {
    fs::symlink_metadata(path).map(|found| (found.dev(), found.ino()))
}
