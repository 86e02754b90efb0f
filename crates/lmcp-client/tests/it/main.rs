//! The behaviour that users of `lmcp-client` can rely on: with our own server, through connections that break, and with
//! servers that answer in odd ways.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod breaks;
mod cancel;
mod mirror;
mod odd;
mod order;
#[path = "../../../lmcp-outbound/tests/it/server.rs"]
#[expect(dead_code, reason = "tests of other crates use the rest")]
mod outbound_server;
mod pair;
mod proxy;
#[path = "../../../lmcp-outbound/tests/it/proxy_server.rs"]
#[expect(dead_code, reason = "tests of other crates use the rest")]
mod proxy_server;
mod restart;
mod revisions;
mod secure;
mod sessions;
mod site;
mod support;
mod wire;
