//! The networks and hosts that the operator allows although they are not the public internet.

use std::{
    net::{IpAddr, Ipv6Addr},
    str::FromStr,
};

use lmcp_core::Error;
use lmcp_outbound::{Host, Lookup, Network, Url};

use super::address::not_public;

/// A network, an address or a host that tools may reach although it is private: `10.0.0.0/8`, `127.0.0.1:8080`,
/// `[::1]:8080`, `wiki.internal`, `wiki.internal:8080`. And `proxy:*`: names that only the proxy can look up.
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
    /// The port; `None` stands for any.
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum To {
    Net(Network),
    /// Any address that the name leads to.
    Name(String),
    /// Any name that is not found here, and that a proxy looks up.
    ByProxy,
}

/// Decides which addresses may be reached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guard<'a> {
    pub(crate) allow: &'a [Allow],
}

impl lmcp_outbound::Guard for Guard<'_> {
    fn check(&self, url: &Url, address: IpAddr) -> Result<(), String> {
        let Some(kind) = not_public(address) else {
            return Ok(());
        };
        let allows = |allow: &Allow| allow.matches(url, Some(address));
        if self.allow.iter().any(allows) {
            return Ok(());
        }
        let what = match url.host().name() {
            Some(name) => format!("`{name}` is at {address}, {kind}"),
            None => format!("{address} is {kind}"),
        };
        Err(format!("{what}, which this server may not reach"))
    }

    fn before_proxy(&self, url: &Url) -> Lookup {
        if self.allow.iter().any(|allow| allow.matches(url, None)) {
            Lookup::Skip
        } else if self.allow.iter().any(|allow| allow.to == To::ByProxy) {
            Lookup::Try
        } else {
            Lookup::Must
        }
    }
}

impl Allow {
    /// Allows just this host and port.
    pub(crate) fn exactly(url: &Url) -> Self {
        Self {
            to: To::of(url.host()),
            port: Some(url.port()),
        }
    }

    /// Allows names that only a proxy finds.
    pub(crate) fn by_proxy() -> Self {
        Self {
            to: To::ByProxy,
            port: None,
        }
    }

    /// Returns whether the host is allowed, by its name or by one of its addresses.
    fn matches(&self, url: &Url, address: Option<IpAddr>) -> bool {
        if self.port.is_some_and(|allowed| allowed != url.port()) {
            return false;
        }
        match &self.to {
            To::Name(name) => url.host().name() == Some(name),
            To::Net(network) => address.is_some_and(|address| network.contains(address)),
            To::ByProxy => false,
        }
    }
}

impl To {
    fn of(host: &Host) -> Self {
        match host.address() {
            Some(address) => Self::Net(address.into()),
            None => Self::Name(host.to_string()),
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

/// Splits an IPv6 address whose end could as well be a port into the two parts.
fn address_or_port(text: &str) -> Option<(&str, u16)> {
    text.parse::<Ipv6Addr>().ok()?;
    let (address, port) = text.rsplit_once(':')?;
    address.parse::<Ipv6Addr>().ok()?;
    Some((address, port.parse().ok()?))
}

fn parse(text: &str) -> Option<Allow> {
    if text == "proxy:*" {
        return Some(Allow::by_proxy());
    }
    if let Ok(network) = text.parse() {
        let to = To::Net(network);
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
    let to = To::of(&Host::parse(host).ok()?);
    Some(Allow { to, port })
}

#[cfg(test)]
mod tests {
    use lmcp_outbound::Guard as _;

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
