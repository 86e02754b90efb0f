//! The addresses of network interfaces, from `getifaddrs`. `/proc` does not hold those of IPv4.

use std::net::IpAddr;

use nix::{
    ifaddrs::{InterfaceAddress, getifaddrs},
    sys::socket::SockaddrStorage,
};

use super::source::Reading;

/// An address of an interface.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) interface: String,
    pub(super) address: IpAddr,
    pub(super) prefix_length: u32,
}

/// The most addresses that are kept.
const ADDRESSES: usize = 1024;

/// Returns all addresses of all interfaces.
pub(super) fn addresses() -> Reading<Vec<Address>> {
    let found =
        getifaddrs().map_err(|err| format!("cannot ask the kernel for addresses: {err}"))?;
    let addresses = found.filter_map(|found| {
        let InterfaceAddress {
            interface_name,
            address,
            netmask,
            ..
        } = found;
        Some(Address::new(
            &interface_name,
            ip(&address?)?,
            ip(&netmask?)?,
        ))
    });
    Ok(addresses.take(ADDRESSES).collect())
}

impl Address {
    fn new(label: &str, address: IpAddr, netmask: IpAddr) -> Self {
        // An address may have a label, `eth0:backup`, in place of the name of its interface. No name of an interface has a
        // colon.
        let interface = label.split(':').next().unwrap_or(label);
        let prefix_length = match netmask {
            IpAddr::V4(mask) => mask.to_bits().count_ones(),
            IpAddr::V6(mask) => mask.to_bits().count_ones(),
        };
        Self {
            interface: interface.to_owned(),
            address,
            prefix_length,
        }
    }
}

/// Returns an IP address; `None` for addresses of hardware.
fn ip(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = || Some(address.as_sockaddr_in()?.ip().into());
    let v6 = || Some(address.as_sockaddr_in6()?.ip().into());
    v4().or_else(v6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_with_a_label_belongs_to_its_interface() {
        let address = |label, address: &str, mask: &str| {
            let address = Address::new(label, address.parse().unwrap(), mask.parse().unwrap());
            let Address {
                interface,
                address,
                prefix_length,
            } = address;
            format!("{interface} {address}/{prefix_length}")
        };
        assert_eq!(
            address("eth0:backup", "10.0.0.2", "255.255.255.0"),
            "eth0 10.0.0.2/24"
        );
        assert_eq!(address("lo", "::1", "ffff:ffff::"), "lo ::1/32");
        assert_eq!(address("tun0", "10.0.0.1", "0.0.0.0"), "tun0 10.0.0.1/0");
    }
}
