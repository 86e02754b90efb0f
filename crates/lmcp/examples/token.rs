//! HTTP for holders of a token. Every line of a file names a holder and its token: `ann s3cret`.
//! `cargo run -p lmcp --example token -- tokens.txt 8080`, then connect with the header `Authorization: Bearer s3cret`.

use lmcp::{Cx, NoArgs, Server, Tool, http};

async fn whoami(_: NoArgs, cx: Cx) -> String {
    format!("you are {}", cx.principal().unwrap_or("nobody"))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let tokens = std::fs::read_to_string(args.next().ok_or("name the file with the tokens")?)?;
    let port: u16 = args.next().map_or(Ok(8080), |port| port.parse())?;

    let mut transport = http::bind(("127.0.0.1", port)).await?;
    for line in tokens.lines() {
        let (name, token) = line.split_once(' ').ok_or("a line is `NAME TOKEN`")?;
        transport = transport.token(name, token.trim());
    }
    Server::new("whoami", "0.1.0")
        .tool(
            Tool::new("whoami", whoami)
                .about("Tell whose token the request came with.")
                .read_only(),
        )
        .serve(transport)
        .await?;
    Ok(())
}
