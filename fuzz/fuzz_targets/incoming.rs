//! Any bytes are a message or a rejection.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| drop(lmcp_wire::Incoming::parse(bytes)));
