//! The host of a URL: a name, or an IP address in any notation.
//!
//! `2130706433`, `0x7f.1` and `017700000001` are all 127.0.0.1. They are parsed here, so that checks of addresses see
//! addresses.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use super::{Flaw, path::decode};

/// A name, or an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Host {
    /// A name in lower case, in ASCII.
    Name(String),
    /// An address of IPv4.
    V4(Ipv4Addr),
    /// An address of IPv6.
    V6(Ipv6Addr),
}

impl Host {
    /// Reads a host in the form of a URL: addresses of IPv6 are in brackets.
    ///
    /// # Errors
    /// The text is no host.
    pub fn parse(text: &str) -> Result<Self, Flaw> {
        if let Some(inner) = text.strip_prefix('[') {
            let inner = inner.strip_suffix(']').ok_or(Flaw::Host)?;
            return inner.parse().map(Self::V6).map_err(|_| Flaw::Host);
        }
        let bytes = decode(text);
        if !bytes.is_ascii() {
            return Err(Flaw::NonAscii);
        }
        let name: String = bytes
            .iter()
            .map(|byte| char::from(byte.to_ascii_lowercase()))
            .collect();
        if ends_in_number(&name) {
            return parse_v4(&name).map(Self::V4).ok_or(Flaw::Host);
        }
        let mut labels = name.strip_suffix('.').unwrap_or(&name).split('.');
        let valid = name.len() <= 253 && labels.all(is_label);
        valid.then_some(Self::Name(name)).ok_or(Flaw::Host)
    }

    /// The name. `None` for an address.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Name(name) => Some(name),
            Self::V4(_) | Self::V6(_) => None,
        }
    }

    /// The address. `None` for a name.
    pub fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Name(_) => None,
            Self::V4(address) => Some((*address).into()),
            Self::V6(address) => Some((*address).into()),
        }
    }

    /// Whether connections to this host stay on this machine.
    pub fn is_loopback(&self) -> bool {
        match self.address() {
            Some(address) => address.to_canonical().is_loopback(),
            None => {
                let name = self.to_string();
                let name = name.strip_suffix('.').unwrap_or(&name);
                name == "localhost" || name.ends_with(".localhost")
            }
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::V4(address) => address.fmt(f),
            // The standard writes every IPv6 address in one way, also one that contains an IPv4 address.
            Self::V6(address) => match (address.to_ipv4_mapped(), address.segments()) {
                (Some(_), [.., high, low]) => write!(f, "[::ffff:{high:x}:{low:x}]"),
                (None, _) => write!(f, "[{address}]"),
            },
        }
    }
}

fn is_label(label: &str) -> bool {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=63).contains(&label.len()) && label.bytes().all(known)
}

/// URL standard, "ends in a number checker": such a host is an IPv4 address or nothing.
fn ends_in_number(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let last = name.rsplit('.').next().unwrap_or_default();
    let digits = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit());
    let hex = last.strip_prefix("0x");
    digits || hex.is_some_and(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// URL standard, "IPv4 parser".
fn parse_v4(name: &str) -> Option<Ipv4Addr> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let numbers: Vec<u64> = name.split('.').map(parse_number).collect::<Option<_>>()?;
    let (last, first) = numbers.split_last()?;
    if first.len() > 3 || first.iter().any(|number| *number > 255) {
        return None;
    }
    // The last number fills all remaining bytes.
    let left = 4 - first.len() as u32;
    if *last >= 1 << (8 * left) {
        return None;
    }
    let mut address = *last;
    for (at, number) in first.iter().enumerate() {
        address += number << (8 * (3 - at));
    }
    u32::try_from(address).ok().map(Ipv4Addr::from)
}

/// Reads a number: decimal, octal after `0`, hexadecimal after `0x`.
fn parse_number(text: &str) -> Option<u64> {
    let (digits, radix) = match text.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None if text.len() > 1 && text.starts_with('0') => (&text[1..], 8),
        None => (text, 10),
    };
    match digits {
        "" if radix == 16 => Some(0),
        digits if digits.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            u64::from_str_radix(digits, radix).ok()
        }
        _ => None,
    }
}
