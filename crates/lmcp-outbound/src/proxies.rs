//! Finds the proxy for a URL, by the environment variables that most programs read.

use std::fmt;

use base64::Engine as _;
use http::HeaderValue;

use crate::{
    Error, Flaw, Host, Network, Scheme, Url,
    url::{decode, split_port},
};

/// The proxies of an operator, and the hosts that are reached without them.
///
/// Values are parsed when they are needed, so that a wrong one fails only the requests that need it.
#[derive(Clone, Default)]
pub struct Proxies {
    http: Option<Named>,
    https: Option<Named>,
    /// The hosts that are reached without a proxy, as a list with commas.
    bypass: String,
}

#[derive(Clone)]
struct Named {
    variable: &'static str,
    /// The address of the proxy. It may contain a password.
    value: String,
}

impl Proxies {
    /// Reads the proxies from the environment: `HTTP_PROXY` for `http`, `HTTPS_PROXY` for `https`, `ALL_PROXY` for both, and
    /// `NO_PROXY`. Names in lower case come first. An empty value counts as none.
    ///
    /// `NO_PROXY` is a list with commas. An item is a name, which also stands for every name below it, an address, or a network,
    /// with a port if only that port is meant; `*` stands for everything. This machine (`localhost`, `127.0.0.0/8`, `::1`) is
    /// never reached through a proxy, unless the list contains `<-loopback>`.
    ///
    /// `HTTP_PROXY` is not read if `REQUEST_METHOD` is set: a web server gives the header `Proxy` of any request to its scripts
    /// under that name.
    pub fn from_env(lookup: impl Fn(&str) -> Option<String>) -> Self {
        let find = |variable: &'static str| {
            let value = lookup(variable)?.trim().to_owned();
            (!value.is_empty()).then_some(Named { variable, value })
        };
        let is_script = lookup("REQUEST_METHOD").is_some();
        let either = |lower, upper| find(lower).or_else(|| find(upper));
        let all = || either("all_proxy", "ALL_PROXY");
        let http = find("http_proxy").or_else(|| find("HTTP_PROXY").filter(|_| !is_script));
        let bypass = either("no_proxy", "NO_PROXY");
        Self {
            http: http.or_else(all),
            https: either("https_proxy", "HTTPS_PROXY").or_else(all),
            bypass: bypass.map(|list| list.value).unwrap_or_default(),
        }
    }

    /// Whether this URL goes through a proxy, even if its address is wrong.
    pub fn apply_to(&self, url: &Url) -> bool {
        self.named(url).is_some()
    }

    /// Returns the proxy that this URL goes through.
    pub(crate) fn find(&self, url: &Url) -> Result<Option<Proxy>, Error> {
        let Some(Named { variable, value }) = self.named(url) else {
            return Ok(None);
        };
        let proxy = Proxy::parse(value).map_err(|flaw| {
            let why = match flaw {
                Flaw::Scheme(scheme) => format!(
                    "has the scheme `{scheme}`, and only `http` and `https` are spoken here"
                ),
                flaw => flaw.to_string(),
            };
            // The value is not shown: it may contain a password at a wrong place.
            Error::Refused(format!("the proxy in `{variable}` {why}"))
        })?;
        Ok(Some(proxy))
    }

    fn named(&self, url: &Url) -> Option<&Named> {
        let named = match url.scheme() {
            Scheme::Http => &self.http,
            Scheme::Https => &self.https,
        };
        let named = named.as_ref()?;
        let goes_past = goes_past(&self.bypass, url.host(), url.port());
        (!goes_past).then_some(named)
    }
}

impl fmt::Debug for Proxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variable = |named: &Option<Named>| named.as_ref().map(|named| named.variable);
        f.debug_struct("Proxies")
            .field("http", &variable(&self.http))
            .field("https", &variable(&self.https))
            .field("bypass", &self.bypass)
            .finish()
    }
}

