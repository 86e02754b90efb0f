//! System calls for the files of sockets, on macOS.
//!
//! There, a server whose queue of connections is full refuses connections as a dead server does; Linux lets them wait. So a
//! flooded server may lose its name to another.

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

/// Makes a socket that never waits.
pub(super) fn socket_to_knock() -> Result<OwnedFd, Errno> {
    let socket = socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    fcntl_setfd(&socket, FdFlags::CLOEXEC)?;
    ioctl_fionbio(&socket, true)?;
    Ok(socket)
}

/// Returns nothing: macOS has no short path of an open folder. The path of a socket has at most 103 bytes.
pub(super) fn short_path(_: &File) -> Option<PathBuf> {
    None
}

/// Gives a socket a free name, by a rename, because file systems of macOS give sockets no second name.
pub(super) fn name_socket(socket: &Path, name: &Path) -> io::Result<()> {
    Ok(renameat_with(
        CWD,
        socket,
        CWD,
        name,
        RenameFlags::NOREPLACE,
    )?)
}

/// Always true: macOS cannot tell whether the socket listens. If it does not, each `accept` fails.
#[expect(clippy::unnecessary_wraps, reason = "elsewhere it can fail")]
pub(super) fn takes_connections(_: &UnixListener) -> io::Result<bool> {
    Ok(true)
}
