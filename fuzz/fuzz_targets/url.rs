//! Any text is an address or none, and one that was read is read the same again, as is where it leads to.
#![no_main]
use lmcp_outbound::Url;
libfuzzer_sys::fuzz_target!(|input: (&str, &str)| {
    let Ok(url) = Url::parse(input.0) else { return };
    assert_eq!(Url::parse(&url.to_string()).as_ref(), Ok(&url));
    let Ok(there) = url.join(input.1) else { return };
    assert_eq!(Url::parse(&there.to_string()).as_ref(), Ok(&there));
    assert!(there.target().parse::<lmcp_outbound::http::Uri>().is_ok());
});
