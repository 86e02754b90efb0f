//! `read_file`: every byte is reached, nothing is split, and what is no text is refused.

use std::{
    fs::{self, File},
    io::{Seek, SeekFrom, Write},
};

use lmcp_core::{Client, Server};
use lmcp_tools::{HostTools, Settings};
use lmcp_wire::CallToolResult;
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) struct Bench {
    client: Client,
    folder: TempDir,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let mut settings = Settings::default();
        settings.roots = vec![folder.path().into()];
        Self {
            client: client(settings),
            folder,
        }
    }

    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> &Self {
        fs::write(self.path(name), content).unwrap();
        self
    }

    pub(crate) fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) async fn call(&self, arguments: Value) -> CallToolResult {
        self.client.call_tool("read_file", arguments).await.unwrap()
    }

    pub(crate) async fn read(&self, arguments: Value) -> Value {
        let result = self.call(arguments).await;
        assert!(!result.is_error, "{}", text(&result));
        result.structured_content.unwrap()["files"][0].clone()
    }

    pub(crate) async fn refused(&self, arguments: Value) -> String {
        let result = self.call(arguments).await;
        assert!(result.is_error, "{}", text(&result));
        text(&result)
    }

    /// The whole file, by doing what each page says.
    async fn follow(&self, mut arguments: Value) -> (String, usize) {
        let (mut all, mut pages, mut end) = (String::new(), 0, 0);
        loop {
            let page = self.read(arguments.clone()).await;
            assert_eq!(page["byte_start"], end);
            all += page["content"].as_str().unwrap();
            pages += 1;
            end = page["byte_end"].as_u64().unwrap();
            let Some(next) = page["next"].as_object() else {
                assert_eq!(page["size_bytes"], end);
                return (all, pages);
            };
            let mut following = json!({ "path": arguments["path"] });
            for (name, value) in next {
                following[name] = value.clone();
            }
            if next.contains_key("offset") && !arguments["limit"].is_null() {
                following["limit"] = arguments["limit"].clone();
            }
            arguments = following;
        }
    }
}

pub(crate) fn client(settings: Settings) -> Client {
    let server = HostTools::new(settings)
        .unwrap()
        .add_to(Server::new("t", "0"));
    server.start().unwrap().client()
}

pub(crate) fn text(result: &CallToolResult) -> String {
    result.content[0].as_text().unwrap().to_owned()
}

#[tokio::test]
async fn a_small_file_comes_whole_with_what_is_known_of_it() {
    let bench = Bench::new();
    bench.file("a.txt", "one\ntwo\nthree");
    let result = bench.call(json!({ "path": "a.txt" })).await;
    let mut file = result.structured_content.clone().unwrap()["files"][0].clone();
    let mtime = file.as_object_mut().unwrap().remove("mtime").unwrap();
    assert!(mtime.as_str().unwrap().ends_with('Z'));
    let expected = json!({
        "path": "a.txt", "content": "one\ntwo\nthree", "first_line": 1, "last_line": 3, "total_lines": 3,
        "byte_start": 0, "byte_end": 13, "size_bytes": 13, "remaining_bytes": 0, "remaining_lines": 0,
        "encoding": "utf-8", "bom": false, "line_endings": "lf", "hash": "058053d87c81",
    });
    assert_eq!(file, expected);
    // The text needs the newline that the file does not have.
    let footer = "[no newline at the end, hash 058053d87c81]\n";
    assert!(text(&result).starts_with(&format!("one\ntwo\nthree\n{footer}")));
    bench.file("a.txt", "one\ntwo\n");
    for limit in [1, 2] {
        let result = bench.call(json!({ "path": "a.txt", "limit": limit })).await;
        assert!(!text(&result).contains("no newline"));
    }
}

