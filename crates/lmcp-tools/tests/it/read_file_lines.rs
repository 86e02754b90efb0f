//! `read_file` against a model that holds the whole file in memory: any lines of any text, in any encoding.

use std::fs;

use lmcp_core::Server;
use lmcp_tools::{HostTools, Settings};
use proptest::prelude::*;
use serde_json::{Value, json};

fn read(bytes: &[u8], mut arguments: Value) -> Value {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), bytes).unwrap();
    let mut settings = Settings::default();
    settings.roots = vec![folder.path().into()];
    let server = HostTools::new(settings)
        .unwrap()
        .add_to(Server::new("t", "0"));
    let client = server.start().unwrap().client();
    arguments["path"] = json!("file");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let result = runtime
        .block_on(client.call_tool("read_file", arguments))
        .unwrap();
    assert!(!result.is_error, "{:?}", result.content[0].as_text());
    result.structured_content.unwrap()["files"][0].clone()
}

fn encode(text: &str, encoding: &str) -> Vec<u8> {
    let units = || format!("\u{feff}{text}").encode_utf16().collect::<Vec<_>>();
    match encoding {
        "utf-16le" => units().into_iter().flat_map(u16::to_le_bytes).collect(),
        "utf-16be" => units().into_iter().flat_map(u16::to_be_bytes).collect(),
        _ => text.into(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn any_lines_are_those_of_the_model(
        text in "([a-zé€😀]{0,4}(\n|\r\n|\r)){0,8}[a-z😀]{0,3}",
        // Sometimes far too much for one chunk, so that lines lie across their edges.
        times in prop_oneof![9 => Just(1_usize), 1 => Just(9000)],
        offset in -12_i64..12,
        limit in 1_usize..12,
        encoding in prop_oneof![Just("utf-8"), Just("utf-16le"), Just("utf-16be")],
    ) {
        let text = text.repeat(times);
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let first = match usize::try_from(offset) {
            Ok(offset) => offset.max(1) - 1,
            Err(_) => lines.len().saturating_sub(offset.unsigned_abs() as usize),
        };
        let wanted: String = lines.iter().skip(first).take(limit).copied().collect();
        prop_assume!(wanted.len() < 10_000);

        let file = read(&encode(&text, encoding), json!({ "offset": offset, "limit": limit }));
        prop_assert_eq!(&file["content"], &json!(wanted));
        prop_assert_eq!(&file["total_lines"], &json!(lines.len()));
        prop_assert_eq!(&file["encoding"], &json!(encoding));
        let last = (first + limit).min(lines.len());
        let (next, expected) = (&file["next"], json!({ "offset": last + 1 }));
        if last < lines.len() {
            prop_assert_eq!(next, &expected);
        } else {
            prop_assert_eq!(next, &Value::Null);
        }
        if first < lines.len() {
            prop_assert_eq!(&file["first_line"], &json!(first + 1));
            prop_assert_eq!(&file["last_line"], &json!(last));
        }
    }

    #[test]
    fn any_bytes_are_all_shown(
        bytes in proptest::collection::vec(any::<u8>().prop_filter("no zeros, they are not text", |byte| *byte != 0), 1..100),
        start in 0_usize..100,
        length in 1_usize..100,
    ) {
        // It begins as text: by its beginning it could be an archive, or UTF-16.
        let bytes = [b"text", bytes.as_slice()].concat();
        let start = start.min(bytes.len() - 1);
        let file = read(&bytes, json!({ "byte_offset": start, "byte_limit": length }));
        let range = file["byte_start"].as_u64().unwrap() as usize..file["byte_end"].as_u64().unwrap() as usize;
        prop_assert!(range.start <= start && start < range.end);
        let shown = file["content"].as_str().unwrap();
        match file["encoding"].as_str().unwrap() {
            "windows-1252" => prop_assert_eq!(shown.chars().count(), range.len()),
            label if label != "utf-8" => {
                let encoding = encoding_rs::Encoding::for_label(label.as_bytes()).unwrap();
                let whole = encoding.decode_without_bom_handling_and_without_replacement(&bytes[range]);
                if let Some(expected) = whole {
                    prop_assert_eq!(shown, expected);
                }
            }
            _ => {
                let mut expected = String::new();
                for chunk in bytes[range].utf8_chunks() {
                    expected += chunk.valid();
                    chunk.invalid().iter().for_each(|byte| expected += &format!("\\x{byte:02x}"));
                }
                prop_assert_eq!(shown, expected);
            }
        }
    }
}
