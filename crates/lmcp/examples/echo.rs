//! One tool on any transport: `echo stdio`, `echo http PORT`, `echo unix PATH`. The benchmark measures this program.

use std::net::Ipv4Addr;

use lmcp::{Cx, Error, Server, Tool};
use schemars::JsonSchema;
use serde::Deserialize;

/// Programs that are linked with musl, as `./dist` does it, are quicker with this.
#[cfg(target_env = "musl")]
#[global_allocator]
static HEAP: lmcp::heap::Pieces = lmcp::heap::Pieces;

#[derive(Deserialize, JsonSchema)]
struct Echo {
    /// What to say.
    text: String,
}

async fn echo(args: Echo, _cx: Cx) -> String {
    args.text
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::new("echo", env!("CARGO_PKG_VERSION")).tool(
        Tool::new("echo", echo)
            .about("Return the text.")
            .read_only(),
    );
    tokio::select! {
        served = serve(server) => served,
        // The program returns from `main`, so that its runs can be counted: `./dist` is trained with it.
        _ = tokio::signal::ctrl_c() => Ok(()),
    }
}

async fn serve(server: Server) -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["stdio"] => server.serve(lmcp::stdio()).await?,
        ["http", port] => {
            server
                .serve(lmcp::http::bind((Ipv4Addr::LOCALHOST, port.parse()?)).await?)
                .await?
        }
        ["unix", path] => server.serve(lmcp::unix(path)?).await?,
        _ => return Err(Error::config("say `stdio`, `http PORT` or `unix PATH`").into()),
    }
    Ok(())
}
