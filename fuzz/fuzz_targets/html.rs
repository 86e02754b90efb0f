//! Any page becomes text within its limit.
#![no_main]
libfuzzer_sys::fuzz_target!(|html: &str| {
    for text in lmcp_tools::fuzz::readable_texts(html, 4096) {
        assert!(text.len() <= 4096);
    }
});
