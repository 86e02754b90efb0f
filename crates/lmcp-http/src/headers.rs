//! The header fields that decide whether a request is served, and all fields in the form that the engine reads.
//!
//! A web page can make a browser send requests to `127.0.0.1`, under a name of its own that resolves there (DNS rebinding).
//! Such a request names the page in `Host` and `Origin`, so both must be known to the server.

use std::{
    any::{Any, TypeId},
    net::{IpAddr, SocketAddr},
};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use lmcp_core::{HeaderValue as Found, Headers};
use lmcp_wire::{RpcError, header as wire};

use crate::carried::Carried;

/// A request that cannot be read at all, and the status of its answer.
pub(crate) type Refusal = (StatusCode, RpcError);

pub(crate) const SESSION_ID: HeaderName = HeaderName::from_static(wire::SESSION_ID);

/// The names of this server, and the pages that may use it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Guard {
    /// The port that the server listens on. `None` in another program's server, whose port is not known here.
    pub(crate) port: Option<u16>,
    /// The address that the server listens on, if it listens itself.
    pub(crate) address: Option<IpAddr>,
    /// `host` or `host:port`, in lower case, besides the loopback names.
    pub(crate) hosts: Vec<String>,
    /// `scheme://host[:port]`, in lower case, besides the server's own.
    pub(crate) origins: Vec<String>,
}

impl Guard {
    /// Checks a request. The error says what is refused, and which setting would allow it.
    pub(crate) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), String> {
        // HTTP/1.1 has the field; a mounted HTTP/2 server has the name in the URI. If a request has both, both are checked.
        let authority = uri.authority().map(|authority| authority.as_str());
        let hosts = || {
            let fields = headers.get_all(header::HOST).iter().map(text);
            fields.chain(authority)
        };
        if let Some(host) = hosts().find(|host| !self.knows_host(host)) {
            return Err(refusal("Host", host, "host"));
        }
        let written = headers.get_all(header::HOST).iter().count();
        if hosts().next().is_none() || written > 1 {
            return Err(format!("a request has one `Host`, not {written}"));
        }
        for origin in headers.get_all(header::ORIGIN).iter().map(text) {
            let is_own = |host| self.is_own_page(origin, host);
            if !(hosts().all(is_own) || self.knows_origin(origin)) {
                return Err(refusal("Origin", origin, "origin"));
            }
        }
        Ok(())
    }

    /// A loopback name is accepted with any port: a tunnel (`ssh -L`, `docker -p`) has a port of its own, and no attacker can
    /// make such a name lead elsewhere.
    fn knows_host(&self, host: &str) -> bool {
        is_loopback(split_port(host, "80").0)
            || self.is_our_number(host)
            || self
                .hosts
                .iter()
                .any(|known| known.eq_ignore_ascii_case(host))
    }

    fn knows_origin(&self, origin: &str) -> bool {
        let mut origins = self.origins.iter();
        origins.any(|known| known.eq_ignore_ascii_case(origin))
    }

    /// Whether a page of this origin came from this server, which was called by this host name. Behind a tunnel, the server's own port
    /// is that of its pages. In another program's server, the pages have the port that the request names.
    fn is_own_page(&self, origin: &str, host: &str) -> bool {
        let (page, usual) = match (origin.strip_prefix("http://"), self.port) {
            (Some(page), _) => (page, "80"),
            (None, Some(_)) => return false,
            (None, None) => match origin.strip_prefix("https://") {
                Some(page) => (page, "443"),
                None => return false,
            },
        };
        let (name, port) = split_port(page, usual);
        match self.port {
            Some(ours) => is_loopback(name) && port.parse() == Ok(ours),
            None => {
                let (called, by) = split_port(host, usual);
                let are_one = is_loopback(name) && is_loopback(called);
                (are_one || name.eq_ignore_ascii_case(called)) && port == by
            }
        }
    }

    /// Whether the host is the address that the server listens on, as a number; if the server listens on every address, any
    /// number. DNS rebinding needs a name: a number leads to this server only.
    fn is_our_number(&self, host: &str) -> bool {
        let written = host.parse::<SocketAddr>().ok();
        let (Some(written), Some(ours), Some(port)) = (written, self.address, self.port) else {
            return false;
        };
        written.port() == port && (ours.is_unspecified() || written.ip() == ours)
    }
}

