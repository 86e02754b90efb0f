//! Finds the owner of the socket at the other end of a TCP connection on this machine, in the kernel's table of sockets.
//!
//! Every user of the machine can reach a port on loopback, and can take it when it is free. TCP itself says nothing about
//! users.

use std::{
    fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use rustix::{
    io::Errno,
    net::{
        AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType,
        netlink::{SOCK_DIAG, SocketAddrNetlink},
    },
};

use crate::{
    TcpSocket, Whose,
    linux::{guards, users::whose},
    refused,
};

/// Whether this system tells which user made a TCP connection on this machine.
pub const fn tells_tcp_users() -> bool {
    true
}

/// Finds the socket with these addresses: its own, and the one that it is connected to. `None`: no process on this machine, or
/// in this network namespace, has it open.
///
/// # Errors
/// The kernel does not tell.
pub fn tcp_socket(own: SocketAddr, other: SocketAddr) -> io::Result<Option<TcpSocket>> {
    find(canonical(own), canonical(other))
}

/// Refuses a server on this machine that neither this user nor root runs, or that a confined command may run: they would read
/// everything that is sent to it. The check may block for a moment.
///
/// `local` and `server` are the addresses of an open connection. When a server has left a port, every user can take it, so each
/// connection must be checked before anything is sent.
///
/// # Errors
/// The server belongs to another user or to a confined command, or its owner is not known. The words say which.
pub fn expect_own_server(local: SocketAddr, server: SocketAddr) -> io::Result<()> {
    let (local, server) = (canonical(local), canonical(server));
    if !server.ip().is_loopback() {
        return Err(unknown("it is not on loopback"));
    }
    if let Some(socket) = find(server, local)? {
        return expect_own(socket);
    }
    // The server has not accepted the connection yet. Until then the connection belongs to the listener.
    let listener = match find(server, nowhere(server))? {
        Some(listener) => Some(listener),
        None => find_on_all(server)?,
    };
    expect_own(listener.ok_or_else(|| unknown("nobody listens there"))?)?;
    // An earlier listener may have accepted the connection meanwhile. If not, the present listener was the listener then:
    // without its listener, a waiting connection would be gone.
    find(server, local)?.map_or(Ok(()), expect_own)
}

fn expect_own(socket: TcpSocket) -> io::Result<()> {
    match whose(socket.uid) {
        Whose::Ours | Whose::Roots => guards::expect_unconfined(socket),
        Whose::Others => Err(refused(&format!("it is the server of user {}", socket.uid))),
        Whose::Unknown => Err(unknown("its user has no number in this user namespace")),
    }
}

fn unknown(why: &str) -> io::Error {
    refused(&format!("nobody can tell whose server it is: {why}"))
}

/// Returns the peer address of a listening socket.
fn nowhere(family: SocketAddr) -> SocketAddr {
    SocketAddr::new(unspecified(family), 0)
}

fn unspecified(family: SocketAddr) -> IpAddr {
    match family {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// Finds the listener at this port of all addresses, of this family or of both.
fn find_on_all(server: SocketAddr) -> io::Result<Option<TcpSocket>> {
    let both = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), server.port());
    for all in [SocketAddr::new(unspecified(server), server.port()), both] {
        if let Some(found) = find(all, nowhere(all))? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

fn find(peer: SocketAddr, local: SocketAddr) -> io::Result<Option<TcpSocket>> {
    match ask(peer, local) {
        Ok(found) => Ok(found),
        Err(Errno::NOENT) => Ok(None),
        // Some sandboxes do not allow this query.
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
/// The places of the user and the inode in an answer.
const USER: usize = HEADER + 64;
const INODE: usize = USER + 4;

/// Asks the kernel for this one socket.
fn ask(peer: SocketAddr, local: SocketAddr) -> Result<Option<TcpSocket>, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let kind = SocketType::RAW;
    let socket = rustix::net::socket_with(AddressFamily::NETLINK, kind, flags, Some(SOCK_DIAG))?;
    let kernel = SocketAddrNetlink::new(0, 0);
    rustix::net::sendto(&socket, &request(peer, local), SendFlags::empty(), &kernel)?;
    // The kernel answers before the call that sends returns.
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
    // Sockets in every state.
    request.extend_from_slice(&u32::MAX.to_ne_bytes());
    request.extend_from_slice(&peer.port().to_be_bytes());
    request.extend_from_slice(&local.port().to_be_bytes());
    request.extend_from_slice(&octets(peer.ip()));
    request.extend_from_slice(&octets(local.ip()));
    // Any interface, and any cookie.
    request.extend_from_slice(&0_u32.to_ne_bytes());
    request.extend_from_slice(&[0xff; 8]);
    request
}

fn read_answer(answer: &[u8]) -> Result<Option<TcpSocket>, Errno> {
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
    // A socket that no process has open any more has no inode, and the kernel calls root its user: with it, anybody could seem
    // to be root.
    let inode = number(INODE).filter(|inode| *inode != 0);
    let found = number(USER).zip(inode);
    Ok(found.map(|(uid, inode)| TcpSocket {
        uid,
        inode: inode.into(),
    }))
}

/// Finds the socket in a table of all sockets.
fn read_table(peer: SocketAddr, local: SocketAddr) -> io::Result<Option<TcpSocket>> {
    let path = if peer.is_ipv4() {
        "/proc/self/net/tcp"
    } else {
        "/proc/self/net/tcp6"
    };
    Ok(find_in_table(&fs::read_to_string(path)?, peer, local))
}

fn find_in_table(table: &str, peer: SocketAddr, local: SocketAddr) -> Option<TcpSocket> {
    let (peer, local) = (in_table(peer), in_table(local));
    let mut sockets = table.lines().skip(1);
    sockets.find_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let is_it = fields.next()? == peer && fields.next()? == local;
        let uid = fields.nth(4)?.parse().ok()?;
        let inode = fields.nth(1)?.parse().ok()?;
        (is_it && inode != 0).then_some(TcpSocket { uid, inode })
    })
}

/// Writes an address in the form of the table: the words of the address in the byte order of this machine, in hexadecimal
/// digits.
fn in_table(address: SocketAddr) -> String {
    let octets = octets(address.ip());
    let used = if address.is_ipv4() { 4 } else { 16 };
    let words = octets.chunks_exact(4).take(used / 4);
    let words = words.map(|word| u32::from_ne_bytes(word.try_into().unwrap_or_default()));
    let words: String = words.map(|word| format!("{word:08X}")).collect();
    format!("{words}:{:04X}", address.port())
}

/// Returns the bytes of an address, as many as an IPv6 address has.
fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V6(address) => address.octets(),
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        }
    }
}