#[tokio::test]
async fn the_hash_changes_with_the_content_and_only_with_it() {
    let bench = Bench::new();
    bench.file("a", "same").file("b", "same").file("c", "other");
    let mut hashes = Vec::new();
    for path in ["a", "b", "c"] {
        hashes.push(bench.read(json!({ "path": path, "byte_limit": 1 })).await["hash"].clone());
    }
    assert_eq!(hashes[0], hashes[1]);
    assert_ne!(hashes[0], hashes[2]);
}

#[tokio::test]
async fn lines_are_counted_from_one_and_the_footer_says_how_to_go_on() {
    let bench = Bench::new();
    bench.file(
        "a",
        (1..=100)
            .map(|line| format!("line {line}\n"))
            .collect::<String>(),
    );
    let result = bench
        .call(json!({ "path": "a", "offset": 3, "limit": 2 }))
        .await;
    let file = &result.structured_content.as_ref().unwrap()["files"][0];
    assert_eq!(file["content"], "line 3\nline 4\n");
    assert_eq!(file["remaining_lines"], 96);
    assert_eq!(file["next"], json!({ "offset": 5 }));
    assert!(text(&result).contains("\n[lines 3-4 of 100, next offset=5, "));
    let numbered = bench
        .read(json!({ "path": "a", "offset": 99, "line_numbers": true }))
        .await;
    assert_eq!(numbered["content"], "    99\tline 99\n   100\tline 100\n");
}

#[tokio::test]
async fn a_negative_offset_is_the_end() {
    let bench = Bench::new();
    bench.file("a", "1\n2\n3\n4\n").file("open", "1\n2\n3");
    let tail = bench.read(json!({ "path": "a", "offset": -2 })).await;
    assert_eq!(
        (&tail["content"], &tail["first_line"]),
        (&json!("3\n4\n"), &json!(3))
    );
    assert!(tail["next"].is_null());
    let open = bench.read(json!({ "path": "open", "offset": -2 })).await;
    assert_eq!(open["content"], "2\n3");
    let first = bench
        .read(json!({ "path": "a", "offset": -3, "limit": 1 }))
        .await;
    assert_eq!(
        (&first["content"], &first["next"]),
        (&json!("2\n"), &json!({ "offset": 3 }))
    );
    let more = bench.read(json!({ "path": "a", "offset": -99 })).await;
    assert_eq!(
        (&more["content"], &more["first_line"]),
        (&json!("1\n2\n3\n4\n"), &json!(1))
    );
    let bytes = bench.read(json!({ "path": "a", "byte_offset": -3 })).await;
    assert_eq!(
        (&bytes["content"], &bytes["byte_start"]),
        (&json!("\n4\n"), &json!(5))
    );
}

#[tokio::test]
async fn past_the_end_there_is_nothing_and_it_says_so() {
    let bench = Bench::new();
    bench.file("a", "1\n2\n").file("empty", "");
    for part in [
        json!({ "path": "a", "offset": 3 }),
        json!({ "path": "a", "byte_offset": 4 }),
    ] {
        let file = bench.read(part).await;
        assert_eq!(
            (&file["content"], &file["total_lines"]),
            (&json!(""), &json!(2))
        );
        assert!(file["note"].as_str().unwrap().contains("ends before"));
    }
    let empty = bench.read(json!({ "path": "empty" })).await;
    assert_eq!(
        (&empty["content"], &empty["total_lines"]),
        (&json!(""), &json!(0))
    );
    assert_eq!(empty["line_endings"], "none");
}

