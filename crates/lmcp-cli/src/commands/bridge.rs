//! `lmcp bridge`: offers any server, on any transport, to clients of every revision.

use std::{ffi::OsString, path::PathBuf, sync::Arc};

use clap::Args;
use lmcp::{
    Endpoint, Logged, OwnerKey, Service, Terms,
    upstream::{Health, PerClient, Upstream},
};

use super::listen::{self, Basis, Made};
use crate::{
    client::Target,
    options::{Address, Options as Serving},
    report::Failure,
    signals::Signals,
    socket,
};

/// The options of `lmcp bridge`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Serve HTTP at this address, at the path /mcp: ADDRESS:PORT, :PORT or
    /// PORT. Without any transport: 127.0.0.1:8080.
    #[arg(long, value_name = "ADDRESS", verbatim_doc_comment)]
    http: Option<Address>,

    /// Serve on a unix socket for its owner alone.
    #[arg(long, value_name = "PATH")]
    unix: Option<PathBuf>,

    /// Serve on stdin and stdout.
    #[arg(long, conflicts_with_all = ["http", "unix"])]
    pub(crate) stdio: bool,

    /// The token that HTTP clients must send, in a file for its owner alone.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// Also serve HTTP+SSE, for clients of 2024-11-05.
    #[arg(long)]
    legacy_sse: bool,

    /// Start the server, or connect to it, once for every client, and end it
    /// with the client. For servers that keep a state for each client.
    #[arg(long, verbatim_doc_comment)]
    per_client: bool,

    /// The server: a URL, or the path of a unix socket.
    #[arg(
        long,
        value_name = "TARGET",
        conflicts_with = "command",
        required_unless_present = "command"
    )]
    at: Option<String>,

    /// The token that the server wants if it is a URL, in a file for its
    /// owner alone.
    #[arg(
        long,
        value_name = "FILE",
        requires = "at",
        conflicts_with = "command",
        verbatim_doc_comment
    )]
    upstream_token_file: Option<PathBuf>,

    /// Command that starts the server, with its arguments.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(crate) const AFTER: &str = "\
When the server is lost, calls that it had begun fail, with an error that says
whether to try again. All other calls wait until the server is there again.

  lmcp bridge --http 8080 -- npx -y @modelcontextprotocol/server-everything
  lmcp bridge --stdio --at https://example.org/mcp
  lmcp bridge --unix /run/user/1000/db.sock -- uvx some-database-server";

pub(crate) async fn run(options: Options) -> Result<(), Failure> {
    let target = Target::of(
        options.at.as_deref(),
        options.upstream_token_file.as_deref(),
        &options.command,
    )?;
    let route = target.route()?;
    let serving = Serving {
        http: options.http,
        unix: options.unix,
        stdio: options.stdio,
        token_file: options.token_file,
        legacy_sse: options.legacy_sse.then_some(true),
        ..Serving::default()
    };
    let serving = serving.settle()?;
    let asked = socket::find(&serving)?;
    let signals = Signals::listen()?;
    let words = format!("serving {route}");
    let make = |basis: Basis| {
        let mut terms = Terms::default().limits(basis.limits);
        if let Some(key) = basis.key {
            terms = terms.key(key);
        }
        let terms = lmcp_tools::outside_of_fences(terms);
        let health = Arc::new(Health::new("the server"));
        let upstream = Upstream::builder(route).checks_headers().health(health);
        // The server sees all clients as one caller, so their tasks are kept apart here.
        let key = basis.key.map_or_else(OwnerKey::random, OwnerKey::from);
        let service: Arc<dyn Service> = match options.per_client {
            true => Arc::new(PerClient::built(upstream).owned(&key, "")),
            false => Arc::new(upstream.build().owned(&key, "")),
        };
        let endpoint = Endpoint::on_terms(Logged::new(service), terms);
        Ok(Made::new(endpoint, vec![words]))
    };
    listen::run(&serving, asked, signals, make).await
}
