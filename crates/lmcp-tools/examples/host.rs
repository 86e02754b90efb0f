//! A server of your own with the ready-made tools: `cargo run -p lmcp-tools --example host`, on stdio.

use std::process::ExitCode;

use lmcp_core::{Error, Server};
use lmcp_tools::{Helper, HostTools, Settings};

fn main() -> ExitCode {
    // First of all: every command is guarded by this program, called once more.
    let helper = match Helper::this_program() {
        Ok(helper) => helper,
        Err(code) => return code,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    match runtime.map(|runtime| runtime.block_on(serve(helper))) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(_)) | Err(_) => ExitCode::FAILURE,
    }
}

async fn serve(helper: Helper) -> Result<(), Error> {
    let mut settings = Settings::default();
    settings.helper = Some(helper);
    settings.state_dir = std::env::var_os("STATE_DIR").map(Into::into);
    let server = Server::new("my-host", "1.0.0");
    let server = HostTools::new(settings)?.add_to(server);
    server.serve(lmcp_core::stdio()).await
}