/// Turns an IPv4 address in the form of IPv6 into IPv4, because the table of IPv4 contains it.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use rustix::process::geteuid;

    use super::*;

    /// Makes a connection, and returns the ends of the client and of the server.
    fn connect(address: &str) -> Option<(TcpStream, TcpStream)> {
        let listener = TcpListener::bind(address).ok()?;
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        Some((client, listener.accept().unwrap().0))
    }

    #[test]
    fn both_ways_to_ask_know_whose_connection_it_is() {
        // Some machines have no IPv6.
        for (client, server) in ["127.0.0.1:0", "[::1]:0"].into_iter().filter_map(connect) {
            let (peer, local) = (server.peer_addr().unwrap(), server.local_addr().unwrap());
            let inode = rustix::fs::fstat(&client).unwrap().st_ino;
            let me = TcpSocket {
                uid: geteuid().as_raw(),
                inode,
            };
            assert_eq!(ask(peer, local), Ok(Some(me)));
            assert_eq!(read_table(peer, local).unwrap(), Some(me));
            // After its user has closed a connection, the socket could be anybody's.
            drop(client);
            assert_eq!(ask(peer, local).unwrap_or_default(), None);
            assert_eq!(read_table(peer, local).unwrap(), None);
        }
    }

    #[test]
    fn a_connection_that_is_not_there_has_no_socket() {
        let nowhere: SocketAddr = "127.0.0.1:1".parse().unwrap();
        assert_eq!(ask(nowhere, nowhere), Err(Errno::NOENT));
        assert_eq!(find(nowhere, nowhere).unwrap(), None);
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

    #[test]
    fn a_server_of_this_user_is_told_before_and_after_it_takes_a_connection() {
        for address in ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::]:0"] {
            let Ok(listener) = TcpListener::bind(address) else {
                continue;
            };
            let port = listener.local_addr().unwrap().port();
            for host in ["127.0.0.1", "::1"] {
                let server: SocketAddr = (host.parse::<IpAddr>().unwrap(), port).into();
                let Ok(client) = TcpStream::connect(server) else {
                    continue;
                };
                let local = client.local_addr().unwrap();
                expect_own_server(local, server).unwrap();
                let taken = listener.accept().unwrap();
                expect_own_server(local, server).unwrap();
                drop(taken);
            }
        }
    }

    #[test]
    fn a_server_that_nobody_runs_is_refused() {
        let (_client, server) = connect("127.0.0.1:0").unwrap();
        // The listener is gone, and the other end is closed: any user may listen there next.
        let (local, of_server) = (server.peer_addr().unwrap(), server.local_addr().unwrap());
        drop(server);
        let refused = expect_own_server(local, of_server).unwrap_err();
        assert!(
            refused.to_string().contains("nobody listens there"),
            "{refused}"
        );
    }
}