#[tokio::test]
async fn pages_one_after_another_are_the_file() {
    let bench = Bench::new();
    let lines: String = (0..9000).map(|line| format!("{line} é\r\n")).collect();
    let long = "€😀a\"\\".repeat(20_000);
    let mixed = format!("short\n{long}\nafter\n{lines}no end");
    // In memory, in chunks, and too large to be looked at as a whole.
    let large = mixed.repeat(17 * 1024 * 1024 / mixed.len());
    let cut = large.char_indices().nth(1_000_000).unwrap().0;
    for (name, content) in [("lines", &lines), ("long", &long), ("mixed", &mixed)] {
        bench.file(name, content);
        let (all, pages) = bench.follow(json!({ "path": name })).await;
        assert!(all == *content && pages > 1, "{name}");
    }
    bench.file("large", &large);
    let page = bench
        .read(json!({ "path": "large", "byte_offset": cut }))
        .await;
    assert_eq!(
        (&page["total_lines"], &page["hash"]),
        (&Value::Null, &Value::Null)
    );
    let content = page["content"].as_str().unwrap();
    assert!(large[cut..].starts_with(content) && content.len() > 10_000);
    bench.file("some", &lines[..2000]);
    let (all, _) = bench.follow(json!({ "path": "some", "limit": 7 })).await;
    assert_eq!(all, lines[..2000]);
}

#[tokio::test]
async fn lines_of_a_large_file_are_found_without_counting_them_all() {
    let bench = Bench::new();
    let content: String = (1..=2_000_000)
        .map(|line| format!("line {line}\n"))
        .collect();
    bench.file("large", &content);
    let file = bench
        .read(json!({ "path": "large", "offset": 1_234_567, "limit": 1 }))
        .await;
    assert_eq!(file["content"], "line 1234567\n");
    assert_eq!(file["next"], json!({ "offset": 1_234_568 }));
    let tail = bench
        .read(json!({ "path": "large", "offset": -2, "line_numbers": true }))
        .await;
    assert_eq!(
        tail["content"],
        "    -2\tline 1999999\n    -1\tline 2000000\n"
    );
}

#[tokio::test]
async fn characters_are_never_split_wherever_a_range_begins_or_ends() {
    let bench = Bench::new();
    let content = "aé€😀z";
    bench.file("utf8", content);
    for start in 0..content.len() {
        for length in 1..=content.len() {
            let part = json!({ "path": "utf8", "byte_offset": start, "byte_limit": length });
            let file = bench.read(part).await;
            let range = file["byte_start"].as_u64().unwrap() as usize
                ..file["byte_end"].as_u64().unwrap() as usize;
            assert!(
                range.start <= start && range.end > start,
                "{start} {length}"
            );
            assert_eq!(file["content"], content[range], "{start} {length}");
        }
    }
}

#[tokio::test]
async fn the_last_lines_of_twenty_sparse_gigabytes_are_read_from_the_end() {
    let bench = Bench::new();
    let mut file = File::create(bench.path("sparse")).unwrap();
    let tail: String = (1..=20).map(|line| format!("last {line}\n")).collect();
    let wanted: String = (11..=20).map(|line| format!("last {line}\n")).collect();
    // A hole at the beginning is what is left of a log that was cut while somebody wrote to it.
    for head in ["", "begins as text\n"] {
        file.set_len(0).unwrap();
        file.rewind().unwrap();
        file.write_all(head.as_bytes()).unwrap();
        file.write_all(
            " \n"
                .repeat(if head.is_empty() { 0 } else { 8192 })
                .as_bytes(),
        )
        .unwrap();
        file.seek(SeekFrom::Start(20 << 30)).unwrap();
        file.write_all(tail.as_bytes()).unwrap();
        let end = bench.read(json!({ "path": "sparse", "offset": -10 })).await;
        assert_eq!(end["content"], wanted);
        assert_eq!(end["size_bytes"], (20_u64 << 30) + tail.len() as u64);
        // The first of the last twenty begins in the hole, further away than anybody looks.
        let all = bench.read(json!({ "path": "sparse", "offset": -20 })).await;
        assert!(tail.ends_with(all["content"].as_str().unwrap()));
        assert!(all["note"].as_str().unwrap().contains("64 MiB"));
    }
}

