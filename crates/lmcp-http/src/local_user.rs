//! Whose process is at the other end of a loopback connection, as the kernel's table of sockets says.
//!
//! A port on loopback can be reached by every user of the machine. Where nobody is asked for a token, the user decides:
//! the one that this server runs as, and root.

use std::{
    fs, io,
    net::{IpAddr, SocketAddr, UdpSocket},
};

use lmcp_core::transport::LocalSocket;
use rustix::{
    io::Errno,
    net::{
        AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType,
        netlink::{SOCK_DIAG, SocketAddrNetlink},
    },
    process::geteuid,
};
use tokio::net::TcpStream;

/// The socket at the other end of a connection. `None`: nobody on this machine has it open, or nobody in this network
/// namespace.
pub(crate) fn socket_of_peer(stream: &TcpStream) -> io::Result<Option<LocalSocket>> {
    find(
        canonical(stream.peer_addr()?),
        canonical(stream.local_addr()?),
    )
}

/// Why the user who made a connection is not served: words for that user. `None`: it is the user of this server, or root.
pub(crate) fn refusal(found: &io::Result<Option<LocalSocket>>) -> Option<String> {
    let why = match found {
        Ok(Some(socket)) if socket.uid == 0 || socket.uid == geteuid().as_raw() => return None,
        Ok(Some(socket)) => format!("this connection is of user {}", socket.uid),
        Ok(None) => "it cannot be told which user this connection is of".to_owned(),
        Err(err) => format!("it cannot be told which user this connection is of: {err}"),
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

fn find(peer: SocketAddr, local: SocketAddr) -> io::Result<Option<LocalSocket>> {
    match ask(peer, local) {
        Ok(found) => Ok(found),
        Err(Errno::NOENT) => Ok(None),
        // Not every sandbox has this way to ask.
        Err(_) => read_table(peer, local),
    }
}

// From the kernel's `netlink.h`, `sock_diag.h` and `inet_diag.h`.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const TCP: u8 = 6;
const HEADER: usize = 16;
const REQUEST: usize = HEADER + 56;
/// Where the user and the inode are in an answer.
const USER: usize = HEADER + 64;
const INODE: usize = USER + 4;

/// Asks for this one socket.
fn ask(peer: SocketAddr, local: SocketAddr) -> Result<Option<LocalSocket>, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let kind = SocketType::RAW;
    let socket = rustix::net::socket_with(AddressFamily::NETLINK, kind, flags, Some(SOCK_DIAG))?;
    let kernel = SocketAddrNetlink::new(0, 0);
    rustix::net::sendto(&socket, &request(peer, local), SendFlags::empty(), &kernel)?;
    // The kernel answers before it returns from sending.
    let mut answer = [0; 512];
    let (length, _) = rustix::net::recv(&socket, &mut answer[..], RecvFlags::empty())?;
    read_answer(answer.get(..length).unwrap_or_default())
}

fn request(peer: SocketAddr, local: SocketAddr) -> Vec<u8> {
    let family = if peer.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let mut request = Vec::with_capacity(REQUEST);
    request.extend_from_slice(&(REQUEST as u32).to_ne_bytes());
    request.extend_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request.extend_from_slice(&NLM_F_REQUEST.to_ne_bytes());
    request.resize(HEADER, 0);
    request.extend_from_slice(&[family.as_raw().to_ne_bytes()[0], TCP, 0, 0]);
    // In every state.
    request.extend_from_slice(&u32::MAX.to_ne_bytes());
    request.extend_from_slice(&peer.port().to_be_bytes());
    request.extend_from_slice(&local.port().to_be_bytes());
    request.extend_from_slice(&octets(peer.ip()));
    request.extend_from_slice(&octets(local.ip()));
    // Whichever interface, and whatever cookie.
    request.extend_from_slice(&0_u32.to_ne_bytes());
    request.extend_from_slice(&[0xff; 8]);
    request
}

fn read_answer(answer: &[u8]) -> Result<Option<LocalSocket>, Errno> {
    let number = |at: usize| {
        let bytes = answer.get(at..at + 4)?;
        Some(u32::from_ne_bytes(bytes.try_into().ok()?))
    };
    let kind = answer.get(4..6).and_then(|bytes| bytes.try_into().ok());
    match kind.map(u16::from_ne_bytes) {
        Some(SOCK_DIAG_BY_FAMILY) => {}
        Some(NLMSG_ERROR) => {
            let code = number(HEADER).unwrap_or_default().cast_signed();
            return Err(Errno::from_raw_os_error(code.saturating_neg()));
        }
        _ => return Err(Errno::BADMSG),
    }
    // A socket that nobody has open any more has no inode, and is said to be root's: anybody could be root that way.
    let inode = number(INODE).filter(|inode| *inode != 0);
    let found = number(USER).zip(inode);
    Ok(found.map(|(uid, inode)| LocalSocket::new(uid, inode.into())))
}

/// The same from a table of all sockets.
fn read_table(peer: SocketAddr, local: SocketAddr) -> io::Result<Option<LocalSocket>> {
    let path = if peer.is_ipv4() {
        "/proc/self/net/tcp"
    } else {
        "/proc/self/net/tcp6"
    };
    Ok(find_in_table(&fs::read_to_string(path)?, peer, local))
}

fn find_in_table(table: &str, peer: SocketAddr, local: SocketAddr) -> Option<LocalSocket> {
    let (peer, local) = (in_table(peer), in_table(local));
    let mut sockets = table.lines().skip(1);
    sockets.find_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let is_it = fields.next()? == peer && fields.next()? == local;
        let uid = fields.nth(4)?.parse().ok()?;
        let inode = fields.nth(1)?.parse().ok()?;
        (is_it && inode != 0).then_some(LocalSocket::new(uid, inode))
    })
}

