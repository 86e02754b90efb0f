//! What can be said on the command line.

use clap::{ArgAction, Parser, Subcommand};

use crate::options::Options;

/// A light Model Context Protocol server.
#[derive(Debug, Parser)]
#[command(name = "lmcp", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// Say more on stderr; twice for everything. RUST_LOG is finer.
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve the tools of this machine over HTTP, a unix socket or stdio.
    ///
    /// Without any of them: HTTP on 127.0.0.1:8080, for programs of this machine.
    #[command(after_help = AFTER)]
    Serve(Box<Options>),
}

const AFTER: &str = "\
SIGTERM and Ctrl-C let running calls end; the second one does not.
The command line wins over the environment, and that over --config.";
