//! What can be said on the command line.

use std::{net::SocketAddr, path::PathBuf};

use clap::{ArgAction, Args, Parser, Subcommand};

/// A light Model Context Protocol server.
#[derive(Debug, Parser)]
#[command(name = "lmcp", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// Say more on stderr; twice for everything. RUST_LOG says it in detail.
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve tools over HTTP, a unix socket or stdio. Without any of them: HTTP on 127.0.0.1:8080. The tools are, for
    /// now, some to try a client with.
    Serve(Serve),
}

/// The options of `serve`.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Serve on stdin and stdout, until stdin ends.
    #[arg(long, conflicts_with_all = ["http", "unix"])]
    pub(crate) stdio: bool,

    /// Serve HTTP at this address, at the path /mcp; port 0 takes a free one. [env: LMCP_HTTP]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) http: Option<SocketAddr>,

    /// Serve on a unix socket that only you can open: a message a line, as on stdio. [env: LMCP_UNIX]
    #[arg(long, value_name = "PATH")]
    pub(crate) unix: Option<PathBuf>,

    /// Also serve HTTP+SSE, the transport of 2024-11-05, at the paths /sse and /messages.
    #[arg(long)]
    pub(crate) legacy_sse: bool,

    /// Connections at once, 1024 if not said. An open stream is one.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) connections: Option<u32>,

    /// Where the key of sessions is kept, so that a restart strands no client. By default $XDG_STATE_HOME/lmcp or
    /// ~/.local/state/lmcp.
    #[arg(
        long,
        value_name = "PATH",
        env = "LMCP_STATE_DIR",
        hide_env_values = true
    )]
    pub(crate) state_dir: Option<PathBuf>,

    /// Also answer to this name: HOST or HOST:PORT, as clients write it.
    #[arg(long, value_name = "HOST")]
    pub(crate) allow_host: Vec<String>,

    /// Also take requests from web pages of this origin: SCHEME://HOST or SCHEME://HOST:PORT.
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) allow_origin: Vec<String>,

    /// Let other machines in, where the address is one they can reach. There is no password yet: put one in front.
    #[arg(long)]
    pub(crate) allow_remote: bool,
}
