//! The server that `clients/run` puts real clients to: one tool for each feature of the table in `docs/clients.md`.
//!
//! Nothing here sleeps: what has to wait, waits for a call or for the end of one, so a slow client is as good as any.
//! The tools are the same in every revision; which one a client speaks is its own business.

mod tools;

use std::{error::Error, net::Ipv4Addr, process::ExitCode};

use lmcp::{Prompt, Resource, Server};

#[tokio::main(flavor = "current_thread")]
#[expect(
    clippy::print_stderr,
    reason = "the one place that speaks to people, and stdout is for data"
)]
async fn main() -> ExitCode {
    match serve(|url| eprintln!("listening on {url}")).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            eprintln!("clients-server: {err}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(ready: impl FnOnce(&str)) -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["--stdio"] => Ok(server().serve(lmcp::stdio()).await?),
        ["--http", port, ref proxies @ ..] => {
            let mut http = lmcp::http::bind((Ipv4Addr::LOCALHOST, port.parse()?)).await?;
            // A client behind a proxy names the proxy in `Host`.
            for proxy in proxies {
                http = http.allow_host(proxy);
            }
            ready(&http.url());
            Ok(server().serve(http).await?)
        }
        _ => Err(
            "say where to serve\nhint: clients-server --stdio, or clients-server --http PORT [PROXY]..."
                .into(),
        ),
    }
}

fn server() -> Server {
    let server = Server::new("clients-server", env!("CARGO_PKG_VERSION"))
        .about("One tool for each feature a client can have.")
        .state(tools::Signals::default())
        .resource(
            Resource::text(tools::NOTE, "note", "Watch this.").about("A text to subscribe to."),
        )
        .prompt(Prompt::new("hello", tools::hello).about("A prompt to list."));
    tools::all().into_iter().fold(server, Server::tool)
}
