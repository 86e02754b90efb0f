//! The binary `lmcp`: reads the command line, runs one command, says how it went.

mod cli;
mod commands;
mod demo;
mod logging;
mod report;
mod state;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    logging::start(cli.verbose);
    match commands::run(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => report::failure(&failure),
    }
}
