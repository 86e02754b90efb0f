//! What the operator allows although it is not the public internet.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

use lmcp_core::{Error, ToolError, ToolResult};

use super::{
    address::not_public,
    url::{Host, Url},
};

/// A network, an address or a host that tools may reach although it is private: `10.0.0.0/8`, `127.0.0.1:8080`,
/// `[::1]:8080`, `wiki.internal`, `wiki.internal:8080`.
///
/// ```
/// use lmcp_tools::settings::Allow;
///
/// let allow: Allow = "10.0.0.0/8".parse().unwrap();
/// assert!("10.0.0.0/40".parse::<Allow>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allow {
    to: To,
    /// Any port, if none is said.
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum To {
    /// The first bits of an address.
    Net(IpAddr, u8),
    /// Whatever the name leads to.
    Name(String),
}

/// Who may be reached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guard<'a> {
    pub(crate) allow: &'a [Allow],
}

impl Guard<'_> {
    /// The address to connect to, if that may be.
    ///
    /// # Errors
    /// In words for the model: which address, what it is, and who can allow it.
    pub(crate) fn check(&self, url: &Url, address: IpAddr) -> ToolResult<IpAddr> {
        let port = url.port();
        let plain = address.to_canonical();
        let Some(kind) = not_public(address) else {
            return Ok(plain);
        };
        let allows = |allow: &Allow| allow.matches(url.host(), plain, port);
        if self.allow.iter().any(allows) {
            return Ok(plain);
        }
        let host = url.host();
        let what = match host {
            Host::Name(name) => format!("`{name}` is at {address}, {kind}"),
            Host::V4(_) | Host::V6(_) => format!("{address} is {kind}"),
        };
        Err(
            ToolError::new(format!("{what}, which this server may not reach")).hint(format!(
                "the operator can allow it with `--fetch-allow {}`; where commands may run, `curl` in `shell` reaches it",
                url.authority()
            )),
        )
    }
}

impl Allow {
    /// Just this host and port.
    pub(crate) fn exactly(url: &Url) -> Self {
        let to = match url.host() {
            Host::Name(name) => To::Name(name.clone()),
            Host::V4(address) => To::Net((*address).into(), 32),
            Host::V6(address) => To::Net((*address).into(), 128),
        };
        Self {
            to,
            port: Some(url.port()),
        }
    }

    fn matches(&self, host: &Host, address: IpAddr, port: u16) -> bool {
        if self.port.is_some_and(|allowed| allowed != port) {
            return false;
        }
        match &self.to {
            To::Name(name) => matches!(host, Host::Name(asked) if asked == name),
            To::Net(net, bits) => in_net(address, net.to_canonical(), *bits),
        }
    }
}

impl FromStr for Allow {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let text = text.trim();
        if let Some((address, port)) = address_or_port(text) {
            return Err(Error::config(format!(
                "`{text}` may mean a port or not: write [{address}]:{port} or [{text}]"
            )));
        }
        parse(text).ok_or_else(|| {
            Error::config(format!(
                "`{text}` is no network, address or host to allow, like 10.0.0.0/8, 127.0.0.1:8080 or wiki.internal"
            ))
        })
    }
}

/// An address of IPv6 whose end could as well be a port: the two parts.
fn address_or_port(text: &str) -> Option<(&str, u16)> {
    text.parse::<Ipv6Addr>().ok()?;
    let (address, port) = text.rsplit_once(':')?;
    address.parse::<Ipv6Addr>().ok()?;
    Some((address, port.parse().ok()?))
}

fn parse(text: &str) -> Option<Allow> {
    if let Some((address, bits)) = text.split_once('/') {
        let (address, bits) = (address.parse::<IpAddr>().ok()?, bits.parse::<u8>().ok()?);
        let to = To::Net(address, bits);
        return (bits <= whole(address)).then_some(Allow { to, port: None });
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        let to = To::Net(address, whole(address));
        return Some(Allow { to, port: None });
    }
    let (host, port) = match text.rsplit_once(':') {
        // The address in brackets ends here, without a port.
        Some(_) if text.ends_with(']') => (text, None),
        Some((host, port)) => (
            host,
            Some(port.parse::<u16>().ok().filter(|port| *port > 0)?),
        ),
        None => (text, None),
    };
    let to = match Host::parse(host).ok()? {
        Host::Name(name) => To::Name(name),
        Host::V4(address) => To::Net(address.into(), 32),
        Host::V6(address) => To::Net(address.into(), 128),
    };
    Some(Allow { to, port })
}

