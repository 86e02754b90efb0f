//! The binary `lmcp`: reads the command line, runs one command, says how it went.

mod cli;
mod commands;
mod demo;
mod host;
mod logging;
mod options;
mod private;
mod report;
mod signals;
mod socket;
mod state;
mod tokens;
mod welcome;

use std::process::ExitCode;

use clap::Parser as _;
use lmcp_tools::Helper;

fn main() -> ExitCode {
    // Before all else: the program may have been called to guard a command, by itself.
    let helper = match Helper::this_program() {
        Ok(helper) => helper,
        Err(code) => return code,
    };
    let cli = cli::Cli::parse();
    logging::start(cli.verbose);
    match commands::run(cli.command, helper) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => report::failure(&failure),
    }
}
