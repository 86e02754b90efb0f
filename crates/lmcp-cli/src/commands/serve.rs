//! `lmcp serve`

use std::net::{Ipv4Addr, SocketAddr};

use lmcp::{
    Handle,
    http::{self, Http},
};
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    cli::Serve,
    demo,
    report::{self, Failure},
};

/// The address when none is given.
const DEFAULT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

pub(crate) async fn run(options: Serve) -> Result<(), Failure> {
    let server = demo::server().start()?;
    if options.stdio {
        return Ok(server.serve(lmcp::stdio()).await?);
    }
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

async fn bind(address: SocketAddr, options: &Serve) -> Result<Http, Failure> {
    if !address.ip().is_loopback() && !options.allow_remote {
        let failure = Failure::of(format!("{address} can be reached by other machines"));
        return Err(failure.hint(
            "listen on 127.0.0.1, or say --allow-remote if something in front knows who they are",
        ));
    }
    let failed = |err| Failure::from(err).hint("choose another address with --http");
    let mut http = http::bind(address).await.map_err(failed)?.until(stopped());
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