/// A proxy. It is shown without its password.
#[derive(Clone)]
pub(crate) struct Proxy {
    pub(crate) url: Url,
    /// The value of `Proxy-Authorization`, if the address has a name and a password.
    pub(crate) authorization: Option<HeaderValue>,
}

impl Proxy {
    /// Reads `HOST:PORT` or `SCHEME://NAME:PASSWORD@HOST:PORT`.
    fn parse(text: &str) -> Result<Self, Flaw> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (credentials, host) = match rest[..end].rsplit_once('@') {
            Some((credentials, host)) => (Some(credentials), host),
            None => (None, &rest[..end]),
        };
        Ok(Self {
            url: Url::parse(&format!("{scheme}://{host}"))?,
            authorization: credentials.and_then(basic),
        })
    }

    /// Makes the error of a proxy that wants credentials, or does not accept ours.
    pub(crate) fn unauthorized(&self) -> Error {
        let why = match self.authorization {
            Some(_) => "does not take the name and password in its address",
            None => {
                "wants a name and a password; write them into its address, as in `http://NAME:PASSWORD@HOST:PORT`"
            }
        };
        Error::Refused(format!("the proxy `{self}` {why} (407)"))
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url.origin())
    }
}

/// Writes the value of `Basic` by RFC 7617.
fn basic(credentials: &str) -> Option<HeaderValue> {
    let (name, password) = credentials.split_once(':').unwrap_or((credentials, ""));
    let plain = [&*decode(name), b":", &*decode(password)].concat();
    let coded = base64::engine::general_purpose::STANDARD.encode(plain);
    let mut value = HeaderValue::from_str(&format!("Basic {coded}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Whether a host is reached without a proxy by this list.
fn goes_past(list: &str, host: &Host, port: u16) -> bool {
    let items = || list.split([',', ' ', '\t']).filter(|item| !item.is_empty());
    if host.is_loopback() && !items().any(|item| item == "<-loopback>") {
        return true;
    }
    items().any(|item| item == "*" || names(item, host, port))
}

/// Whether an item of the list names this host.
fn names(item: &str, host: &Host, port: u16) -> bool {
    if let Ok(network) = item.parse::<Network>() {
        return host
            .address()
            .is_some_and(|address| network.contains(address));
    }
    let Ok((name, wanted)) = split_port(item) else {
        return false;
    };
    if wanted.is_some_and(|wanted| wanted != port) {
        return false;
    }
    let name = name.strip_prefix('*').unwrap_or(name);
    let Ok(named) = Host::parse(name.strip_prefix('.').unwrap_or(name)) else {
        return false;
    };
    match (named.name(), host.name()) {
        (Some(named), Some(name)) => {
            let above = name
                .trim_end_matches('.')
                .strip_suffix(named.trim_end_matches('.'));
            above.is_some_and(|above| above.is_empty() || above.ends_with('.'))
        }
        (None, None) => named.address() == host.address(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(pairs: &[(&str, &str)]) -> Proxies {
        Proxies::from_env(|name| {
            let found = pairs.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    fn shown(pairs: &[(&str, &str)], url: &str) -> Option<String> {
        let found = proxies(pairs).find(&Url::parse(url).unwrap());
        found.unwrap().map(|proxy| proxy.to_string())
    }

    #[test]
    fn each_scheme_has_its_variable_and_lower_case_comes_first() {
        let all = [
            ("http_proxy", "a.example:1"),
            ("HTTP_PROXY", "b.example"),
            ("HTTPS_PROXY", "https://c.example:3"),
            ("ALL_PROXY", "d.example"),
        ];
        let http = "http://x.example/";
        let https = "https://x.example/";
        assert_eq!(shown(&all, http).as_deref(), Some("http://a.example:1"));
        assert_eq!(shown(&all[1..], http).as_deref(), Some("http://b.example"));
        assert_eq!(shown(&all, https).as_deref(), Some("https://c.example:3"));
        assert_eq!(shown(&all[3..], https).as_deref(), Some("http://d.example"));
        assert_eq!(shown(&[("HTTP_PROXY", " ")], http), None);
        assert_eq!(shown(&[("HTTP_PROXY", "p")], https), None);
        assert_eq!(shown(&[], http), None);
    }

    #[test]
    fn a_header_of_a_request_to_a_web_server_is_no_proxy() {
        let pairs = [("HTTP_PROXY", "evil.example"), ("REQUEST_METHOD", "GET")];
        assert_eq!(shown(&pairs, "http://x.example/"), None);
        let pairs = [("http_proxy", "p.example"), ("REQUEST_METHOD", "GET")];
        assert!(shown(&pairs, "http://x.example/").is_some());
    }

    #[test]
    fn no_proxy_names_what_goes_past() {
        for (list, url, goes_past) in [
            ("", "http://x.example/", false),
            ("*", "http://x.example/", true),
            ("x.example", "http://x.example/", true),
            ("X.Example", "http://x.example./", true),
            (".example", "http://x.example/", true),
            ("*.example", "http://x.example/", true),
            ("example", "http://a.x.example/", true),
            ("x.example", "http://xx.example/", false),
            ("a, b  x.example", "http://x.example/", true),
            ("x.example:80", "http://x.example/", true),
            ("x.example:80", "http://x.example:81/", false),
            ("10.0.0.0/8", "http://10.1.2.3/", true),
            ("10.0.0.0/8", "http://11.1.2.3/", false),
            ("10.0.0.0/8", "http://x.example/", false),
            ("10.0.0.1", "http://10.0.0.1/", true),
            ("10.0.0.1:81", "http://10.0.0.1/", false),
            ("fd00::/8", "http://[fd00::1]/", true),
            ("fd00::1,[fd00::2]:80", "http://[fd00::2]/", true),
            ("nonsense/x, :::", "http://x.example/", false),
            ("", "http://localhost:1/", true),
            ("", "http://a.localhost/", true),
            ("", "http://127.0.0.9/", true),
            ("", "http://[::1]/", true),
            ("", "http://[::ffff:127.0.0.1]/", true),
            ("<-loopback>", "http://localhost/", false),
            ("<-loopback>,localhost", "http://localhost/", true),
        ] {
            let pairs = [("HTTP_PROXY", "p.example"), ("NO_PROXY", list)];
            assert_eq!(shown(&pairs, url).is_none(), goes_past, "{list}: {url}");
        }
    }

    #[test]
    fn a_password_is_sent_and_never_shown() {
        let pairs = [("HTTP_PROXY", "http://me:p%40ss@p.example:3128/x")];
        let url = Url::parse("http://x.example/").unwrap();
        let proxy = proxies(&pairs).find(&url).unwrap().unwrap();
        assert_eq!(proxy.to_string(), "http://p.example:3128");
        let sent = proxy.authorization.clone().unwrap();
        assert_eq!(sent, "Basic bWU6cEBzcw==");
        let debug = format!("{:?}", proxies(&pairs));
        let words = proxy.unauthorized().to_string();
        assert!(
            !debug.contains("40ss") && !words.contains("40ss"),
            "{debug} {words}"
        );
    }

    #[test]
    fn what_is_no_proxy_is_named_by_its_variable_alone() {
        for value in [
            "socks5://me:secret@p.example",
            "http://me:secret@p example",
            "http://me:sec/ret@p.example",
            "http://",
            "me:secret",
        ] {
            let found =
                proxies(&[("ALL_PROXY", value)]).find(&Url::parse("http://x.example").unwrap());
            let words = found.err().map(|err| err.to_string()).unwrap_or_default();
            assert!(words.contains("`ALL_PROXY`"), "{value}: {words}");
            assert!(
                !words.contains("secret") && !words.contains("ret@"),
                "{words}"
            );
        }
    }
}
