//! Values that are more than text: parsed once, wherever they are given.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    str::FromStr,
};

use serde::{Deserialize, Deserializer, de::Error as _};

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const PORT: u16 = 8080;

/// The address to listen on for HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address(pub(crate) SocketAddr);

impl Address {
    pub(crate) const DEFAULT: Self = Self(SocketAddr::new(LOOPBACK, PORT));

    /// Returns the address with defaults for a missing half.
    pub(crate) fn of(host: Option<IpAddr>, port: Option<u16>) -> Self {
        Self(SocketAddr::new(
            host.unwrap_or(LOOPBACK),
            port.unwrap_or(PORT),
        ))
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(ip) = host(text) {
            return Ok(Self::of(Some(ip), None));
        }
        let (name, port) = text.rsplit_once(':').unwrap_or(("", text));
        // Without a name before the port, only this machine is meant, whatever other programs do.
        let ip = if name.is_empty() {
            Ok(LOOPBACK)
        } else {
            host(name)
        };
        match (ip, port.parse()) {
            (Ok(ip), Ok(port)) => Ok(Self(SocketAddr::new(ip, port))),
            _ => Err("no address to listen on; 127.0.0.1:8080, say, or just 8080".into()),
        }
    }
}

/// Returns the address of an interface of this machine. Names are not looked up, except `localhost`, which has a fixed
/// meaning.
pub(super) fn host(text: &str) -> Result<IpAddr, String> {
    if text.eq_ignore_ascii_case("localhost") {
        return Ok(LOOPBACK);
    }
    let bare = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    let parsed = bare.unwrap_or(text).parse();
    parsed.map_err(|_| "no address of this machine; 127.0.0.1, say, or 0.0.0.0 for all".into())
}

/// A name of the server in requests: `host` or `host:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostName(pub(crate) String);

impl FromStr for HostName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, port) = match text.rsplit_once(':') {
            Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
            _ => (text, None),
        };
        let bracketed = name
            .strip_prefix('[')
            .and_then(|name| name.strip_suffix(']'));
        let known = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        let is_name = match bracketed {
            Some(number) => number.parse::<std::net::Ipv6Addr>().is_ok(),
            None => !name.is_empty() && name.bytes().all(known),
        };
        let has_port = port.is_none_or(|port| port.parse::<u16>().is_ok());
        if is_name && has_port {
            return Ok(Self(text.to_owned()));
        }
        Err("no name of a host; HOST or HOST:PORT, as in box.lan:8080".into())
    }
}

/// A web page that may use the server: `scheme://host` or `scheme://host:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin(pub(crate) String);

impl FromStr for Origin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = "no origin of a web page; SCHEME://HOST or SCHEME://HOST:PORT without a path, as in https://app.example";
        let (scheme, host) = text.split_once("://").ok_or(wrong)?;
        let known = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
        let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.bytes().all(known);
        if !is_scheme || host.parse::<HostName>().is_err() {
            return Err(wrong.into());
        }
        for (of, port) in [("http", ":80"), ("https", ":443")] {
            if scheme.eq_ignore_ascii_case(of) && host.ends_with(port) {
                return Err(format!("never sent by browsers: they leave `{port}` out"));
            }
        }
        Ok(Self(text.to_owned()))
    }
}

/// The name of the server for clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerName(pub(crate) String);

impl FromStr for ServerName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fits = (1..=64).contains(&text.chars().count()) && !text.chars().any(char::is_control);
        if fits {
            return Ok(Self(text.to_owned()));
        }
        Err("no name of a server; 1 to 64 characters, say".into())
    }
}

/// A number of at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Count(pub(crate) usize);

impl FromStr for Count {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(count @ 1..=1_000_000) => Ok(Self(count)),
            _ => Err("no number from 1 to 1000000".into()),
        }
    }
}

/// A number that may be zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number(pub(crate) usize);

impl FromStr for Number {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(number @ 0..=1_000_000) => Ok(Self(number)),
            _ => Err("no number from 0 to 1000000".into()),
        }
    }
}

/// A number of bytes: at least a megabyte, because less is too little to serve any client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) usize);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, shift) = match text.trim_end().char_indices().next_back() {
            Some((at, 'k' | 'K')) => (&text[..at], 10),
            Some((at, 'm' | 'M')) => (&text[..at], 20),
            Some((at, 'g' | 'G')) => (&text[..at], 30),
            _ => (text, 0),
        };
        let bytes = number.trim().parse::<usize>().ok();
        let bytes = bytes.and_then(|number| number.checked_mul(1 << shift));
        bytes
            .filter(|bytes| *bytes >= 1 << 20)
            .map(Self)
            .ok_or_else(|| "no size from 1M on; 64M, say, or 1G".into())
    }
}

