//! Any header value is decoded or refused.
#![no_main]
libfuzzer_sys::fuzz_target!(|value: &str| drop(lmcp_wire::header::decode(value)));