/// As the table has it: the words of the address in the order of this machine, in hexadecimal digits.
fn in_table(address: SocketAddr) -> String {
    let octets = octets(address.ip());
    let used = if address.is_ipv4() { 4 } else { 16 };
    let words = octets.chunks_exact(4).take(used / 4);
    let words = words.map(|word| u32::from_ne_bytes(word.try_into().unwrap_or_default()));
    let words: String = words.map(|word| format!("{word:08X}")).collect();
    format!("{words}:{:04X}", address.port())
}

/// The bytes of an address, as many as the longer kind has.
fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V6(address) => address.octets(),
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        }
    }
}

/// An IPv4 address in the clothes of IPv6 is in the table of IPv4.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// Both ends of a connection, as the server sees them.
    fn connect(address: &str) -> Option<(TcpStream, TcpStream)> {
        let listener = TcpListener::bind(address).ok()?;
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        Some((client, listener.accept().unwrap().0))
    }

    #[test]
    fn both_ways_to_ask_know_whose_connection_it_is() {
        // Not every machine has IPv6.
        for (client, server) in ["127.0.0.1:0", "[::1]:0"].into_iter().filter_map(connect) {
            let (peer, local) = (server.peer_addr().unwrap(), server.local_addr().unwrap());
            let inode = rustix::fs::fstat(&client).unwrap().st_ino;
            let me = LocalSocket::new(geteuid().as_raw(), inode);
            assert_eq!(ask(peer, local), Ok(Some(me)));
            assert_eq!(read_table(peer, local).unwrap(), Some(me));
            // A connection that its user has closed could be anybody's.
            drop(client);
            assert_eq!(ask(peer, local).unwrap_or_default(), None);
            assert_eq!(read_table(peer, local).unwrap(), None);
        }
    }

    #[test]
    fn a_connection_that_is_not_there_is_nobodys() {
        let nowhere: SocketAddr = "127.0.0.1:1".parse().unwrap();
        assert_eq!(ask(nowhere, nowhere), Err(Errno::NOENT));
        assert_eq!(find(nowhere, nowhere).unwrap(), None);
        let words = refusal(&Ok(None)).expect("nobody is not served");
        assert!(words.contains("which user this connection is of"));
    }

    #[test]
    fn an_answer_that_is_cut_off_is_none() {
        for length in 0..INODE {
            let mut answer = vec![0; length];
            if let Some(kind) = answer.get_mut(4..6) {
                kind.copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
            }
            assert!(!matches!(read_answer(&answer), Ok(Some(_))));
        }
    }
}