fn whole(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

fn in_net(address: IpAddr, net: IpAddr, bits: u8) -> bool {
    let bits = u32::from(bits);
    match (address, net) {
        (IpAddr::V4(address), IpAddr::V4(net)) => {
            let mask = u32::MAX.checked_shl(Ipv4Addr::BITS - bits).unwrap_or(0);
            address.to_bits() & mask == net.to_bits() & mask
        }
        (IpAddr::V6(address), IpAddr::V6(net)) => {
            let mask = u128::MAX.checked_shl(Ipv6Addr::BITS - bits).unwrap_or(0);
            address.to_bits() & mask == net.to_bits() & mask
        }
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reaches(allow: &str, url: &str, address: &str) -> bool {
        let allow = [allow.parse().unwrap()];
        let guard = Guard { allow: &allow };
        let url = Url::parse(url).unwrap();
        guard.check(&url, address.parse().unwrap()).is_ok()
    }

    #[test]
    fn a_network_an_address_and_a_host_can_be_allowed() {
        assert!(reaches("10.0.0.0/8", "http://a.example", "10.9.8.7"));
        assert!(!reaches("10.0.0.0/8", "http://a.example", "192.168.0.1"));
        assert!(reaches(
            "127.0.0.1:8080",
            "http://a.example:8080",
            "127.0.0.1"
        ));
        assert!(!reaches(
            "127.0.0.1:8080",
            "http://a.example:8081",
            "127.0.0.1"
        ));
        assert!(reaches("[::1]:80", "http://a.example", "::1"));
        assert!(reaches("fd00::/8", "http://a.example", "fd12::1"));
        assert!(reaches(
            "Wiki.Internal:80",
            "http://wiki.internal",
            "10.0.0.1"
        ));
        assert!(!reaches(
            "wiki.internal",
            "http://other.internal",
            "10.0.0.1"
        ));
        assert!(reaches("0.0.0.0/0", "http://a.example", "127.0.0.1"));
    }

    #[test]
    fn an_address_within_an_address_is_what_it_leads_to() {
        assert!(reaches(
            "127.0.0.0/8",
            "http://a.example",
            "::ffff:127.0.0.1"
        ));
        assert!(!reaches(
            "10.0.0.0/8",
            "http://a.example",
            "::ffff:127.0.0.1"
        ));
    }

    #[test]
    fn a_port_behind_an_address_with_colons_needs_brackets() {
        for text in ["::1:80", "fd00::1:8080", "::ffff:7f00:1"] {
            let err = text.parse::<Allow>().unwrap_err().to_string();
            assert!(err.contains(&format!("or [{text}]")), "{err}");
        }
        assert!(
            "::1:80"
                .parse::<Allow>()
                .unwrap_err()
                .to_string()
                .contains("[::1]:80")
        );
        assert!(reaches("[::1:80]", "http://a.example:8080", "::1:80"));
        assert!(!reaches("[::1]:80", "http://a.example:8080", "::1"));
        assert!(reaches("::1", "http://a.example:8080", "::1"));
        assert!(reaches("[::1]", "http://a.example:8080", "::1"));
        assert!(reaches("fd00:0:0:0:0:0:0:1", "http://a.example", "fd00::1"));
        assert!(reaches("fd00::a", "http://a.example", "fd00::a"));
    }

    #[test]
    fn what_is_neither_is_refused() {
        for text in [
            "",
            "10.0.0.0/33",
            "10.0.0.0/x",
            "host:0",
            "host:99999",
            "a b",
            "::1/129",
            "300.1.1.1",
        ] {
            assert!(text.parse::<Allow>().is_err(), "{text}");
        }
    }
}
