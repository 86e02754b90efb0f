//! From a URL to a connection: looks up the host once, has every address checked, and connects to one of the checked addresses.
//!
//! There is no pool. A pool would save a handshake now and then, but it would have to know which connection goes to which
//! checked address.

use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use rustix::net::sockopt;
use tokio::{
    net::{TcpStream, lookup_host},
    task::spawn_blocking,
    time::{Instant, timeout_at},
};

use crate::{
    AudienceCheck, Connection, Error, Guard, Lookup, Scheme, Settings, Upgrade, Url, chain,
    connection::{Stream, Via},
    limits::{ADDRESSES, ATTEMPT},
    proxies::{Proxies, Proxy},
    tls::Tls,
    tunnel, upgrade,
};

/// Makes connections to other machines. It holds no connections itself, and prepares encryption when it is first needed.
pub struct Outbound {
    proxies: Proxies,
    tls: Tls,
    /// For proxies, which do not get the client certificate.
    proxy_tls: Tls,
}

impl Outbound {
    /// Makes an outbound. Nothing is read or connected to yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            proxies: settings.proxies,
            proxy_tls: Tls::new(settings.ca_file.clone(), None),
            tls: Tls::new(settings.ca_file, settings.client_certificate),
        }
    }

    /// Connects to the host of a URL, or to the proxy that the URL goes through.
    ///
    /// # Errors
    /// The step that failed, and the reason.
    pub async fn connect(
        &self,
        url: &Url,
        guard: &dyn Guard,
        until: Instant,
    ) -> Result<Connection, Error> {
        let (stream, via) = match self.proxies.find(url)? {
            None => (direct(url, guard, until).await?, None),
            Some(proxy) => {
                check_for_proxy(url, guard, &proxy, until).await?;
                self.through(proxy, url, until).await?
            }
        };
        let stream = self.encrypted(url, stream, until).await?;
        let connection = Connection::new(stream, via).await;
        connection.map_err(|err| unreachable(url, &chain(&err)))
    }

    /// Asks the host of a URL to go on in another protocol, which the request names in `Connection` and `Upgrade`. A proxy is
    /// always asked for a tunnel, because a request that it passes on itself cannot change the protocol.
    ///
    /// # Errors
    /// The step that failed, and the reason.
    pub async fn upgrade(
        &self,
        url: &Url,
        guard: &dyn Guard,
        request: http::Request<()>,
        until: Instant,
    ) -> Result<Upgrade, Error> {
        let stream = match self.proxies.find(url)? {
            None => direct(url, guard, until).await?,
            Some(proxy) => {
                check_for_proxy(url, guard, &proxy, until).await?;
                let stream = self.reach(&proxy, until).await?;
                tunnelled(stream, &proxy, url, until).await?
            }
        };
        let stream = self.encrypted(url, stream, until).await?;
        let step = || format!("waiting for the answer of `{}`", url.authority());
        let asked = limit(until, step, upgrade::ask(stream, request)).await?;
        asked.map_err(|err| unreachable(url, &chain(&err)))
    }

    /// Returns the same stream, encrypted if the URL demands it.
    async fn encrypted(&self, url: &Url, stream: Stream, until: Instant) -> Result<Stream, Error> {
        match url.scheme() {
            Scheme::Http => Ok(stream),
            Scheme::Https => encrypt(&self.tls, url, stream, until).await,
        }
    }

    /// Connects to a host by way of a proxy, or only to the proxy if that passes the requests on itself.
    async fn through(
        &self,
        proxy: Proxy,
        url: &Url,
        until: Instant,
    ) -> Result<(Stream, Option<Via>), Error> {
        let stream = self.reach(&proxy, until).await?;
        if url.scheme() == Scheme::Https {
            let opened = tunnelled(stream, &proxy, url, until).await?;
            return Ok((opened, None));
        }
        let origin = url.origin();
        Ok((stream, Some(Via { proxy, origin })))
    }

    /// Connects to a proxy. An error names the proxy.
    async fn reach(&self, proxy: &Proxy, until: Instant) -> Result<Stream, Error> {
        let reached = self.reach_proxy(proxy, until).await;
        reached.map_err(|err| match err {
            Error::Late(step) => Error::Late(format!("{step}, a proxy")),
            err if err.is_final() => err,
            err => Error::Unreachable(format!("the proxy `{proxy}` is not there: {err}")),
        })
    }

    /// Connects to a proxy at any address: the operator chose it.
    async fn reach_proxy(&self, proxy: &Proxy, until: Instant) -> Result<Stream, Error> {
        let found = addresses(&proxy.url, until).await?;
        let stream = connect_to_one(&proxy.url, &found, None, until).await?;
        let stream: Stream = Box::new(stream);
        match proxy.url.scheme() {
            Scheme::Http => Ok(stream),
            Scheme::Https => encrypt(&self.proxy_tls, &proxy.url, stream, until).await,
        }
    }
}

