//! Addresses of the web, `http` and `https` only: parsed and resolved as browsers do it.
//!
//! Stricter than they are where leniency buys nothing: no names and passwords in an address, and host names in ASCII.
//! The crate `url` knows the rest of the world too, for seven crates, or thirty with its default tables.

mod host;
mod path;

use std::{borrow::Cow, fmt, num::NonZeroU16};

use lmcp_core::ToolError;

pub(crate) use host::Host;
use path::{encode, normalise};

/// Where something is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Url {
    scheme: Scheme,
    host: Host,
    /// `None`: the scheme's own.
    port: Option<u16>,
    /// Begins with `/`; without dots, encoded.
    path: String,
    query: Option<String>,
    fragment: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Scheme {
    Http,
    Https,
}

/// Why something is no address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// Another scheme, or none.
    Scheme(String),
    Userinfo,
    NonAscii,
    Host,
    Port,
    TooLong,
}

impl Url {
    /// Reads an absolute address.
    pub(crate) fn parse(text: &str) -> Result<Self, Flaw> {
        let text = clean(text)?;
        let Some((scheme, rest)) = split_scheme(&text) else {
            return Err(Flaw::Scheme(String::new()));
        };
        Self::after_scheme(Scheme::parse(scheme)?, rest)
    }

    /// Reads what a page or a redirect at this address refers to.
    pub(crate) fn join(&self, reference: &str) -> Result<Self, Flaw> {
        let reference = clean(reference)?;
        let relative = match split_scheme(&reference) {
            None => &reference[..],
            Some((scheme, rest)) => {
                let scheme = Scheme::parse(scheme)?;
                // `http:there` on a page of the same scheme is relative, by an old custom.
                if scheme != self.scheme || rest.starts_with("//") {
                    return Self::after_scheme(scheme, rest);
                }
                rest
            }
        };
        let mut slashes = relative
            .chars()
            .take_while(|&character| is_slash(character));
        match (slashes.next(), slashes.next()) {
            (Some(_), Some(_)) => Self::after_scheme(self.scheme, relative),
            (Some(_), None) => Ok(self.at("", relative)),
            (None, _) => Ok(self.relative(relative)),
        }
    }

    /// The same with these parameters behind its path.
    pub(crate) fn with_query(mut self, parameters: &[(&str, &str)]) -> Self {
        let pairs = parameters
            .iter()
            .map(|(name, value)| format!("{name}={}", encode(value, path::is_form_unsafe)));
        self.query = Some(pairs.collect::<Vec<_>>().join("&"));
        self.fragment = None;
        self
    }

    /// The same with more behind its path: `/search` below `http://host/sub/`.
    pub(crate) fn below(mut self, more: &str) -> Self {
        self.path = format!("{}{more}", self.path.trim_end_matches('/'));
        self.query = None;
        self.fragment = None;
        self
    }

    pub(crate) fn scheme(&self) -> Scheme {
        self.scheme
    }

    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    pub(crate) fn port(&self) -> u16 {
        self.port.unwrap_or(self.scheme.port())
    }

    /// Host and port as the header `Host` has them.
    pub(crate) fn authority(&self) -> String {
        match self.port {
            Some(port) => format!("{}:{port}", self.host),
            None => self.host.to_string(),
        }
    }

    /// Path and query: what is asked of the server.
    pub(crate) fn target(&self) -> Cow<'_, str> {
        match &self.query {
            Some(query) => format!("{}?{query}", self.path).into(),
            None => self.path.as_str().into(),
        }
    }

    /// The value of a parameter, decoded.
    pub(crate) fn parameter(&self, name: &str) -> Option<String> {
        let pairs = self.query.as_deref()?.split('&');
        let mut pairs = pairs.filter_map(|pair| pair.split_once('='));
        let (_, value) = pairs.find(|(key, _)| *key == name)?;
        let bytes = path::decode(&value.replace('+', " "));
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Without the part that only readers of the page know.
    pub(crate) fn without_fragment(mut self) -> Self {
        self.fragment = None;
        self
    }

    fn after_scheme(scheme: Scheme, rest: &str) -> Result<Self, Flaw> {
        let rest = rest.trim_start_matches(is_slash);
        let end = rest.find(|c| is_slash(c) || matches!(c, '?' | '#'));
        let (authority, rest) = rest.split_at(end.unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err(Flaw::Userinfo);
        }
        let (host, port) = split_port(authority)?;
        let bare = Self {
            scheme,
            host: Host::parse(host)?,
            port: port.filter(|port| *port != scheme.port()),
            path: "/".into(),
            query: None,
            fragment: None,
        };
        Ok(bare.at("", rest))
    }

    /// A reference without scheme, host or leading slash.
    fn relative(&self, reference: &str) -> Self {
        let folder = &self.path[..=self.path.rfind('/').unwrap_or(0)];
        match reference.chars().next() {
            None => self.clone().without_fragment(),
            Some('#') => Self {
                fragment: Some(encode(&reference[1..], path::is_fragment_unsafe)),
                ..self.clone()
            },
            Some('?') => {
                let mut there = self.at("", reference);
                there.path.clone_from(&self.path);
                there
            }
            Some(_) => self.at(folder, reference),
        }
    }

    /// The same host, with everything behind it new.
    fn at(&self, folder: &str, rest: &str) -> Self {
        let (rest, fragment) = split(rest, '#');
        let (path, query) = split(rest, '?');
        Self {
            path: normalise(&format!("{folder}{path}")),
            query: query.map(|query| encode(query, path::is_query_unsafe)),
            fragment: fragment.map(|text| encode(text, path::is_fragment_unsafe)),
            host: self.host.clone(),
            ..*self
        }
    }
}

