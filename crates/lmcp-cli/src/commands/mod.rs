//! One file per command.

mod approve;
pub(crate) mod bridge;
mod hosts;
pub(crate) mod hub;
mod import;
mod listen;
pub(crate) mod proxy;
mod push;
pub(crate) mod run;
mod serve;

use std::process::ExitCode;

use lmcp_tools::Helper;

use crate::{child, cli::Command, client, report::Failure, signals};

/// Runs a command to its end.
pub(crate) fn run(command: Command, helper: Helper) -> Result<ExitCode, Failure> {
    match command {
        Command::Serve(options) => on_one_thread(async {
            serve::run(*options, helper).await?;
            Ok(ExitCode::SUCCESS)
        }),
        Command::Proxy(options) => proxy::run(&options),
        Command::Run(options) => on_one_thread(run::run(options, helper)),
        Command::Bridge(options) => on_one_thread(async {
            bridge::run(options).await?;
            Ok(ExitCode::SUCCESS)
        }),
        Command::Hub(mut options) => match options.command.take() {
            Some(hub::Command::Status(options)) => on_one_thread(client::hub_status(options)),
            Some(hub::Command::Approve(options)) => {
                approve::run(options)?;
                Ok(ExitCode::SUCCESS)
            }
            Some(hub::Command::Hosts(options)) => {
                hosts::run(options)?;
                Ok(ExitCode::SUCCESS)
            }
            Some(hub::Command::Push(options)) => {
                push::run(&options)?;
                Ok(ExitCode::SUCCESS)
            }
            Some(hub::Command::Import(options)) => {
                import::run(&options)?;
                Ok(ExitCode::SUCCESS)
            }
            None => on_one_thread(async {
                hub::run(*options).await?;
                Ok(ExitCode::SUCCESS)
            }),
        },
        Command::Tools(options) => on_one_thread(client::tools(options)),
        Command::Call(options) => on_one_thread(client::call(options)),
        Command::Read(options) => on_one_thread(client::read(options)),
        Command::Prompt(options) => on_one_thread(client::prompt(options)),
        Command::Ping(options) => on_one_thread(client::ping(options)),
        Command::RunChild { parent, command } => Err(child::become_it(parent, &command)),
    }
}

/// Runs work on one thread, because a server of this kind waits more than it works.
fn on_one_thread(
    work: impl Future<Output = Result<ExitCode, Failure>>,
) -> Result<ExitCode, Failure> {
    // Otherwise glibc would keep several times the memory budget under a hostile load.
    lmcp::heap::keep_little();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // These threads wait for disks and for processes to start. Each needs memory for a stack for a while.
        .max_blocking_threads(52)
        .build()
        .map_err(|err| Failure::new("cannot start", err))?;
    let taken_back = {
        let _inside = runtime.enter();
        signals::take_back()
    };
    taken_back.map_err(|err| Failure::new("cannot hear signals", err))?;
    let result = runtime.block_on(work);
    // Work on other threads must not keep the process alive.
    runtime.shutdown_background();
    result
}
