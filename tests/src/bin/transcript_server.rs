//! The fixture on standard input and output: the child process of the stdio transcripts.

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lmcp::Error> {
    lmcp_tests::fixture().serve(lmcp::stdio()).await
}
