//! Which users are served over loopback without a token: the one that this server runs as, and root.

use std::{
    io,
    net::{SocketAddr, UdpSocket},
};

use lmcp_core::transport::LocalSocket;
use lmcp_private::{Whose, tcp_socket};
use tokio::net::TcpStream;

/// The socket at the other end of a connection. `None`: nobody on this machine has it open, or nobody in this network
/// namespace.
pub(crate) fn socket_of_peer(stream: &TcpStream) -> io::Result<Option<LocalSocket>> {
    let found = tcp_socket(stream.peer_addr()?, stream.local_addr()?)?;
    Ok(found.map(|socket| LocalSocket::new(socket.uid, socket.inode)))
}

/// Why the user who made a connection is not served: words for that user. `None`: it is the user of this server, or root.
pub(crate) fn refusal(found: &io::Result<Option<LocalSocket>>) -> Option<String> {
    const UNKNOWN: &str = "it cannot be told which user this connection is of";
    let why = match found {
        Ok(Some(socket)) => match lmcp_private::whose(socket.uid) {
            Whose::Ours | Whose::Roots => return None,
            Whose::Others => format!("this connection is of user {}", socket.uid),
            Whose::Unknown => format!(
                "{UNKNOWN}: {} stands for every user without a number in the user namespace of this server",
                socket.uid
            ),
        },
        Ok(None) => UNKNOWN.to_owned(),
        Err(err) => format!("{UNKNOWN}: {err}"),
    };
    Some(format!(
        "{why}, and without a token only the user of this server and root are served; \
         start it with --token-file, or with --any-local-user to serve every user of this machine"
    ))
}

/// Is this an address of this machine? Only then can a socket be bound to it.
pub(crate) fn is_of_this_machine(mut address: SocketAddr) -> bool {
    address.set_port(0);
    address.ip().to_canonical().is_loopback() || UdpSocket::bind(address).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_is_not_there_is_nobodys() {
        let words = refusal(&Ok(None)).expect("nobody is not served");
        assert!(words.contains("which user this connection is of"));
    }
}
