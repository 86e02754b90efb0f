//! Checks the address of a server, and makes the headers of every request to it.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, header, uri::PathAndQuery};
use lmcp_outbound::{Connection, Outbound, Scheme, Upgrade, Url};
use tokio::time::Instant;

use crate::{
    audience::Audience, begun::Begun, error::Error, mirror::Mirrors, second::SecondSessions,
    settings::Settings,
};

pub(crate) struct Server {
    /// The address for people, without the part after `?`, which may be a secret.
    name: String,
    url: Url,
    target: PathAndQuery,
    headers: HeaderMap,
    outbound: Outbound,
    /// The other possible readers of a message.
    audience: Audience,
    connect_wait: Duration,
    pub(crate) requests: usize,
    pub(crate) message_bytes: usize,
    pub(crate) begun: Begun,
    pub(crate) second: SecondSessions,
    mirrors: Mutex<Mirrors>,
    /// The server has spoken MCP before: a response that does not look like MCP is a failure, and does not mean that the
    /// server is another kind.
    is_proven: AtomicBool,
    /// The server speaks HTTP+SSE.
    is_paired: AtomicBool,
}

impl Server {
    /// Checks the settings. Nothing is connected yet.
    pub(crate) fn new(settings: Settings) -> Result<Self, Error> {
        let text = &settings.url;
        let refuse = |why: &str| Error::Refused(format!("`{}` {why}", shown(text)));
        let url = Url::parse(text).map_err(|flaw| refuse(&format!("{flaw}; {}", flaw.hint())))?;
        let target = PathAndQuery::try_from(&*url.target())
            .map_err(|err| refuse(&format!("cannot be asked for: {err}")))?;
        let headers = headers_of(&settings, &url)?;
        // The name of a header does not show whether it is secret: `X-Api-Key` is, and is one of many.
        let has_secret = settings.bearer.is_some() || !settings.headers.is_empty();
        let stays_here = url.host().is_loopback() && !settings.outbound.proxies.apply_to(&url);
        let is_safe = url.scheme() == Scheme::Https || stays_here;
        if has_secret && !is_safe && !settings.plain_secrets {
            return Err(refuse(
                "would get the token or the headers unprotected; use `https`",
            ));
        }
        let is_plain = url.scheme() == Scheme::Http;
        let audience = if has_secret && is_plain && !settings.plain_secrets {
            Audience::OwnServer
        } else {
            Audience::Anybody
        };
        Ok(Self {
            name: url.without_query(),
            url,
            target,
            headers,
            outbound: Outbound::new(settings.outbound),
            audience,
            connect_wait: settings.connect_wait,
            requests: settings.requests.max(1),
            message_bytes: settings.message_bytes,
            begun: Begun::default(),
            second: SecondSessions::default(),
            mirrors: Mutex::default(),
            is_proven: AtomicBool::new(false),
            is_paired: AtomicBool::new(false),
        })
    }

    /// Returns the name of the server for people.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the whole URL, whose query may hold a secret or select one of several servers.
    pub(crate) fn address(&self) -> String {
        format!("{} {}", self.name, self.url.target())
    }

    pub(crate) fn is_proven(&self) -> bool {
        self.is_proven.load(Ordering::Relaxed)
    }

    pub(crate) fn prove(&self) {
        self.is_proven.store(true, Ordering::Relaxed);
    }

    /// Returns whether the server last spoke HTTP+SSE.
    pub(crate) fn is_paired(&self) -> bool {
        self.is_paired.load(Ordering::Relaxed)
    }

    /// Notes that the server does not speak HTTP+SSE any more.
    pub(crate) fn speaks_something_else(&self) {
        self.is_paired.store(false, Ordering::Relaxed);
    }

    /// Returns the address for messages that the server named, if it is on the same origin.
    pub(crate) fn inlet(&self, reference: &str) -> Option<PathAndQuery> {
        let url = self.url.join(reference).ok()?;
        let is_own = url.origin() == self.url.origin();
        let inlet = PathAndQuery::try_from(&*url.target()).ok();
        let inlet = inlet.filter(|_| is_own)?;
        self.is_paired.store(true, Ordering::Relaxed);
        Some(inlet)
    }

