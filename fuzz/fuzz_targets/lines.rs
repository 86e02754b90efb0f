//! Any bytes are cut into lines within the limit, and none of them holds a line end.
#![no_main]
use lmcp_wire::framing::Framer;
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut framer = Framer::new(64);
    for chunk in bytes.chunks(7) {
        framer.buffer().extend_from_slice(chunk);
        while let Some(frame) = framer.next_frame() {
            let Ok(line) = frame else { continue };
            assert!(line.len() <= 64 && !line.contains(&b'\n'));
        }
    }
});