/// Splits a host into its name and its port, which is the usual one if none is written.
fn split_port<'a>(host: &'a str, usual: &'a str) -> (&'a str, &'a str) {
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    match host.rsplit_once(':') {
        Some((name, port)) if is_port(port) => (name, port),
        _ => (host, usual),
    }
}

fn is_loopback(name: &str) -> bool {
    ["localhost", "127.0.0.1", "[::1]"]
        .iter()
        .any(|known| known.eq_ignore_ascii_case(name))
}

fn refusal(field: &str, value: &str, option: &str) -> String {
    format!(
        "`{field}: {value}` is not allowed here; allow it with `allow_{option}(\"{value}\")` or `--allow-{option} {value}`"
    )
}

/// Returns the text of a field. A field that is not text matches no name.
fn text(value: &HeaderValue) -> &str {
    value.to_str().unwrap_or("(not text)")
}

/// The kinds of answer that a POST takes, if its headers declare the body as JSON. The error is in a box, because this value is
/// moved around with every request. An unknown caller never gets it.
pub(crate) type Form = Result<Accept, Box<Refusal>>;

pub(crate) fn form(headers: &HeaderMap) -> Form {
    let accept = Accept::of(headers)?;
    check_type(headers)?;
    Ok(accept)
}

/// Copies the fields into memory of their own. The original fields are slices of a connection's buffer of 8 kB, which stays
/// whole while any of them exists: too much for a stream that is open for long.
pub(crate) fn detached(mut headers: HeaderMap) -> HeaderMap {
    for value in headers.values_mut() {
        if let Ok(copy) = HeaderValue::from_bytes(value.as_bytes()) {
            *value = copy;
        }
    }
    headers
}

/// The value that nearly every client sends.
const USUAL_ACCEPT: &str = "application/json, text/event-stream";

/// The kinds of answer that the client takes.
#[derive(Clone, Copy)]
pub(crate) struct Accept {
    pub(crate) json: bool,
    pub(crate) events: bool,
}

impl Accept {
    /// Reads the header. Real clients list one type, none, or `*/*`, so only a value that excludes both kinds is refused.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, Refusal> {
        if headers
            .get(header::ACCEPT)
            .is_some_and(|value| value == USUAL_ACCEPT)
        {
            return Ok(Self {
                json: true,
                events: true,
            });
        }
        let mut kinds = headers.get_all(header::ACCEPT).iter().peekable();
        if kinds.peek().is_none() {
            return Ok(Self {
                json: true,
                events: false,
            });
        }
        let (mut json, mut events) = (false, false);
        let kinds = kinds
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','));
        for kind in kinds.map(|kind| kind.split(';').next().unwrap_or_default().trim()) {
            json |= ["application/json", "application/*", "*/*"]
                .iter()
                .any(|known| known.eq_ignore_ascii_case(kind));
            events |= ["text/event-stream", "text/*", "*/*"]
                .iter()
                .any(|known| known.eq_ignore_ascii_case(kind));
        }
        if json || events {
            return Ok(Self { json, events });
        }
        let words = "answers are `application/json` or `text/event-stream`; `Accept` takes neither";
        Err((StatusCode::NOT_ACCEPTABLE, RpcError::invalid_request(words)))
    }
}

/// Accepts JSON only. A page may send a form to any server without permission, but not a body of this type.
pub(crate) fn check_type(headers: &HeaderMap) -> Result<(), Refusal> {
    let kind = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if kind.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let words = match kind {
        "" => "`Content-Type` is missing; it must be `application/json`".to_owned(),
        kind => format!("`Content-Type` must be `application/json`, not `{kind}`"),
    };
    Err((
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        RpcError::invalid_request(words),
    ))
}

/// The header fields of a request, in the form that the engine reads.
pub(crate) struct Fields {
    pub(crate) headers: HeaderMap,
    /// `None` on the server's own port. A box keeps those callers small.
    pub(crate) carried: Option<Box<Carried>>,
}

impl Headers for Fields {
    fn get(&self, name: &str) -> Found<'_> {
        let mut values = match name {
            // These fields are in every request; their names need not be parsed.
            wire::PROTOCOL_VERSION => self.headers.get_all(PROTOCOL_VERSION).iter(),
            wire::METHOD => self.headers.get_all(METHOD).iter(),
            wire::NAME => self.headers.get_all(NAME).iter(),
            wire::SESSION_ID => self.headers.get_all(SESSION_ID).iter(),
            _ => self.headers.get_all(name).iter(),
        };
        match (values.next().map(HeaderValue::to_str), values.next()) {
            (None, _) => Found::Absent,
            (Some(Ok(text)), None) => Found::Text(text),
            _ => Found::Malformed,
        }
    }

    fn extension(&self, of: TypeId) -> Option<&(dyn Any + Send + Sync)> {
        self.carried.as_ref()?.find(of)
    }
}