    /// Returns how long a connection may take.
    pub(crate) fn connect_wait(&self) -> Duration {
        self.connect_wait
    }

    pub(crate) fn mirrors(&self) -> MutexGuard<'_, Mirrors> {
        self.mirrors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a request with the common headers, and these headers.
    pub(crate) fn request(
        &self,
        method: Method,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Request<Bytes> {
        let is_post = method == Method::POST;
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = Uri::from(self.target.clone());
        let all = request.headers_mut();
        all.clone_from(&self.headers);
        let accept = if is_post {
            all.insert(
                header::CONTENT_TYPE,
                HeaderValue::from_static("application/json"),
            );
            "application/json, text/event-stream"
        } else {
            "text/event-stream"
        };
        all.insert(header::ACCEPT, HeaderValue::from_static(accept));
        all.extend(
            headers
                .iter()
                .map(|(name, value)| (name.clone(), value.clone())),
        );
        request
    }

    pub(crate) async fn connect(&self) -> Result<Connection, Error> {
        let until = Instant::now() + self.connect_wait;
        let connected = self
            .outbound
            .connect(&self.url, &self.audience, until)
            .await;
        connected.map_err(|err| self.unconnected(err))
    }

    /// Asks the server to switch to another protocol.
    pub(crate) async fn ask_for(&self, protocol: HeaderValue) -> Result<Upgrade, Error> {
        let until = Instant::now() + self.connect_wait;
        let mut request = Request::new(());
        *request.uri_mut() = Uri::from(self.target.clone());
        let headers = request.headers_mut();
        headers.clone_from(&self.headers);
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, protocol);
        let asked = self
            .outbound
            .upgrade(&self.url, &self.audience, request, until)
            .await;
        asked.map_err(|err| self.unconnected(err))
    }

    /// Returns the error for a failed connection.
    fn unconnected(&self, err: lmcp_outbound::Error) -> Error {
        match err {
            lmcp_outbound::Error::Late(step) => {
                let seconds = self.connect_wait.as_secs_f32();
                Error::Unreachable(format!("timed out after {seconds} s, {step}"))
            }
            lmcp_outbound::Error::Forbidden(why) => self.turned_away(&why),
            err => Error::from(err),
        }
    }

    /// Returns the error if another program listens in place of our server. A server that answered before may come back.
    fn turned_away(&self, why: &str) -> Error {
        let words = format!(
            "`{}` does not get the token or the headers: {why}",
            self.name
        );
        if self.is_proven() {
            Error::Unreachable(words)
        } else {
            Error::Refused(format!(
                "{words}; use `https`, or `--plain-secrets` if that server may have it"
            ))
        }
    }
}

/// Returns the headers of every request.
fn headers_of(settings: &Settings, url: &Url) -> Result<HeaderMap, Error> {
    let mut headers = settings.headers.clone();
    if let Some(name) = headers.keys().find(|name| is_reserved(name)) {
        let words = format!("the header `{name}` is the protocol's own, and cannot be set");
        return Err(Error::Refused(words));
    }
    if let Some(bearer) = &settings.bearer {
        let value = HeaderValue::from_str(&format!("Bearer {}", bearer.expose()));
        let mut value = value.map_err(|_| {
            Error::Refused("the token holds characters that no header takes".to_owned())
        })?;
        value.set_sensitive(true);
        headers.insert(header::AUTHORIZATION, value);
    }
    let host = url.authority();
    let host = HeaderValue::try_from(&host)
        .map_err(|_| Error::Refused(format!("`{host}` is not the name of a host")))?;
    headers.insert(header::HOST, host);
    headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
    Ok(headers)
}

fn is_reserved(name: &HeaderName) -> bool {
    const RESERVED: [HeaderName; 8] = [
        header::HOST,
        header::ACCEPT,
        header::ACCEPT_ENCODING,
        header::CONNECTION,
        header::CONTENT_LENGTH,
        header::CONTENT_TYPE,
        header::TRANSFER_ENCODING,
        HeaderName::from_static(lmcp_wire::header::LAST_EVENT_ID),
    ];
    RESERVED.contains(name) || name.as_str().starts_with("mcp-")
}

