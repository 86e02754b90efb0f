//! Any bytes can be sent in both directions, with every kind of decoder on the host.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use proptest::{collection::vec, prelude::*};
use serde_json::json;

use crate::support::all;

#[test]
fn bytes_are_written_and_read_as_they_are() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let hosts = runtime.block_on(async { all() });
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(12));
    let strategy = vec(
        prop_oneof![
            any::<u8>(),
            Just(b'\n'),
            Just(0),
            Just(b'\\'),
            0x80_u8..0x90
        ],
        0..3000,
    );
    let checked = runner.run(&strategy, |bytes| {
        runtime.block_on(async {
            for far in &hosts {
                let path = far.path("bytes");
                let content = STANDARD.encode(&bytes);
                far.value("write_file", json!({ "path": path, "content": content, "encoding": "base64" })).await;
                assert_eq!(std::fs::read(&path).unwrap(), bytes, "{}", far.name);
                let read = far.value("read_file", json!({ "path": path, "form": "base64", "byte_offset": 0, "byte_limit": 4000 })).await;
                let shown = read["files"][0]["content"].as_str().unwrap().replace('\n', "");
                assert_eq!(STANDARD.decode(shown).unwrap(), bytes, "{}", far.name);
            }
        });
        Ok(())
    });
    checked.unwrap();
}