const PROTOCOL_VERSION: HeaderName = HeaderName::from_static(wire::PROTOCOL_VERSION);
const METHOD: HeaderName = HeaderName::from_static(wire::METHOD);
const NAME: HeaderName = HeaderName::from_static(wire::NAME);

#[cfg(test)]
mod tests {
    use super::*;

    fn check(guard: &Guard, host: &str, origin: Option<&str>) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().unwrap());
        }
        guard.check(&Uri::from_static("/mcp"), &headers).is_ok()
    }

    #[test]
    fn only_known_hosts_and_origins_pass() {
        let guard = Guard {
            port: Some(8080),
            address: None,
            hosts: vec!["box.lan:8080".into()],
            origins: vec!["https://app.example".into()],
        };
        for (host, origin, expected) in [
            ("localhost:8080", None, true),
            ("LOCALHOST:8080", None, true),
            ("127.0.0.1:8080", Some("http://127.0.0.1:8080"), true),
            ("[::1]:8080", Some("http://localhost:8080"), true),
            ("box.lan:8080", Some("https://app.example"), true),
            ("localhost", None, true),
            ("localhost:81", None, true),
            ("[::1]:81", None, true),
            ("localhost:81", Some("http://localhost:81"), false),
            ("localhost:8080.evil.example", None, false),
            ("evil.example:8080", None, false),
            ("", None, false),
            ("localhost:8080", Some("null"), false),
            ("localhost:8080", Some("http://evil.example"), false),
            ("localhost:8080", Some("https://localhost:8080"), false),
            (
                "localhost:8080",
                Some("http://localhost:8080.evil.example"),
                false,
            ),
            ("localhost:8080", Some("http://localhost:3000"), false),
        ] {
            assert_eq!(check(&guard, host, origin), expected, "{host} {origin:?}");
        }
    }

    #[test]
    fn a_number_that_is_listened_on_needs_no_permission_but_a_page_there_does() {
        let listens = |address: &str| Guard {
            port: Some(8080),
            address: address.parse().ok(),
            ..Guard::default()
        };
        for (address, host, expected) in [
            ("192.0.2.7", "192.0.2.7:8080", true),
            ("192.0.2.7", "192.0.2.8:8080", false),
            ("192.0.2.7", "192.0.2.7:81", false),
            ("192.0.2.7", "192.0.2.7.evil.example:8080", false),
            ("0.0.0.0", "192.0.2.7:8080", true),
            ("::", "[2001:db8::7]:8080", true),
            ("::", "evil.example:8080", false),
        ] {
            let guard = listens(address);
            assert_eq!(check(&guard, host, None), expected, "{address} {host}");
            let page = format!("http://{host}");
            assert!(!check(&guard, host, Some(&page)), "{address} {page}");
        }
    }

    #[test]
    fn a_mounted_server_takes_any_port_of_the_host_and_pages_of_that_port() {
        let guard = Guard {
            hosts: vec!["tools.example".into()],
            ..Guard::default()
        };
        for (host, origin, expected) in [
            ("localhost:3000", None, true),
            ("evil.example:3000", None, false),
            ("localhost:3000", Some("http://localhost:3000"), true),
            ("127.0.0.1:3000", Some("http://localhost:3000"), true),
            ("localhost:3000", Some("http://localhost:9"), false),
            ("localhost:3000", Some("http://localhost"), false),
            ("localhost", Some("http://localhost"), true),
            ("tools.example", Some("https://tools.example"), true),
            ("tools.example", Some("http://tools.example"), true),
            ("tools.example", Some("https://tools.example:8443"), false),
            ("tools.example", Some("https://localhost"), false),
            ("tools.example", Some("https://evil.example"), false),
            ("localhost:3000", Some("http://tools.example"), false),
            ("localhost:3000", Some("null"), false),
        ] {
            assert_eq!(check(&guard, host, origin), expected, "{host} {origin:?}");
        }
    }
}
