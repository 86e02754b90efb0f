//! Addresses that tools must not reach by default: everything that is not the public internet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns the kind of an address, if it is not a public one.
pub(crate) fn not_public(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => not_public_v4(address),
        IpAddr::V6(address) => not_public_v6(address),
    }
}

fn not_public_v4(address: Ipv4Addr) -> Option<&'static str> {
    Some(match address.octets() {
        [0, ..] => "an unspecified address",
        [127, ..] => "a loopback address",
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => "a private address",
        [100, 64..=127, ..] => "a carrier-internal address",
        [169, 254, 169, 254] | [168, 63, 129, 16] => "a cloud's metadata address",
        [169, 254, ..] => "a link-local address",
        [192, 0, 0, _] | [192, 88, 99, _] => "an address of a network protocol",
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => "an address for documentation",
        [198, 18..=19, ..] => "an address for benchmarks",
        [224..=239, ..] => "a multicast address",
        [240..=255, ..] => "a reserved or broadcast address",
        _ => return None,
    })
}

fn not_public_v6(address: Ipv6Addr) -> Option<&'static str> {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let low = v4(g, h);
    Some(match [a, b, c, d, e, f] {
        [0, 0, 0, 0, 0, 0] if (g, h) == (0, 0) => "the unspecified address",
        [0, 0, 0, 0, 0, 0] if (g, h) == (0, 1) => "the loopback address",
        // An address that leads to an IPv4 address is as public as that one.
        [0, 0, 0, 0, 0, 0xffff] | [0x64, 0xff9b, 0, 0, 0, 0] => return not_public_v4(low),
        [0x2002, high, low, ..] => return not_public_v4(v4(high, low)),
        [0xfe80..=0xfebf, ..] => "a link-local address",
        [0xfec0..=0xfeff, ..] | [0xfc00..=0xfdff, ..] => "a private address",
        [0xff00..=0xffff, ..] => "a multicast address",
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => "an address for documentation",
        [0x2001, 0..=0x1ff, ..] => "an address of a network protocol",
        [0x2000..=0x3fff, ..] => return None,
        // No other addresses are given out.
        _ => "a reserved address",
    })
}

fn v4(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(high) << 16 | u32::from(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_the_public_internet_is_known_by_its_address() {
        for address in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "168.63.129.16",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.192",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.51.100.7",
            "203.0.113.9",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::8.8.8.8",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2002:a00:1::1",
            "2001::1",
            "2001:db8::1",
            "3fff::1",
            "100::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "5f00::1",
            "4000::1",
        ] {
            assert!(not_public(address.parse().unwrap()).is_some(), "{address}");
        }
    }

    #[test]
    fn the_public_internet_is_not() {
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.255.255",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "198.17.0.1",
            "198.20.0.1",
            "223.255.255.255",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "2002:808:808::1",
            "2606:4700::1111",
            "2a00:1450:4001::1",
        ] {
            assert_eq!(not_public(address.parse().unwrap()), None, "{address}");
        }
    }
}
