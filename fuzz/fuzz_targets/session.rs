//! No text that this server did not make opens a session.
#![no_main]
use std::sync::LazyLock;

use lmcp_core::{Caller, CallerTransport, Handle, Server};

static SERVER: LazyLock<Handle> = LazyLock::new(|| Server::new("fuzz", "0").start().expect("nothing is registered"));

libfuzzer_sys::fuzz_target!(|text: &str| {
    assert!(SERVER.session_key().open(text, &Caller::new(CallerTransport::Http)).is_none());
});
