//! System calls for the files of sockets, on Linux.

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

/// Makes a socket that never waits.
pub(super) fn socket_to_knock() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

/// Returns a short path of an open folder, for paths that are too long for a socket.
pub(super) fn short_path(folder: &File) -> Option<PathBuf> {
    Some(PathBuf::from(format!(
        "/proc/self/fd/{}",
        folder.as_raw_fd()
    )))
}

/// Gives a socket a free name, as a hard link: unlike a rename, a link never replaces a file.
pub(super) fn name_socket(socket: &Path, name: &Path) -> io::Result<()> {
    fs::hard_link(socket, name)
}

/// Whether the socket listens.
pub(super) fn takes_connections(listener: &UnixListener) -> io::Result<bool> {
    Ok(socket_acceptconn(listener)?)
}
