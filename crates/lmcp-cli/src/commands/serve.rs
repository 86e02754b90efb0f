//! `lmcp serve`

use std::{
    env,
    net::{Ipv4Addr, SocketAddr},
};

use lmcp::{
    Handle, Limits,
    http::{self, Http},
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    cli::Serve,
    demo,
    report::{self, Failure},
    state::{self, Kept},
};

/// The address when none is given.
const DEFAULT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

pub(crate) async fn run(mut options: Serve) -> Result<(), Failure> {
    if options.stdio {
        return Ok(demo::server().serve(lmcp::stdio()).await?);
    }
    // Only now: who says --stdio means it, whatever the environment says.
    if options.http.is_none() && options.unix.is_none() {
        options.http = address_of("LMCP_HTTP")?;
        options.unix = env::var_os("LMCP_UNIX").map(Into::into);
    }
    let mut limits = Limits::default();
    if let Some(connections) = options.connections {
        limits.connections = usize::try_from(connections).unwrap_or(usize::MAX);
    }
    let enough = make_room(limits.connections);
    if options.connections.is_some() {
        enough?;
    }
    let mut server = demo::server().limits(limits);
    match state::key(options.state_dir.clone())? {
        Kept::Key(key) => server = server.key(key),
        Kept::Not(why) => report::note(&format!(
            "warning: clients will have to begin new sessions after a restart, because no key can be kept: {why}"
        )),
    }
    let server = server.start()?;
    let address = match (options.http, &options.unix) {
        (None, None) => Some(DEFAULT),
        (http, _) => http,
    };
    let http = match address {
        Some(address) => Some(bind(address, &options).await?),
        None => None,
    };
    let unix = options
        .unix
        .map(lmcp::unix)
        .transpose()?
        .map(|unix| unix.until(stopped()));
    // Both are bound before either is announced, so that a failure leaves nothing half open.
    if let Some(http) = &http {
        report::note(&format!("listening on {}", http.url()));
    }
    if let Some(unix) = &unix {
        report::note(&format!("listening on {}", unix.path().display()));
    }
    tokio::try_join!(serve(&server, http), serve(&server, unix))?;
    Ok(())
}

fn address_of(variable: &str) -> Result<Option<SocketAddr>, Failure> {
    let Ok(text) = env::var(variable) else {
        return Ok(None);
    };
    let parsed = text.parse().map(Some);
    parsed.map_err(|err| {
        Failure::new(&format!("{variable} is `{text}`"), err).hint("127.0.0.1:8080, say")
    })
}

async fn bind(address: SocketAddr, options: &Serve) -> Result<Http, Failure> {
    if !address.ip().is_loopback() && !options.allow_remote {
        let failure = Failure::of(format!("{address} can be reached by other machines"));
        return Err(failure.hint(
            "listen on 127.0.0.1, or say --allow-remote if something in front knows who they are",
        ));
    }
    let failed = |err| Failure::from(err).hint("choose another address with --http");
    let mut http = http::bind(address).await.map_err(failed)?.until(stopped());
    if options.legacy_sse {
        http = http.legacy_sse();
    }
    for host in &options.allow_host {
        http = http.allow_host(host);
    }
    for origin in &options.allow_origin {
        http = http.allow_origin(origin);
    }
    Ok(if options.allow_remote {
        http.allow_remote()
    } else {
        http
    })
}

/// Every connection is an open file, and a few are needed besides.
fn make_room(connections: usize) -> Result<(), Failure> {
    let wanted = connections as u64 + 64;
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

async fn serve(server: &Handle, transport: Option<impl lmcp::Transport>) -> Result<(), Failure> {
    match transport {
        Some(transport) => Ok(server.serve(transport).await?),
        None => Ok(()),
    }
}

/// Ends with the first signal that asks a program to stop.
async fn stopped() {
    let (Ok(mut interrupt), Ok(mut terminate)) = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
    ) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}
