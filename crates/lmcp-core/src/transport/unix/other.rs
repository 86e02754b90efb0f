//! Sockets with names, on macOS.
//!
//! A server whose queue of connections is full refuses them there, as a dead one does; Linux lets them wait. So a name may be
//! taken from a server that is flooded at that moment.

use std::{
    fs::File,
    io,
    os::{fd::OwnedFd, unix::net::UnixListener},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{CWD, RenameFlags, renameat_with},
    io::{Errno, FdFlags, fcntl_setfd, ioctl_fionbio},
    net::{AddressFamily, SocketType, socket},
};

/// A socket that waits for nobody.
pub(super) fn socket_to_knock() -> Result<OwnedFd, Errno> {
    let socket = socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    fcntl_setfd(&socket, FdFlags::CLOEXEC)?;
    ioctl_fionbio(&socket, true)?;
    Ok(socket)
}

/// There is no short way to say where an open folder is: a socket's path has at most 103 bytes.
pub(super) fn short_path(_: &File) -> Option<PathBuf> {
    None
}

/// Gives a socket a name that is free. It is moved there, because file systems of macOS give sockets no second name.
pub(super) fn name_socket(socket: &Path, name: &Path) -> io::Result<()> {
    Ok(renameat_with(
        CWD,
        socket,
        CWD,
        name,
        RenameFlags::NOREPLACE,
    )?)
}

/// Does this socket listen? It cannot be asked: who accepts from one that does not gets an error each time.
#[expect(clippy::unnecessary_wraps, reason = "elsewhere it can fail")]
pub(super) fn takes_connections(_: &UnixListener) -> io::Result<bool> {
    Ok(true)
}
