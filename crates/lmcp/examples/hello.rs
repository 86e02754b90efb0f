//! The smallest server: one tool on stdio.

use lmcp::{Cx, Server, Tool};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Hello {
    /// Whom to greet.
    name: String,
}

async fn hello(args: Hello, _cx: Cx) -> String {
    format!("Hello, {}!", args.name)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lmcp::Error> {
    Server::new("hello", "0.1.0")
        .tool(
            Tool::new("hello", hello)
                .about("Greet somebody by name.")
                .read_only(),
        )
        .serve(lmcp::stdio())
        .await
}
