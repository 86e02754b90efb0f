//! URLs of `http` and `https` only, parsed and resolved as browsers do it.
//!
//! They are stricter than browsers where leniency has no use: no names and passwords in a URL, and host names in ASCII. The
//! crate `url` knows all other schemes, too, but brings seven crates, or thirty with its default tables.

mod host;
mod path;

use std::{borrow::Cow, fmt, num::NonZeroU16};

pub use host::Host;
pub(crate) use path::decode;
use path::{encode, normalise};

use crate::limits::URL_BYTES;

/// An address on the web.
///
/// ```
/// use lmcp_outbound::Url;
///
/// let url = Url::parse("HTTP://Example.COM:80/a/../b")?;
/// assert_eq!(url.to_string(), "http://example.com/b");
/// # Ok::<(), lmcp_outbound::Flaw>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Url {
    scheme: Scheme,
    host: Host,
    /// `None` for the default port of the scheme.
    port: Option<u16>,
    /// The path, encoded and without dots. It begins with `/`.
    path: String,
    query: Option<String>,
    fragment: Option<String>,
}

/// The protocol of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Scheme {
    /// In plain text.
    Http,
    /// Encrypted.
    Https,
}

/// The reason why a text is no URL.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Flaw {
    /// Another scheme, or none.
    Scheme(String),
    /// The URL contains a name or a password, and must not be shown.
    Userinfo,
    /// The host is not in ASCII.
    NonAscii,
    /// There is no valid host.
    Host,
    /// The port is not valid.
    Port,
    /// The URL has more than 8192 bytes.
    TooLong,
}

impl Url {
    /// Reads an absolute URL.
    ///
    /// # Errors
    /// The fault in the URL.
    pub fn parse(text: &str) -> Result<Self, Flaw> {
        let text = clean(text)?;
        let Some((scheme, rest)) = split_scheme(&text) else {
            return Err(Flaw::Scheme(String::new()));
        };
        Self::after_scheme(Scheme::parse(scheme)?, rest)
    }

    /// Resolves a reference of a page or a redirect at this URL.
    ///
    /// # Errors
    /// The fault in the reference.
    pub fn join(&self, reference: &str) -> Result<Self, Flaw> {
        let reference = clean(reference)?;
        let relative = match split_scheme(&reference) {
            None => &reference[..],
            Some((scheme, rest)) => {
                let scheme = Scheme::parse(scheme)?;
                // By an old custom, `http:there` on a page of the same scheme is relative.
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

    /// Replaces the query by these parameters.
    #[must_use]
    pub fn with_query(mut self, parameters: &[(&str, &str)]) -> Self {
        let pairs = parameters
            .iter()
            .map(|(name, value)| format!("{name}={}", encode(value, path::is_form_unsafe)));
        self.query = Some(pairs.collect::<Vec<_>>().join("&"));
        self.fragment = None;
        self
    }

    /// Appends to the path: `/search` below `http://host/sub/`.
    #[must_use]
    pub fn below(mut self, more: &str) -> Self {
        self.path = format!("{}{more}", self.path.trim_end_matches('/'));
        self.query = None;
        self.fragment = None;
        self
    }

    /// The protocol of the URL.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The host of the URL.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The port: the one in the URL, or the default of the scheme.
    pub fn port(&self) -> u16 {
        self.port.unwrap_or(self.scheme.port())
    }

    /// Host and port in the form of the header `Host`.
    pub fn authority(&self) -> String {
        match self.port {
            Some(port) => format!("{}:{port}", self.host),
            None => self.host.to_string(),
        }
    }

    /// Scheme, host and port, without a slash at the end.
    pub fn origin(&self) -> String {
        let scheme = match self.scheme {
            Scheme::Http => "http",
            Scheme::Https => "https",
        };
        format!("{scheme}://{}", self.authority())
    }

    /// The URL without query and fragment, which may be secrets.
    pub fn without_query(&self) -> String {
        format!("{}{}", self.origin(), self.path)
    }

    /// Path and query, which the server gets in the request.
    pub fn target(&self) -> Cow<'_, str> {
        match &self.query {
            Some(query) => format!("{}?{query}", self.path).into(),
            None => self.path.as_str().into(),
        }
    }

    /// Returns the value of a parameter, decoded.
    pub fn parameter(&self, name: &str) -> Option<String> {
        let pairs = self.query.as_deref()?.split('&');
        let mut pairs = pairs.filter_map(|pair| pair.split_once('='));
        let (_, value) = pairs.find(|(key, _)| *key == name)?;
        let bytes = decode(&value.replace('+', " "));
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Removes the fragment, which is never sent to the server.
    #[must_use]
    pub fn without_fragment(mut self) -> Self {
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

    /// Resolves a reference without scheme, host or leading slash.
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

    /// Makes a URL of the same host with another path, query and fragment.
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
        write!(f, "{}{}", self.origin(), self.target())?;
        match &self.fragment {
            Some(fragment) => write!(f, "#{fragment}"),
            None => Ok(()),
        }
    }
}

impl Flaw {
    /// Advice on how to correct the URL.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Scheme(scheme) if scheme.is_empty() => "begin with `https://` or `http://`",
            Self::Scheme(_) => "only http and https can be asked",
            Self::Userinfo => "leave out everything up to the `@`; no credentials are sent",
            Self::NonAscii => "write the host in Punycode, as in `xn--bcher-kva.example`",
            Self::Host => "check the host name",
            Self::Port => "a port is 1 to 65535",
            Self::TooLong => "at most 8192 bytes are taken",
        }
    }
}

/// Writes a part of a sentence about the URL: `has no valid host`.
impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scheme(scheme) if scheme.is_empty() => "is not a whole address",
            Self::Scheme(scheme) => return write!(f, "has the scheme `{scheme}`"),
            Self::Userinfo => "has a user name or password in it",
            Self::NonAscii => "has a host name that is not ASCII",
            Self::Host => "has no valid host",
            Self::Port => "has no valid port",
            Self::TooLong => "is too long",
        })
    }
}

impl std::error::Error for Flaw {}

/// Cleans a text as browsers do: removes blanks at both ends, and line breaks and tabs everywhere.
fn clean(text: &str) -> Result<String, Flaw> {
    if text.len() > URL_BYTES {
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

/// Splits an authority into a host and its port.
pub(crate) fn split_port(authority: &str) -> Result<(&str, Option<u16>), Flaw> {
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