#[tokio::test]
async fn one_endless_line_still_has_an_end() {
    let bench = Bench::new();
    let mut file = File::create(bench.path("line")).unwrap();
    file.write_all(&[b'a'; 9000]).unwrap();
    file.seek(SeekFrom::Start(1 << 30)).unwrap();
    file.write_all(&[b'z'; 9000]).unwrap();
    let end = bench.read(json!({ "path": "line", "offset": -1 })).await;
    assert_eq!(end["content"], "z".repeat(4096));
    assert_eq!(end["byte_end"], (1 << 30) + 9000);
}

#[tokio::test]
async fn encodings_are_told_and_every_byte_is_shown() {
    let bench = Bench::new();
    let utf16: Vec<u16> = "\u{feff}é\r\n😀\r\n".encode_utf16().collect();
    let le: Vec<u8> = utf16.iter().flat_map(|unit| unit.to_le_bytes()).collect();
    let be: Vec<u8> = utf16.iter().flat_map(|unit| unit.to_be_bytes()).collect();
    let cases: [(&[u8], Value, &str, bool); 5] = [
        (b"\xef\xbb\xbfa\n", json!("a\n"), "utf-8", true),
        (&le, json!("é\r\n😀\r\n"), "utf-16le", true),
        (&be, json!("é\r\n😀\r\n"), "utf-16be", true),
        (b"caf\xe9 \x80", json!("café €"), "windows-1252", false),
        ("é\u{1f600}".as_bytes(), json!("é\u{1f600}"), "utf-8", false),
    ];
    for (bytes, content, encoding, bom) in cases {
        bench.file("a", bytes);
        let file = bench.read(json!({ "path": "a" })).await;
        assert_eq!(file["content"], content);
        assert_eq!(
            (&file["encoding"], &file["bom"]),
            (&json!(encoding), &json!(bom))
        );
    }
    bench.file("a", &le);
    let second = bench.read(json!({ "path": "a", "offset": 2 })).await;
    assert_eq!(
        (&second["content"], &second["total_lines"]),
        (&json!("😀\r\n"), &json!(2))
    );
    bench.file("a", b"gr\xc3\xb6\xc3\x9fe \xff\n");
    let damaged = bench.read(json!({ "path": "a" })).await;
    assert_eq!(
        (&damaged["content"], &damaged["encoding"]),
        (&json!("größe \\xff\n"), &json!("utf-8"))
    );
    assert!(
        damaged["note"]
            .as_str()
            .unwrap()
            .contains("1 bytes that are not utf-8")
    );
}

#[tokio::test]
async fn a_character_on_the_edge_of_every_chunk_stays_whole() {
    let bench = Bench::new();
    for shift in 0..4 {
        let content = format!("{}{}", "x".repeat(shift), "😀\r\n".repeat(60_000));
        bench.file("a", &content);
        let file = bench.read(json!({ "path": "a", "offset": -1 })).await;
        assert_eq!(
            (&file["encoding"], &file["line_endings"]),
            (&json!("utf-8"), &json!("crlf"))
        );
        assert_eq!(
            (&file["total_lines"], &file["content"]),
            (&json!(60_000), &json!("😀\r\n"))
        );
    }
}

#[tokio::test]
async fn one_of_several_files_that_fails_does_not_spoil_the_others() {
    let bench = Bench::new();
    bench
        .file("a", "A")
        .file("b", "B".repeat(100_000))
        .file("c", "C");
    let result = bench
        .call(json!({ "paths": ["a", "none", "b", "c"] }))
        .await;
    assert!(!result.is_error);
    let files = &result.structured_content.as_ref().unwrap()["files"];
    assert_eq!(
        (&files[0]["content"], &files[3]["content"]),
        (&json!("A"), &json!("C"))
    );
    assert!(
        files[1]["error"]
            .as_str()
            .unwrap()
            .contains("does not exist")
    );
    assert!(files[2]["next"]["byte_offset"].as_u64().unwrap() > 10_000);
    assert!(text(&result).len() < 26_000);
    let none = bench.call(json!({ "paths": ["x", "y"] })).await;
    assert!(none.is_error);
}

