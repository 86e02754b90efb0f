//! Any bytes are server-sent events, the same however they are cut, and none of them is longer than the limit.
#![no_main]
libfuzzer_sys::fuzz_target!(|input: (u8, &[u8])| {
    let (size, bytes) = input;
    let whole = lmcp_client::fuzz::events(bytes, bytes.len().max(1), 4096);
    let cut = lmcp_client::fuzz::events(bytes, usize::from(size).max(1), 4096);
    assert_eq!(whole, cut);
    assert!(whole.iter().all(|event| event.len() <= 4096 + 64));
});
