//! Serves a service where the options say, until a signal stops it: HTTP, a unix socket, or stdio.

use std::{
    convert::Infallible,
    future::pending,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use lmcp::{
    Endpoint, Limits, Service,
    http::{self, Deciding, HeaderMap, Http},
};
use lmcp_fleet::join::{self, Joining};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use crate::{
    options::{Address, Options},
    report::{self, Failure},
    signals::{Signals, stopped_by},
    socket::{self, Asked},
    state::{self, Kept},
    tokens::Tokens,
    welcome,
};

/// The limits, the key and the state folder that a service is made with.
pub(crate) struct Basis {
    pub(crate) limits: Limits,
    /// The key of the run before, so that clients do not notice the restart.
    pub(crate) key: Option<[u8; 32]>,
    /// The folder for state, if there is one.
    pub(crate) directory: Option<PathBuf>,
}

/// A service that is ready to be served.
pub(crate) struct Made {
    pub(crate) endpoint: Endpoint,
    /// The restrictions of the service, in words for the start message.
    pub(crate) enforced: Vec<String>,
    /// Finds the services below its path, over HTTP.
    pub(crate) below: Option<Find>,
    /// Decides about hosts that want to join, over HTTP.
    pub(crate) join: Option<Decide>,
    /// The hub that this server joins, if the options name one.
    pub(crate) joined: Option<Joined>,
}

/// A hub that this server joins, and the endpoint that serves the hub.
pub(crate) struct Joined {
    pub(crate) joining: Joining,
    pub(crate) endpoint: Endpoint,
}

/// Decides about a connection by its headers.
type Decide = Box<dyn Fn(&HeaderMap) -> Deciding + Send + Sync>;

/// Finds a service by its name, or returns words that say that there is none.
type Find = Box<dyn Fn(&str) -> Result<Arc<dyn Service>, String> + Send + Sync>;

impl Made {
    pub(crate) fn new(endpoint: Endpoint, enforced: Vec<String>) -> Self {
        Self {
            endpoint,
            enforced,
            below: None,
            join: None,
            joined: None,
        }
    }
}

/// Makes the service, and serves it.
pub(crate) async fn run(
    options: &Options,
    asked: Asked,
    signals: Signals,
    make: impl FnOnce(Basis) -> Result<Made, Failure>,
) -> Result<(), Failure> {
    match (options.stdio, options.http, &asked) {
        (true, None, Asked::Nowhere) => on_stdio(options, signals, make).await,
        (true, _, _) => {
            let failure = Failure::misuse("a server on stdio listens nowhere else");
            Err(failure.hint("leave out `stdio`, or `http` and `unix`"))
        }
        (false, None, Asked::Nowhere) if options.join.is_none() => {
            let address = Some(Address::DEFAULT);
            listen(options, address, asked, signals, make).await
        }
        (false, address, _) => listen(options, address, asked, signals, make).await,
    }
}

async fn on_stdio(
    options: &Options,
    mut signals: Signals,
    make: impl FnOnce(Basis) -> Result<Made, Failure>,
) -> Result<(), Failure> {
    let directory = match options.demo {
        Some(true) => None,
        _ => state::directory(options)?,
    };
    let Made {
        endpoint,
        enforced,
        joined,
        ..
    } = make(Basis {
        limits: limits(options)?,
        key: None,
        directory,
    })?;
    welcome::confine(options, &enforced);
    let served = tokio::select! {
        served = endpoint.serve(lmcp::stdio()) => served.map_err(Failure::from),
        never = beside(joined) => match never {},
        // There are no clients to wait for, and nothing is reported: some clients end a server in this way.
        signal = signals.next() => Err(stopped_by(signal).silent()),
    };
    hang_up(&endpoint, &mut signals).await;
    served
}

async fn listen(
    options: &Options,
    address: Option<Address>,
    asked: Asked,
    mut signals: Signals,
    make: impl FnOnce(Basis) -> Result<Made, Failure>,
) -> Result<(), Failure> {
    let directory = state::directory(options)?;
    // An operator who asked to keep nothing needs no warning about that.
    let key = match options.keeps_nothing() {
        true => None,
        false => session_key(directory.as_deref())?,
    };
    let Made {
        endpoint,
        enforced,
        below,
        join,
        joined,
    } = make(Basis {
        limits: limits(options)?,
        key,
        directory,
    })?;
    let (ask, asked_to_end) = watch::channel(());
    let http = match address {
        Some(Address(address)) => {
            let http = bind(address, options).await?;
            let http = match below {
                Some(find) => http.below(find),
                None => http,
            };
            let http = match join {
                Some(decide) => http.hand_over(join::PATH, join::PROTOCOL, decide),
                None => http,
            };
            Some(http.until(end(asked_to_end.clone())))
        }
        None => None,
    };
    let (unix, _lock) = socket::listen(asked, options)?.unzip();
    let unix = unix.map(|unix| unix.until(end(asked_to_end.clone())));
    let joined = async {
        if let Some(Joined { joining, endpoint }) = &joined {
            join::join(joining, endpoint, end(asked_to_end)).await;
        }
        Ok(())
    };
    // Both are bound before either is announced, so that a failure leaves no listener open.
    let path = unix.as_ref().map(|unix| unix.path());
    welcome::say(options, http.as_ref(), path, &enforced);
    let stopped = async {
        signals.next().await;
        drop(ask);
        signals.next().await
    };
    let served = tokio::select! {
        served = async { tokio::try_join!(serve(&endpoint, http), serve(&endpoint, unix), joined) } => served.map(|_| ()),
        signal = stopped => Err(stopped_by(signal)),
        never = shed_start() => match never {},
    };
    hang_up(&endpoint, &mut signals).await;
    served
}

/// Frees the memory that only the start needs: at once, and again after the servers behind a hub have probably started.
async fn shed_start() -> Infallible {
    lmcp::heap::let_go_of_code();
    sleep(SETTLED).await;
    lmcp::heap::let_go_of_code();
    pending().await
}

/// The time after which a hub has probably started its servers.
const SETTLED: Duration = Duration::from_secs(10);

/// Keeps a connection to a hub, if one is joined, as long as this future is polled.
async fn beside(joined: Option<Joined>) -> Infallible {
    match joined {
        Some(Joined { joining, endpoint }) => {
            join::join(&joining, &endpoint, pending()).await;
            pending().await
        }
        None => pending().await,
    }
}

/// Ends the servers that the service stands for: the stdin of a process is closed before it is killed, and a session over
/// HTTP is ended. A signal cuts the wait short.
async fn hang_up(endpoint: &Endpoint, signals: &mut Signals) {
    tokio::select! {
        _ = timeout(HANG_UP, endpoint.hang_up()) => {}
        _ = signals.next() => {}
    }
}

/// How long servers may take to end after the service has stopped. Processes are killed after that.
const HANG_UP: Duration = Duration::from_secs(6);

/// Returns the kept key. Without a key, clients must begin new sessions after a restart, and the operator is warned.
fn session_key(directory: Option<&Path>) -> Result<Option<[u8; 32]>, Failure> {
    match state::key(directory)? {
        Kept::Key(key) => Ok(Some(key)),
        Kept::Not(why) => {
            report::note(&format!(
                "warning: clients will have to begin new sessions after a restart, because no key can be kept: {why}"
            ));
            Ok(None)
        }
    }
}

fn limits(options: &Options) -> Result<Limits, Failure> {
    let mut limits = Limits::default();
    if let Some(connections) = options.connections {
        limits.connections = connections.0;
    }
    if let Some(memory) = options.memory {
        limits.memory_bytes = memory.0;
    }
    let enough = make_room(limits.connections);
    if options.connections.is_some() {
        enough?;
        warn_of_memory(&limits);
    }
    Ok(limits)
}

async fn bind(address: SocketAddr, options: &Options) -> Result<Http, Failure> {
    let tokens = Tokens::read(options)?;
    let let_in = tokens.is_some() || options.allow_remote == Some(true);
    if !address.ip().is_loopback() && !let_in {
        let words =
            format!("{address} can be reached by other machines, and no token is asked for");
        return Err(Failure::misuse(words).hint(
            "name a token with --token-file, or listen on 127.0.0.1; --allow-remote if something in front knows who they are",
        ));
    }
    let failed = |err| Failure::from(err).hint("choose another address with --http");
    let mut http = http::bind(address).await.map_err(failed)?;
    if options.legacy_sse == Some(true) {
        http = http.legacy_sse();
    }
    for host in &options.allow_host {
        http = http.allow_host(&host.0);
    }
    for origin in &options.allow_origin {
        http = http.allow_origin(&origin.0);
    }
    if let Some(tokens) = tokens {
        http = http.identify(move |headers| tokens.identify(headers));
    }
    if options.any_local_user == Some(true) {
        http = http.any_local_user();
    }
    Ok(if let_in { http.allow_remote() } else { http })
}

/// Warns if the memory budget does not have room for the allowed connections, because connections count as memory.
fn warn_of_memory(limits: &Limits) {
    let needed = limits.bytes_of_connections();
    if needed > limits.memory_bytes / 2 {
        report::note(&format!(
            "warning: {} connections need {} MiB, and --memory allows {} MiB for everything: fewer are taken while it is short",
            limits.connections,
            needed >> 20,
            limits.memory_bytes >> 20,
        ));
    }
}

/// Raises the limit of open files: every connection needs one, and twice as many are left for other listeners and for the
/// tools.
fn make_room(connections: usize) -> Result<(), Failure> {
    let wanted = 3 * connections as u64;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    let raised = Rlimit {
        current: Some(wanted),
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).map_err(|err| {
        let words = format!("{connections} connections need {wanted} open files");
        Failure::new(&words, err).hint("allow more with `ulimit -Hn`, or take fewer --connections")
    })
}

async fn serve(
    endpoint: &Endpoint,
    transport: Option<impl lmcp::Transport>,
) -> Result<(), Failure> {
    match transport {
        Some(transport) => Ok(endpoint.serve(transport).await?),
        None => Ok(()),
    }
}

/// Ends when the other end of the channel is dropped.
async fn end(mut asked: watch::Receiver<()>) {
    while asked.changed().await.is_ok() {}
}