impl fmt::Debug for Outbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbound")
            .field("proxies", &self.proxies)
            .field("tls", &self.tls)
            .finish_non_exhaustive()
    }
}

/// Connects to a host without a proxy.
async fn direct(url: &Url, guard: &dyn Guard, until: Instant) -> Result<Stream, Error> {
    let found = addresses(url, until).await?;
    check(url, guard, &found)?;
    let stream = connect_to_one(url, &found, guard.audience(), until).await?;
    Ok(Box::new(stream))
}

/// Checks a host that a proxy will connect to. The address that the proxy uses is not known here, so the guard decides what
/// must be checked before.
async fn check_for_proxy(
    url: &Url,
    guard: &dyn Guard,
    proxy: &Proxy,
    until: Instant,
) -> Result<(), Error> {
    let lookup = match url.host().address() {
        // The address is in the URL: no lookup is needed.
        Some(_) => Lookup::Must,
        None => guard.before_proxy(url),
    };
    if lookup == Lookup::Skip {
        return Ok(());
    }
    match addresses(url, until).await {
        Ok(found) => check(url, guard, &found),
        Err(Error::NotFound(_)) if lookup == Lookup::Try => Ok(()),
        Err(Error::NotFound(why)) => Err(Error::Unchecked(format!(
            "{why}; the proxy `{proxy}` is not asked for a host whose address cannot be checked"
        ))),
        Err(err) => Err(err),
    }
}

fn check(url: &Url, guard: &dyn Guard, found: &[IpAddr]) -> Result<(), Error> {
    let checked = found
        .iter()
        .try_for_each(|address| guard.check(url, *address));
    checked.map_err(Error::Forbidden)
}

/// Returns the addresses of a host, at least one.
async fn addresses(url: &Url, until: Instant) -> Result<Vec<IpAddr>, Error> {
    let host = url.host();
    if let Some(address) = host.address() {
        return Ok(vec![address]);
    }
    let name = host.to_string();
    let not_found = |why| Error::NotFound(format!("cannot find the host `{name}` (DNS){why}"));
    let step = || format!("looking up `{name}`");
    let found = limit(until, step, lookup_host((name.as_str(), url.port()))).await?;
    let found = found.map_err(|err| not_found(format!(": {err}")))?;
    let found: Vec<_> = found.map(|address| address.ip()).collect();
    if found.is_empty() {
        return Err(not_found(": it has no address".to_owned()));
    }
    Ok(found)
}

/// Connects to the first address that answers and that the audience check allows, in the order of the resolver.
async fn connect_to_one(
    url: &Url,
    found: &[IpAddr],
    audience: Option<AudienceCheck>,
    until: Instant,
) -> Result<TcpStream, Error> {
    let found = &found[..found.len().min(ADDRESSES)];
    let (mut why, mut refused) = (String::new(), None);
    for (at, address) in found.iter().enumerate() {
        let address = SocketAddr::new(address.to_canonical(), url.port());
        let is_last = at + 1 == found.len();
        let attempt = TcpStream::connect(address);
        let done = if is_last {
            let step = || format!("connecting to `{}` ({address})", url.authority());
            limit(until, step, attempt).await?
        } else {
            let soon = until.min(Instant::now() + ATTEMPT);
            let done = timeout_at(soon, attempt).await;
            done.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
        };
        match done {
            Ok(stream) => match expect_audience(&stream, audience).await {
                Ok(()) => {
                    // Neither option is necessary, so errors are ignored.
                    let _ = stream.set_nodelay(true);
                    let _ = keep_alive(&stream);
                    return Ok(stream);
                }
                Err(err) => refused = Some(err.to_string()),
            },
            Err(err) => why = format!("{err} ({address})"),
        }
    }
    // If one server was refused and none answers elsewhere, the refusal is the more useful error.
    Err(refused.map_or_else(|| unreachable(url, &why), Error::Forbidden))
}

