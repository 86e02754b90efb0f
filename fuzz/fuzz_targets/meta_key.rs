//! Any text is a `_meta` key or not, and a key is ASCII.
#![no_main]
libfuzzer_sys::fuzz_target!(|key: &str| assert!(!lmcp_wire::meta::is_key(key) || key.is_ascii()));
