//! The addresses of network interfaces, asked of the kernel by a netlink socket. `/proc` does not tell them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink::SocketAddrNetlink,
};

use super::source::Reading;

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) interface: u32,
    pub(super) address: IpAddr,
    pub(super) prefix_length: u8,
}

// From the kernel's `netlink.h`, `rtnetlink.h` and `if_addr.h`.
const NLM_F_REQUEST_DUMP: u16 = 0x1 | 0x300;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const RTM_NEWADDR: u16 = 20;
const RTM_GETADDR: u16 = 22;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const HEADER: usize = 16;
const IFADDRMSG: usize = 8;

/// The most addresses that are read.
const ADDRESSES: usize = 1024;

/// All addresses of all interfaces.
pub(super) fn addresses() -> Reading<Vec<Address>> {
    ask().map_err(|err| format!("cannot ask the kernel for addresses: {err}"))
}

fn ask() -> rustix::io::Result<Vec<Address>> {
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    let request = request();
    rustix::net::sendto(
        &socket,
        &request,
        SendFlags::empty(),
        &SocketAddrNetlink::new(0, 0),
    )?;
    let mut found = Vec::new();
    let mut buffer = vec![0; 32 * 1024];
    while found.len() < ADDRESSES {
        let (length, _) = rustix::net::recv(&socket, &mut *buffer, RecvFlags::empty())?;
        if read_messages(&buffer[..length.min(buffer.len())], &mut found) == More::No {
            break;
        }
    }
    Ok(found)
}

/// A dump of the addresses of every family.
fn request() -> Vec<u8> {
    let mut request = Vec::with_capacity(HEADER + IFADDRMSG);
    request.extend_from_slice(&((HEADER + IFADDRMSG) as u32).to_ne_bytes());
    request.extend_from_slice(&RTM_GETADDR.to_ne_bytes());
    request.extend_from_slice(&NLM_F_REQUEST_DUMP.to_ne_bytes());
    request.resize(HEADER + IFADDRMSG, 0);
    request
}

/// Is there more to come?
#[derive(Debug, PartialEq, Eq)]
enum More {
    Yes,
    No,
}

fn read_messages(mut bytes: &[u8], found: &mut Vec<Address>) -> More {
    if bytes.is_empty() {
        return More::No;
    }
    while let Some((kind, body, rest)) =
        next_part(bytes, |head| (u32_at(head, 0), u16_at(head, 4)), HEADER)
    {
        match kind {
            NLMSG_DONE | NLMSG_ERROR => return More::No,
            RTM_NEWADDR => found.extend(read_address(body)),
            _ => {}
        }
        bytes = rest;
    }
    More::Yes
}

fn read_address(body: &[u8]) -> Option<Address> {
    let (head, mut attributes) = body.split_at_checked(IFADDRMSG)?;
    let (mut address, mut local) = (None, None);
    while let Some((kind, value, rest)) = next_part(
        attributes,
        |head| (u16_at(head, 0).map(u32::from), u16_at(head, 2)),
        4,
    ) {
        match kind {
            IFA_ADDRESS => address = read_ip(value),
            // On a link with two ends the other attribute is the far end.
            IFA_LOCAL => local = read_ip(value),
            _ => {}
        }
        attributes = rest;
    }
    Some(Address {
        interface: u32_at(head, 4)?,
        address: local.or(address)?,
        prefix_length: head[1],
    })
}

/// Messages and attributes both are a length, a kind, a body, and then the next at a multiple of four.
fn next_part(
    bytes: &[u8],
    read: impl Fn(&[u8]) -> (Option<u32>, Option<u16>),
    head: usize,
) -> Option<(u16, &[u8], &[u8])> {
    let (Some(length), Some(kind)) = read(bytes) else {
        return None;
    };
    let length = length as usize;
    let body = bytes.get(head..length)?;
    let rest = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((kind, body, rest))
}

fn read_ip(value: &[u8]) -> Option<IpAddr> {
    match value.len() {
        4 => <[u8; 4]>::try_from(value)
            .ok()
            .map(|ip| Ipv4Addr::from(ip).into()),
        16 => <[u8; 16]>::try_from(value)
            .ok()
            .map(|ip| Ipv6Addr::from(ip).into()),
        _ => None,
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = ((HEADER + body.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.resize(HEADER, 0);
        bytes.extend_from_slice(body);
        bytes
    }

    #[test]
    fn addresses_are_read_from_a_dump() {
        let mut body = vec![2, 24, 0, 0, 0, 0, 0, 0];
        body[4..8].copy_from_slice(&7_u32.to_ne_bytes());
        for (kind, ip) in [(IFA_ADDRESS, [10, 0, 0, 1]), (IFA_LOCAL, [10, 0, 0, 2])] {
            body.extend_from_slice(&8_u16.to_ne_bytes());
            body.extend_from_slice(&kind.to_ne_bytes());
            body.extend_from_slice(&ip);
        }
        let dump = [message(RTM_NEWADDR, &body), message(NLMSG_DONE, &[0; 4])].concat();
        let mut found = Vec::new();
        assert_eq!(read_messages(&dump, &mut found), More::No);
        let address = IpAddr::from([10, 0, 0, 2]);
        assert_eq!(
            found,
            [Address {
                interface: 7,
                address,
                prefix_length: 24
            }]
        );
    }

    proptest! {
        #[test]
        fn no_bytes_break_the_reader(bytes: Vec<u8>) {
            read_messages(&bytes, &mut Vec::new());
            read_address(&bytes);
        }
    }
}
