//! Sockets with names, on Linux.

use std::{
    fs::{self, File},
    io,
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::net::UnixListener,
    },
    path::{Path, PathBuf},
};

use rustix::{
    io::Errno,
    net::{AddressFamily, SocketFlags, SocketType, socket_with, sockopt::socket_acceptconn},
};

/// A socket that waits for nobody.
pub(super) fn socket_to_knock() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

/// A short way to say where an open folder is, for paths that are too long for a socket.
pub(super) fn short_path(folder: &File) -> Option<PathBuf> {
    Some(PathBuf::from(format!(
        "/proc/self/fd/{}",
        folder.as_raw_fd()
    )))
}

/// Gives a socket a name that is free. A second name instead of a new one, because it never replaces anything.
pub(super) fn name_socket(socket: &Path, name: &Path) -> io::Result<()> {
    fs::hard_link(socket, name)
}

/// Does this socket listen?
pub(super) fn takes_connections(listener: &UnixListener) -> io::Result<bool> {
    Ok(socket_acceptconn(listener)?)
}
