//! The file of a unix socket: made for its owner only, and taken over from a dead server, never from a live one.

use std::{
    fs::{self, File},
    io,
    os::unix::{
        fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _},
        net::UnixListener,
    },
    path::{Path, PathBuf},
};

use rustix::{io::Errno, net::SocketAddrUnix};

use super::system::{name_socket, short_path, socket_to_knock};
use crate::random;

/// Identifies a file, so that the file of another server is not removed.
type Identity = (u64, u64);

/// Removes the socket when the server ends, unless another file took its place.
pub(super) struct SocketFile {
    path: PathBuf,
    identity: Identity,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        lmcp_private::restore_folder_of(&self.path);
        if identify(&self.path).is_ok_and(|found| found == self.identity) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Whether a program listens on this socket, even if it is too busy to answer at once.
pub fn is_served(path: &Path) -> bool {
    !matches!(
        knock(path),
        Err(Errno::CONNREFUSED | Errno::NOENT | Errno::NOTDIR)
    )
}

/// Connects and disconnects, without waiting.
fn knock(path: &Path) -> Result<(), Errno> {
    let socket = socket_to_knock()?;
    match SocketAddrUnix::new(path) {
        Err(Errno::NAMETOOLONG) => {
            let (folder, name) = split(path);
            let folder = File::open(folder).map_err(|_| Errno::NOENT)?;
            let short = short_path(&folder).ok_or(Errno::NAMETOOLONG)?.join(name);
            rustix::net::connect(&socket, &SocketAddrUnix::new(short)?)
        }
        address => rustix::net::connect(&socket, &address?),
    }
}

/// Listens at the path. Replaces the socket of a dead server, but neither that of a live one nor a file that is no socket.
///
/// This never waits, so nobody can hold it up. If several servers start at the same time, the file system decides between them.
pub(super) fn bind(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    lmcp_private::expect_safe_name(path).map_err(|err| match err.kind() {
        io::ErrorKind::PermissionDenied => {
            let words = format!("{err}; a folder of your own is a better place");
            io::Error::new(err.kind(), words)
        }
        _ => err,
    })?;
    expect_free(path)?;
    // The socket is bound in a folder of our own, and moved into place once its mode is right: at no moment can others open it.
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

/// Checks that no live server and no other file is at the path.
fn expect_free(path: &Path) -> io::Result<()> {
    let Ok(found) = fs::symlink_metadata(path) else {
        return Ok(());
    };
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
    Ok(())
}

fn bind_in(own: &Path, path: &Path) -> io::Result<UnixListener> {
    let socket = own.join("s");
    let listener = match UnixListener::bind(&socket) {
        // The path is too long because of the name of our folder.
        Err(err) if err.kind() == io::ErrorKind::InvalidInput => {
            let folder = File::open(own)?;
            let short = short_path(&folder).ok_or(err)?;
            UnixListener::bind(short.join("s"))
        }
        bound => bound,
    }?;
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    put(own, &socket, path)?;
    Ok(listener)
}

/// Gives a socket its name, and never takes the name from a live server.
fn put(own: &Path, socket: &Path, path: &Path) -> io::Result<()> {
    for _ in 0..TRIES {
        match name_socket(socket, path) {
            Err(err) if err.kind() == io::ErrorKind::AlreadyExists => {}
            linked => return linked,
        }
        expect_free(path)?;
        // The file is moved away before the last check: another server may have put its socket there meanwhile.
        let taken = own.join("t");
        match fs::rename(path, &taken) {
            Err(err) if err.kind() != io::ErrorKind::NotFound => return Err(err),
            Err(_) => continue,
            Ok(()) => {}
        }
        if expect_free(&taken).is_err() {
            // The server is alive, so its socket gets the name back.
            let _ = name_socket(&taken, path);
        }
        match fs::remove_file(&taken) {
            Err(err) if err.kind() != io::ErrorKind::NotFound => return Err(err),
            _ => {}
        }
    }
    Err(io::Error::new(
        io::ErrorKind::AddrInUse,
        "others keep taking this name",
    ))
}

/// How often a name is tried if other servers take and free it at the same time.
const TRIES: usize = 16;

/// Splits a path into its folder and the name in it.
fn split(path: &Path) -> (&Path, &Path) {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let name = path.file_name().map_or(Path::new(""), Path::new);
    (folder.unwrap_or(Path::new(".")), name)
}

/// Makes a folder beside the path that only this user can enter, with a random name.
fn scratch(path: &Path) -> io::Result<PathBuf> {
    let folder = path.with_file_name(format!(".{}", random::hex::<8>()));
    fs::DirBuilder::new().mode(0o700).create(&folder)?;
    // A default access list of the outer folder would replace the mode.
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700))?;
    Ok(folder)
}

fn identify(path: &Path) -> io::Result<Identity> {
    fs::symlink_metadata(path).map(|found| (found.dev(), found.ino()))
}