/// A token. It is never shown.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(crate) struct Secret(pub(crate) String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Reads a list that is not empty. An empty list could mean *all*, where its author may have meant *none*.
pub(super) fn some<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let list = Vec::deserialize(deserializer)?;
    if list.is_empty() {
        return Err(D::Error::custom(
            "the list is empty; leave it out, or name something",
        ));
    }
    Ok(list)
}

/// The words that a command begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Prefix(pub(crate) String);

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words = text.trim();
        let pattern = |letter: char| "*?[]'\"$`;|&<>(){}\\".contains(letter);
        if words.is_empty() || words.contains(pattern) || words.ends_with(':') {
            return Err("no command; plain words that it begins with, `git push`, say".into());
        }
        Ok(Self(words.to_owned()))
    }
}

/// Reads the value as a number in a file.
macro_rules! from_number {
    ($($kind:ty),+) => {$(
        impl<'de> Deserialize<'de> for $kind {
            fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
                let number = u64::deserialize(source)?;
                number.to_string().parse().map_err(D::Error::custom)
            }
        }
    )+};
}
from_number!(Count, Number);

/// Reads the value as a text in a file, as on the command line.
macro_rules! from_text {
    ($($kind:ty),+) => {$(
        impl<'de> Deserialize<'de> for $kind {
            fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
                let text = String::deserialize(source)?;
                text.parse().map_err(|words| D::Error::custom(format!("`{text}` is {words}")))
            }
        }
    )+};
}
from_text!(Address, HostName, Origin, ServerName, Prefix, Size);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_this_machine_unless_said_otherwise() {
        assert_eq!(Address::DEFAULT.0.to_string(), "127.0.0.1:8080");
        for (text, address) in [
            ("8080", "127.0.0.1:8080"),
            (":9000", "127.0.0.1:9000"),
            ("localhost:81", "127.0.0.1:81"),
            ("LocalHost", "127.0.0.1:8080"),
            ("127.0.0.2", "127.0.0.2:8080"),
            ("0.0.0.0:0", "0.0.0.0:0"),
            ("[::1]:82", "[::1]:82"),
            ("::1", "[::1]:8080"),
            ("[::1]", "[::1]:8080"),
        ] {
            assert_eq!(
                text.parse::<Address>().unwrap().0.to_string(),
                address,
                "{text}"
            );
        }
        for text in [
            "",
            ":",
            "x",
            "http://localhost:8080",
            "box.lan:80",
            "65536",
            "127.0.0.1:",
            "localhost:-1",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_bytes_or_have_a_letter() {
        for (text, bytes) in [("1M", 1 << 20), ("2g", 2 << 30), ("1048577", 1_048_577)] {
            assert_eq!(text.parse::<Size>().unwrap().0, bytes, "{text}");
        }
        for text in [
            "",
            "M",
            "64",
            "1023K",
            "-1M",
            "1.5G",
            "64MB",
            "99999999999G",
        ] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_rule_that_could_never_match_is_refused() {
        for text in ["", "rm *", "git push:*", "git 'push'", "rm;", "$x"] {
            assert!(text.parse::<Prefix>().is_err(), "{text}");
        }
        assert_eq!(" git push ".parse::<Prefix>().unwrap().0, "git push");
    }

    #[test]
    fn hosts_and_origins_are_as_clients_write_them() {
        for text in [
            "box",
            "box.lan:8080",
            "192.0.2.7:80",
            "[2001:db8::7]",
            "[::1]:80",
        ] {
            assert!(text.parse::<HostName>().is_ok(), "{text}");
            assert!(format!("app://{text}").parse::<Origin>().is_ok(), "{text}");
        }
        for text in [
            "", "*", "a b", "http://a", "a/b", "a:", "a:x", ":80", "[x]:80", "::1",
        ] {
            assert!(text.parse::<HostName>().is_err(), "{text}");
            assert!(
                format!("https://{text}").parse::<Origin>().is_err(),
                "{text}"
            );
        }
        for text in [
            "*",
            "null",
            "app.example",
            "https://app.example/",
            "https://app.example:443",
            "http://a:80",
        ] {
            assert!(text.parse::<Origin>().is_err(), "{text}");
        }
    }
}
