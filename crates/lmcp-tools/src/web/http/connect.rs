//! From a host name to a connection: looked up once, every address checked, and connected to the very one that was.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use lmcp_core::{ToolError, ToolResult};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, lookup_host},
};

use super::{Deadline, Tls};
use crate::web::{
    allow::Guard,
    url::{Host, Scheme, Url},
};

/// A connection, encrypted or not. One type, so that the HTTP behind it is compiled once.
pub(super) type Stream = Box<dyn Duplex>;

pub(super) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

pub(super) async fn connect(
    url: &Url,
    guard: Guard<'_>,
    tls: &Tls,
    deadline: Deadline,
) -> ToolResult<Stream> {
    let addresses = checked_addresses(url, guard, deadline).await?;
    let stream = connect_to_one(url, &addresses, deadline).await?;
    match url.scheme() {
        Scheme::Http => Ok(Box::new(stream)),
        Scheme::Https => {
            let encrypted = tls.encrypt(url.host(), stream);
            let step = format!("agreeing on encryption with `{}`", url.authority());
            Ok(Box::new(deadline.limit(&step, encrypted).await??))
        }
    }
}

/// Where the host is. One address that may not be reached refuses them all: a name that leads both in and out is what
/// an attack looks like.
async fn checked_addresses(
    url: &Url,
    guard: Guard<'_>,
    deadline: Deadline,
) -> ToolResult<Vec<SocketAddr>> {
    let port = url.port();
    let found: Vec<IpAddr> = match url.host() {
        Host::V4(address) => vec![(*address).into()],
        Host::V6(address) => vec![(*address).into()],
        Host::Name(name) => {
            let looked_up = deadline
                .limit(
                    &format!("looking up `{name}`"),
                    lookup_host((name.as_str(), port)),
                )
                .await?;
            let found = looked_up.map_err(|err| {
                ToolError::new(format!("cannot find the host `{name}` (DNS)"))
                    .source(err)
                    .hint("check the host name, and whether this machine is online")
            })?;
            found.map(|address| address.ip()).collect()
        }
    };
    let checked = found.iter().map(|address| {
        guard
            .check(url, *address)
            .map(|ip| SocketAddr::new(ip, port))
    });
    let mut checked = checked.collect::<ToolResult<Vec<_>>>()?;
    checked.truncate(MOST_ADDRESSES);
    Ok(checked)
}

/// The first that answers, in the order in which the resolver gave them.
async fn connect_to_one(
    url: &Url,
    addresses: &[SocketAddr],
    deadline: Deadline,
) -> ToolResult<TcpStream> {
    let mut last = None;
    for (at, address) in addresses.iter().enumerate() {
        let attempt = TcpStream::connect(address);
        let done = if at + 1 < addresses.len() {
            match deadline.limit_to(ATTEMPT, attempt).await {
                Some(done) => done,
                None => Err(io::ErrorKind::TimedOut.into()),
            }
        } else {
            let step = format!("connecting to `{}` ({address})", url.authority());
            deadline.limit(&step, attempt).await?
        };
        match done {
            Ok(stream) => return Ok(stream),
            Err(err) => last = Some((address, err)),
        }
    }
    let host = url.authority();
    Err(match last {
        None => ToolError::new(format!("the host `{host}` has no address (DNS)")),
        Some((address, err)) => {
            ToolError::new(format!("cannot connect to `{host}` ({address})")).source(err)
        }
    })
}

/// How many addresses of one host are tried.
const MOST_ADDRESSES: usize = 8;

/// How long one address has if there are others.
const ATTEMPT: Duration = Duration::from_secs(3);
