//! Whose a TCP connection on this machine is, on systems that do not tell: macOS and Windows have tables of sockets, but no
//! way to read them without `unsafe` code. Nobody is trusted there because of where a connection comes from or leads to.

use std::{io, net::SocketAddr};

use crate::{TcpSocket, refused};

/// Does this system tell which user made a TCP connection on this machine?
pub const fn tells_tcp_users() -> bool {
    false
}

/// The socket with these addresses: its own, and the one that it is connected to.
///
/// # Errors
/// Always: this system does not tell.
pub fn tcp_socket(_: SocketAddr, _: SocketAddr) -> io::Result<Option<TcpSocket>> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "this system does not tell which user made a connection",
    ))
}

/// Refuses every server on this machine: it may be another user's, who would read whatever is sent to it.
///
/// # Errors
/// Always, in words that say so.
pub fn expect_own_server(_: SocketAddr, _: SocketAddr) -> io::Result<()> {
    Err(refused(
        "nobody can tell whose server it is: this system does not say which user listens on a port; use `https`, or send secrets all the same with `plain_secrets`",
    ))
}
