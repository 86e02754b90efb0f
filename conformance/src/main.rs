//! The server that the official conformance suite is run against: one file per group of fixtures.
//!
//! What each tool, resource and prompt does is fixed by the suite, which names them in its scenarios. Nothing here is
//! meant to be useful; `conformance/run` builds it, starts it and runs the suite.

mod ask;
mod changes;
mod content;
mod forms;
mod media;
mod prompts;
mod resources;
mod schemas;
mod stream;
mod tasks;

use std::{error::Error, process::ExitCode};

use lmcp::Server;

#[tokio::main(flavor = "current_thread")]
#[expect(
    clippy::print_stderr,
    reason = "the one place that speaks to people, and stdout is for data"
)]
async fn main() -> ExitCode {
    match serve(|url| eprintln!("listening on {url}")).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            eprintln!("conformance-server: {err}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(ready: impl FnOnce(&str)) -> Result<(), Box<dyn Error>> {
    let Ok(port) = std::env::var("PORT") else {
        return Err("PORT is not set\nhint: PORT=8080 conformance-server".into());
    };
    let port: u16 = port
        .parse()
        .map_err(|err| format!("PORT is `{port}`, which is no port: {err}"))?;
    let server = server().start()?;
    let http = lmcp::http::bind(("127.0.0.1", port)).await?;
    ready(&http.url());
    Ok(server.serve(http).await?)
}

fn server() -> Server {
    let server = Server::new("conformance-server", env!("CARGO_PKG_VERSION"))
        .about("Fixtures of the official conformance suite.");
    let groups = [
        content::add,
        stream::add,
        ask::add,
        forms::add,
        tasks::add,
        schemas::add,
        changes::add,
        resources::add,
        prompts::add,
    ];
    groups.into_iter().fold(server, |server, add| add(server))
}
