//! The binary `lmcp`: reads the command line, runs one command, and reports failures.

mod apart;
mod child;
mod cli;
mod client;
mod commands;
mod daemon;
mod demo;
mod host;
mod logging;
mod options;
mod presets;
mod private;
mod report;
mod signals;
mod socket;
mod state;
mod this_program;
mod tokens;
mod welcome;

use std::process::ExitCode;

use clap::Parser as _;
use commands::proxy;
use lmcp_tools::Helper;

/// The allocator of musl takes its time.
#[cfg(target_env = "musl")]
#[global_allocator]
static HEAP: lmcp::heap::Pieces = lmcp::heap::Pieces;

fn main() -> ExitCode {
    if commands::run::goes_on() && signals::hear_what_was_held_back().is_err() {
        return ExitCode::FAILURE;
    }
    // This comes first otherwise: the program may have started itself in order to guard a command.
    let helper = match Helper::this_program() {
        Ok(helper) => helper,
        Err(code) => return code,
    };
    let ended = match proxy::Options::alone(std::env::args_os()) {
        Some(options) => proxy::run(&options),
        None => {
            let cli = cli::Cli::parse();
            logging::start(cli.verbose, !cli.command.serves());
            commands::run(cli.command, helper)
        }
    };
    ended.unwrap_or_else(|failure| report::failure(&failure))
}
