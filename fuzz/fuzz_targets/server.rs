//! Any message to a server is answered or left alone.
#![no_main]
use std::sync::LazyLock;

use lmcp_core::{Caller, CallerTransport, Cx, Handle, NoArgs, Resource, Server, Service, Tool};
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

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let message = lmcp_core::bytes::Bytes::copy_from_slice(bytes);
    let Ok(Incoming::Request { id, method, params }) = Incoming::parse(&message) else { return };
    let caller = Caller::new(CallerTransport::Memory);
    let Ok(request) = lmcp_core::admit(&message, id, &method, params, caller) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime").block_on(async {
        let _ = SERVER.call(request).next().await;
    });
});