/// Refuses a connection on which nothing may be sent.
async fn expect_audience(stream: &TcpStream, audience: Option<AudienceCheck>) -> io::Result<()> {
    let Some(check) = audience else {
        return Ok(());
    };
    let (local, server) = (stream.local_addr()?, stream.peer_addr()?);
    let checked = spawn_blocking(move || check(local, server)).await;
    checked.unwrap_or_else(|err| Err(io::Error::other(err)))
}

/// Opens a way through a proxy to the host of a URL.
async fn tunnelled(
    stream: Stream,
    proxy: &Proxy,
    url: &Url,
    until: Instant,
) -> Result<Stream, Error> {
    let step = || format!("waiting for the proxy `{proxy}`");
    limit(until, step, tunnel::open(stream, proxy, url)).await?
}

async fn encrypt(tls: &Tls, url: &Url, stream: Stream, until: Instant) -> Result<Stream, Error> {
    let step = || format!("agreeing on encryption with `{}`", url.authority());
    limit(until, step, tls.encrypt(url.host(), stream)).await?
}

fn unreachable(url: &Url, why: &str) -> Error {
    let url = url.without_query();
    Error::Unreachable(format!("cannot connect to `{url}`: {why}"))
}

/// Runs a step until the time is over.
async fn limit<T>(
    until: Instant,
    step: impl Fn() -> String,
    work: impl Future<Output = T>,
) -> Result<T, Error> {
    let done = timeout_at(until, work).await;
    done.map_err(|_| Error::Late(step()))
}

/// Makes the system notice within two minutes that the server of a silent stream has vanished.
fn keep_alive(stream: &TcpStream) -> rustix::io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, Duration::from_secs(60))?;
    sockopt::set_tcp_keepintvl(stream, Duration::from_secs(15))?;
    sockopt::set_tcp_keepcnt(stream, 4)
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, time::Duration};

    use super::*;

    #[tokio::test]
    async fn where_one_address_may_not_be_spoken_to_the_next_is_tried() {
        let first = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = first.local_addr().unwrap().port();
        let _second = TcpListener::bind(("127.0.0.2", port)).unwrap();
        let url = Url::parse(&format!("http://localhost:{port}/")).unwrap();
        let found = ["127.0.0.1", "127.0.0.2"].map(|address| address.parse().unwrap());
        let until = Instant::now() + Duration::from_secs(60);
        let not_the_first: AudienceCheck = |_, server| match server.to_string() {
            server if server.starts_with("127.0.0.1:") => Err(io::Error::other("not this one")),
            _ => Ok(()),
        };
        let stream = connect_to_one(&url, &found, Some(not_the_first), until).await;
        let server = stream.unwrap().peer_addr().unwrap();
        assert_eq!(server, (found[1], port).into());
        let none: AudienceCheck = |_, server| Err(io::Error::other(format!("not {server}")));
        let refused = connect_to_one(&url, &found, Some(none), until).await;
        assert!(matches!(refused, Err(Error::Forbidden(_))), "{refused:?}");
        // An address where nobody listens does not hide the refusal of another one.
        let found = ["127.0.0.1", "127.0.0.3"].map(|address| address.parse().unwrap());
        let refused = connect_to_one(&url, &found, Some(not_the_first), until).await;
        assert!(matches!(refused, Err(Error::Forbidden(_))), "{refused:?}");
    }
}
