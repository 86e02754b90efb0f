//! The server as a process of its own.

mod server;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lmcp_core::Error> {
    server::server().serve(lmcp_core::stdio()).await
}
