//! The user of a TCP connection, on systems that do not tell it: macOS and Windows have tables of sockets, but only `unsafe`
//! code can read them. So no caller and no server is trusted there because of its address.

use std::{io, net::SocketAddr};

use crate::{TcpSocket, refused};

/// Whether this system tells which user made a TCP connection on this machine.
pub const fn tells_tcp_users() -> bool {
    false
}

/// Finds the socket with these addresses: its own, and the one that it is connected to.
///
/// # Errors
/// Always: this system does not tell.
pub fn tcp_socket(_: SocketAddr, _: SocketAddr) -> io::Result<Option<TcpSocket>> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "this system does not tell which user made a connection",
    ))
}

/// Refuses every server on this machine: it may belong to another user, who would read everything that is sent to it.
///
/// # Errors
/// Always, in words that say so.
pub fn expect_own_server(_: SocketAddr, _: SocketAddr) -> io::Result<()> {
    Err(refused(
        "nobody can tell whose server it is: this system does not say which user listens on a port; use `https`, or send secrets all the same with `plain_secrets`",
    ))
}
