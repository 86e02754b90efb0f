//! Any message to a server is answered or left alone, whether it stands alone or belongs to a session.
#![no_main]
use std::sync::LazyLock;

use lmcp_core::{Caller, CallerTransport, Cx, Handle, NoArgs, Resource, Server, Service, Session, Tool};
use lmcp_wire::Incoming;

async fn hello(_: NoArgs, _: Cx) -> &'static str {
    "hello"
}

static SERVER: LazyLock<Handle> = LazyLock::new(|| {
    let server = Server::new("fuzz", "0")
        .tool(Tool::new("hello", hello).read_only())
        .resource(Resource::text("a:b", "b", "text"));
    server.start().expect("the registrations are right")
});

libfuzzer_sys::fuzz_target!(|input: (u8, &[u8])| {
    let (revision, bytes) = input;
    let revisions = [Some("2024-11-05"), None, Some("2025-06-18"), Some("2025-11-25"), Some("2026-07-28")];
    let header = revisions[usize::from(revision) % revisions.len()];
    let session = Session::absent(header).expect("a revision that is known");
    let message = lmcp_core::bytes::Bytes::copy_from_slice(bytes);
    let Ok(Incoming::Request { id, method, params }) = Incoming::parse(&message) else { return };
    let caller = Caller::new(CallerTransport::Memory);
    let Ok(request) = lmcp_core::admit(&message, id, &method, params, caller, session.as_ref()) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime").block_on(async {
        let _ = SERVER.call(request).next().await;
    });
});
