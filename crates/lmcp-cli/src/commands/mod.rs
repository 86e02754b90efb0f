//! One file per command.

mod serve;

use crate::{cli::Command, report::Failure};

/// Runs a command to its end, on one thread: a server of this kind waits more than it works.
pub(crate) fn run(command: Command) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|err| Failure::new("cannot start", err))?;
    let result = runtime.block_on(async {
        match command {
            Command::Serve(options) => serve::run(options).await,
        }
    });
    // What still runs on other threads must not hold the process.
    runtime.shutdown_background();
    result
}