impl Scheme {
    fn parse(scheme: &str) -> Result<Self, Flaw> {
        match scheme.to_ascii_lowercase().as_str() {
            "http" => Ok(Self::Http),
            "https" => Ok(Self::Https),
            other => Err(Flaw::Scheme(other.to_owned())),
        }
    }

    fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.scheme {
            Scheme::Http => "http",
            Scheme::Https => "https",
        };
        write!(f, "{scheme}://{}{}", self.authority(), self.target())?;
        match &self.fragment {
            Some(fragment) => write!(f, "#{fragment}"),
            None => Ok(()),
        }
    }
}

impl Flaw {
    /// For the model, with what it wrote.
    pub(crate) fn of(&self, url: &str) -> ToolError {
        let shown: String = url.chars().take(200).collect();
        let (why, hint) = match self {
            Self::Scheme(scheme) if scheme.is_empty() => (
                "is not a whole address".into(),
                "begin with `https://` or `http://`",
            ),
            Self::Scheme(scheme) => (
                format!("has the scheme `{scheme}`").into(),
                "only http and https can be fetched",
            ),
            Self::Userinfo => return Self::userinfo(),
            Self::NonAscii => (
                Cow::from("has a host name that is not ASCII"),
                "write the host in Punycode, as in `xn--bcher-kva.example`",
            ),
            Self::Host => ("has no valid host".into(), "check the host name"),
            Self::Port => ("has no valid port".into(), "a port is 1 to 65535"),
            Self::TooLong => ("is too long".into(), "at most 8192 bytes are taken"),
        };
        ToolError::new(format!("`{shown}` {why}")).hint(hint)
    }

    /// Says nothing of the address itself: it holds a secret.
    fn userinfo() -> ToolError {
        ToolError::new("the address has a user name or password in it")
            .hint("leave out everything up to the `@`; no credentials are sent")
    }
}

/// Longest address that is taken, as in most servers.
const LONGEST: usize = 8192;

/// As browsers begin: without blanks around and line breaks within.
fn clean(text: &str) -> Result<String, Flaw> {
    if text.len() > LONGEST {
        return Err(Flaw::TooLong);
    }
    let text = text.trim_matches(|character: char| character <= ' ');
    Ok(text.replace(['\t', '\n', '\r'], ""))
}

fn split_scheme(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once(':')?;
    let mut bytes = scheme.bytes();
    let begins = bytes.next()?.is_ascii_alphabetic();
    let goes_on =
        bytes.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
    (begins && goes_on).then_some((scheme, rest))
}

fn split_port(authority: &str) -> Result<(&str, Option<u16>), Flaw> {
    // The last colon outside of the brackets of an IPv6 address.
    let colon = authority
        .rfind(':')
        .filter(|colon| !authority[*colon..].contains(']'));
    let Some(colon) = colon else {
        return Ok((authority, None));
    };
    let (host, port) = (&authority[..colon], &authority[colon + 1..]);
    match port {
        "" => Ok((host, None)),
        digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            let port: NonZeroU16 = digits.parse().map_err(|_| Flaw::Port)?;
            Ok((host, Some(port.get())))
        }
        _ => Err(Flaw::Port),
    }
}

fn split(text: &str, mark: char) -> (&str, Option<&str>) {
    match text.split_once(mark) {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    }
}

fn is_slash(character: char) -> bool {
    matches!(character, '/' | '\\')
}

#[cfg(test)]
mod tests;