/// Returns a URL without the parts that may be secret.
fn shown(url: &str) -> String {
    let end = url.find(['?', '#']).unwrap_or(url.len());
    let (scheme, rest) = url[..end].split_once("://").unwrap_or(("", &url[..end]));
    let path = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(path);
    let host = authority.rsplit('@').next().unwrap_or_default();
    match scheme {
        "" => format!("{host}{path}"),
        scheme => format!("{scheme}://{host}{path}"),
    }
}

const USER_AGENT: &str = concat!("lmcp/", env!("CARGO_PKG_VERSION"));

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Secret;

    fn refused(change: impl FnOnce(&mut Settings), url: &str) -> Option<String> {
        let mut settings = Settings::new(url);
        change(&mut settings);
        Server::new(settings).err().map(|err| err.to_string())
    }

    #[test]
    fn only_addresses_of_the_web_without_passwords_are_taken() {
        for (url, why) in [
            ("http://127.0.0.1:8080/mcp", None),
            ("https://[::1]", None),
            ("https://box.example/mcp?key=1#x", None),
            ("https://box.example/a b", None),
            ("", Some("not a whole address")),
            ("box.example/mcp", Some("begin with `https://`")),
            ("/mcp", Some("not a whole address")),
            ("ftp://box.example/", Some("only http and https")),
            (
                "https://me:pw@box.example/",
                Some("`https://box.example/` has a user name or password"),
            ),
            ("https://box.example:x/?key=s3cret", Some("no valid port")),
        ] {
            let words = refused(|_| {}, url);
            match (&words, why) {
                (None, None) => {}
                (Some(words), Some(why)) => {
                    assert!(words.contains(why), "{url}: {words}");
                    assert!(
                        !words.contains("pw") && !words.contains("s3cret"),
                        "{words}"
                    );
                }
                _ => panic!("{url}: {words:?}"),
            }
        }
    }

    #[test]
    fn a_token_stays_here_unless_it_is_protected_or_told_otherwise() {
        let token = |settings: &mut Settings| settings.bearer = Some(Secret::new("s3cret\n"));
        for (url, fits) in [
            ("http://localhost:1/mcp", true),
            ("http://127.9.9.9/mcp", true),
            ("http://[::1]/mcp", true),
            ("https://box.example/mcp", true),
            ("http://box.example/mcp", false),
            ("http://localhost.example/mcp", false),
            ("http://10.0.0.1/mcp", false),
        ] {
            assert_eq!(refused(token, url).is_none(), fits, "{url}");
        }
        for name in ["cookie", "x-api-key"] {
            let given = |settings: &mut Settings| {
                let value = HeaderValue::from_static("a=b");
                settings.headers.insert(name, value);
            };
            assert!(refused(given, "http://box.example/mcp").is_some(), "{name}");
        }
        let told = |settings: &mut Settings| {
            token(settings);
            settings.plain_secrets = true;
        };
        assert_eq!(refused(told, "http://box.example/mcp"), None);
    }

    #[test]
    fn any_header_that_was_set_is_kept_from_other_users_on_this_machine() {
        let audience = |name: Option<&'static str>| {
            let mut settings = Settings::new("http://127.0.0.1:1/mcp");
            if let Some(name) = name {
                let value = HeaderValue::from_static("s3cret");
                settings.headers.insert(name, value);
            }
            Server::new(settings).unwrap().audience
        };
        assert_eq!(audience(None), Audience::Anybody);
        for name in ["authorization", "cookie", "x-api-key", "anything"] {
            assert_eq!(audience(Some(name)), Audience::OwnServer, "{name}");
        }
    }

    #[test]
    fn headers_of_the_protocol_and_tokens_that_are_none_are_refused() {
        let session = |settings: &mut Settings| {
            settings
                .headers
                .insert("mcp-session-id", HeaderValue::from_static("x"));
        };
        assert!(
            refused(session, "http://localhost/")
                .unwrap()
                .contains("mcp-session-id")
        );
        let broken = |settings: &mut Settings| settings.bearer = Some(Secret::new("a\nb"));
        let words = refused(broken, "http://localhost/").unwrap();
        assert!(
            words.contains("token") && !words.contains("a\nb"),
            "{words}"
        );
    }
}
