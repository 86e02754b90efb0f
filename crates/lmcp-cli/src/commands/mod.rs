//! One file per command.

mod serve;

use lmcp_tools::Helper;

use crate::{cli::Command, report::Failure};

/// Runs a command to its end, on one thread: a server of this kind waits more than it works.
pub(crate) fn run(command: Command, helper: Helper) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // For what waits on a disk, or for a process to start. Each is a stack in memory for a while.
        .max_blocking_threads(16)
        .build()
        .map_err(|err| Failure::new("cannot start", err))?;
    let result = runtime.block_on(async {
        match command {
            Command::Serve(options) => serve::run(*options, helper).await,
        }
    });
    // What still runs on other threads must not hold the process.
    runtime.shutdown_background();
    result
}
