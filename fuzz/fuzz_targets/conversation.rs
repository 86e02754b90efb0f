//! Any bytes behind a handshake leave a connection that still answers.
#![no_main]
use std::sync::LazyLock;

use lmcp_core::{Caller, CallerTransport, Cx, Handle, NoArgs, Resource, Server, Tool, Transport as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex, split};

async fn hello(_: NoArgs, _: Cx) -> &'static str {
    "hello"
}

static SERVER: LazyLock<Handle> = LazyLock::new(|| {
    let server = Server::new("fuzz", "0")
        .tool(Tool::new("hello", hello).read_only())
        .resource(Resource::text("a:b", "b", "text"));
    server.start().expect("the registrations are right")
});

/// In the revision that has the most: batches as well.
const OPENING: &[u8] = br#"{"jsonrpc":"2.0","id":"open","method":"initialize","params":{"protocolVersion":"2025-03-26"}}
"#;
const LAST: &[u8] = br#"
{"jsonrpc":"2.0","id":"last","method":"ping"}
"#;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime").block_on(async {
        let (ours, theirs) = duplex(1 << 20);
        let (reader, writer) = split(theirs);
        let connection = lmcp_core::streams(reader, writer, Caller::new(CallerTransport::Memory));
        let client = async {
            let (mut outlet, mut inlet) = split(ours);
            for part in [OPENING, bytes, LAST] {
                inlet.write_all(part).await.expect("it reads");
            }
            inlet.shutdown().await.expect("it lets us go");
            let mut answers = Vec::new();
            outlet.read_to_end(&mut answers).await.expect("it ends");
            String::from_utf8(answers).expect("answers are text")
        };
        let (served, answers) = tokio::join!(connection.serve(SERVER.endpoint()), client);
        served.expect("nothing here can fail");
        assert!(answers.contains(r#""id":"last""#), "{answers}");
    });
});