#[tokio::test]
async fn many_files_are_no_more_than_a_client_takes() {
    let bench = Bench::new();
    let names: Vec<_> = (0..64).map(|number| format!("file-{number}")).collect();
    for name in &names {
        bench.file(name, "x".repeat(5000));
    }
    let result = bench.call(json!({ "paths": names })).await;
    assert!(text(&result).len() < 26_000);
    let files = result.structured_content.unwrap();
    assert!(files.to_string().len() < 32_000);
    let files = files["files"].as_array().unwrap().clone();
    assert_eq!(files.len(), 64);
    assert!(files[0]["content"].as_str().unwrap().len() >= 1000);
    assert!(
        files[63]["error"]
            .as_str()
            .unwrap()
            .contains("another call")
    );
    let more: Vec<_> = names.iter().chain(&names).collect();
    bench.refused(json!({ "paths": more })).await;
}

#[tokio::test]
async fn arguments_that_contradict_each_other_are_refused() {
    let bench = Bench::new();
    bench.file("a", "A");
    for wrong in [
        json!({}),
        json!({ "paths": [] }),
        json!({ "path": "a", "offset": 1, "byte_offset": 1 }),
        json!({ "path": "a", "byte_offset": 1, "line_numbers": true }),
        json!({ "path": "a", "limit": -1 }),
        json!({ "path": "a", "lines": 3 }),
        json!({ "path": "" }),
    ] {
        bench.refused(wrong).await;
    }
}

#[tokio::test]
async fn zeros_where_nothing_was_meant_read_the_whole_file() {
    let bench = Bench::new();
    bench.file("a", "one\ntwo\n");
    let zeros = json!({ "path": "a", "offset": 0, "limit": 0, "byte_offset": 0, "byte_limit": 0, "line_numbers": false });
    assert_eq!(bench.read(zeros).await["content"], "one\ntwo\n");
    let lines = json!({ "path": "a", "offset": 2, "limit": 1, "byte_offset": 0 });
    assert_eq!(bench.read(lines).await["content"], "two\n");
    let bytes = json!({ "path": "a", "offset": 0, "byte_offset": 1, "byte_limit": 2 });
    assert_eq!(bench.read(bytes).await["content"], "ne");
    let hex = json!({ "path": "a", "offset": 0, "byte_offset": 0, "form": "hex" });
    assert!(!bench.call(hex).await.is_error);
}

#[tokio::test]
async fn a_whole_file_needs_no_words_about_its_lines() {
    let bench = Bench::new();
    bench.file("a", "one\ntwo\n").file("empty", "");
    let whole = bench.call(json!({ "path": "a" })).await;
    assert!(text(&whole).starts_with("one\ntwo\n[hash "));
    let part = bench.call(json!({ "path": "a", "limit": 1 })).await;
    assert!(text(&part).contains("\n[lines 1-1 of 2, next offset=2, hash "));
    let rest = bench.call(json!({ "path": "a", "offset": 2 })).await;
    assert!(text(&rest).contains("\n[lines 2-2 of 2, hash "));
    let empty = bench.call(json!({ "path": "empty" })).await;
    assert!(text(&empty).starts_with("[empty file, hash "));
}

#[tokio::test]
async fn it_changes_nothing_and_says_so() {
    let bench = Bench::new();
    let tools = bench.client.request("tools/list", json!({})).await.unwrap();
    let tools = tools["tools"].as_array().unwrap();
    for name in ["read_file", "list_dir"] {
        let tool = tools.iter().find(|tool| tool["name"] == name).unwrap();
        let hints = &tool["annotations"];
        assert_eq!(hints["readOnlyHint"], true);
        assert_eq!(hints["destructiveHint"], false);
        assert_eq!(hints["idempotentHint"], true);
        assert_eq!(hints["openWorldHint"], false);
        assert!(tool["outputSchema"].is_object());
        assert!(
            tool["description"]
                .as_str()
                .unwrap()
                .split_whitespace()
                .count()
                < 40
        );
    }
}
