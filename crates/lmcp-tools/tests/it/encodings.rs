//! Files that are not UTF-8: read as the text they are, edited and appended to in their own encoding, and found.

use std::fs;

use crate::writing::Bench;
use serde_json::json;

/// A text, its file, and the name of its encoding.
struct Sample {
    name: &'static str,
    text: &'static str,
    bytes: Vec<u8>,
    /// A word of it, and one for its place, both in this encoding.
    words: [&'static str; 2],
}

impl Sample {
    fn in_its_encoding(&self, text: &str) -> Vec<u8> {
        let units = || text.encode_utf16();
        match self.name {
            "utf-16le" => units().flat_map(u16::to_le_bytes).collect(),
            "utf-16be" => units().flat_map(u16::to_be_bytes).collect(),
            label => {
                let encoding = encoding_rs::Encoding::for_label(label.as_bytes()).unwrap();
                let (bytes, _, has_unknown) = encoding.encode(text);
                assert!(!has_unknown);
                bytes.into_owned()
            }
        }
    }
}

fn samples() -> Vec<Sample> {
    let chinese = "# 配置文件\r\n端口号 = 8080\r\n超时时间必须大于零。\r\n";
    let japanese = "# 設定ファイル\r\nポート番号 = 8080\r\n時間は零より大きい。\r\n";
    let german = "# Grüße an die Leser\r\nGröße = 8080\r\nFür später übrig.\r\n";
    let mixed = "# 设定 größe 😀\r\nport = 8080\r\n";
    let new = |name, text: &'static str, words| {
        let mut sample = Sample {
            name,
            text,
            bytes: Vec::new(),
            words,
        };
        sample.bytes = sample.in_its_encoding(text);
        sample
    };
    let mut samples = vec![
        new("GBK", chinese, ["端口号 = 8080", "主机名 = 9090"]),
        new(
            "Shift_JIS",
            japanese,
            ["ポート番号 = 8080", "ホスト名 = 9090"],
        ),
        new("windows-1252", german, ["Größe = 8080", "Länge = 9090"]),
        new("utf-16le", mixed, ["größe 😀", "Länge 中"]),
        new("utf-16be", mixed, ["größe 😀", "Länge 中"]),
    ];
    let marks: [&[u8]; 5] = [b"", b"", b"", b"\xff\xfe", b"\xfe\xff"];
    for (sample, mark) in samples.iter_mut().zip(marks) {
        sample.bytes.splice(0..0, mark.iter().copied());
    }
    samples
}

#[tokio::test]
async fn a_file_is_shown_as_the_text_it_is_and_says_in_which_encoding() {
    let bench = Bench::open();
    for sample in samples() {
        let path = bench.file(sample.name, &sample.bytes);
        let read = bench.call("read_file", json!({ "path": path })).await.ok();
        let file = &read.value["files"][0];
        assert_eq!(file["encoding"], sample.name);
        assert_eq!(file["line_endings"], "crlf");
        let shown = file["content"].as_str().unwrap_or(&read.text);
        assert!(shown.starts_with(sample.text), "{shown}");
        assert!(read.text.contains(sample.name), "{}", read.text);
    }
}

#[tokio::test]
async fn lines_and_bytes_of_it_can_be_asked_for() {
    let bench = Bench::open();
    for sample in samples() {
        let path = bench.file(sample.name, &sample.bytes);
        let second = json!({ "path": path, "offset": 2, "limit": 1 });
        let read = bench.call("read_file", second).await.ok();
        let line = sample.text.split_inclusive('\n').nth(1).unwrap();
        assert_eq!(read.value["files"][0]["content"], line);
        // From any byte on, characters are whole, and together they are the text.
        for from in 0..sample.bytes.len() {
            let part = json!({ "path": path, "byte_offset": from });
            let read = bench.call("read_file", part).await.ok();
            let content = read.value["files"][0]["content"]
                .as_str()
                .unwrap()
                .to_owned();
            assert!(sample.text.ends_with(&content), "{from}: {content}");
        }
    }
}

#[tokio::test]
async fn edits_and_additions_are_written_in_its_encoding() {
    let bench = Bench::open();
    for sample in samples() {
        let path = bench.file(sample.name, &sample.bytes);
        let [old, new] = sample.words;
        let edit = json!({ "path": path, "old_string": old, "new_string": new });
        let edited = bench.call("edit_file", edit).await.ok();
        let diff = &edited.value["files"][0]["diff"];
        assert!(diff.as_str().unwrap().contains(new), "{diff}");
        let add = json!({ "path": path, "content": format!("{new}\r\n"), "mode": "append" });
        let added = bench.call("write_file", add).await.ok();
        let text = format!("{}{new}\r\n", sample.text.replace(old, new));
        let mark = sample.bytes.len() - sample.in_its_encoding(sample.text).len();
        let mut expected = sample.bytes[..mark].to_vec();
        expected.extend(sample.in_its_encoding(&text));
        assert_eq!(fs::read(&path).unwrap(), expected, "{}", sample.name);
        // The hash is that of the file, as everybody reads it.
        let read = bench.call("read_file", json!({ "path": path })).await.ok();
        assert_eq!(read.value["files"][0]["hash"], added.value["hash"]);
    }
}

#[tokio::test]
async fn several_lines_are_edited_without_knowing_their_ends() {
    let bench = Bench::open();
    for sample in samples() {
        let path = bench.file(sample.name, &sample.bytes);
        let lines: Vec<_> = sample.text.lines().take(2).collect();
        let edit = json!({ "path": path, "old_string": lines.join("\n"), "new_string": lines[0] });
        bench.call("edit_file", edit).await.ok();
        let mark = sample.bytes.len() - sample.in_its_encoding(sample.text).len();
        let text = sample.text.replace(&lines.join("\r\n"), lines[0]);
        let expected = [&sample.bytes[..mark], &sample.in_its_encoding(&text)].concat();
        assert_eq!(fs::read(&path).unwrap(), expected, "{}", sample.name);
    }
}

#[tokio::test]
async fn a_character_that_the_encoding_does_not_have_is_refused_and_nothing_written() {
    let bench = Bench::open();
    for sample in samples().into_iter().take(3) {
        let path = bench.file(sample.name, &sample.bytes);
        let edit = json!({ "path": path, "old_string": "8080", "new_string": "8080 😀" });
        let words = bench.call("edit_file", edit).await.refused("😀");
        assert!(words.contains(sample.name), "{words}");
        let add = json!({ "path": path, "content": "😀\n", "mode": "append" });
        let words = bench.call("write_file", add).await.refused("😀");
        assert!(words.contains(sample.name), "{words}");
        assert_eq!(fs::read(&path).unwrap(), sample.bytes);
    }
}

#[tokio::test]
async fn a_file_with_damage_keeps_every_byte_that_is_not_edited() {
    let bench = Bench::open();
    let path = bench.file("latin1", b"caf\xe9 = 1\nna\xefve = 2\n");
    for (old, new) in [("= 2", "= 3"), ("café", "coffee é")] {
        let edit = json!({ "path": path, "old_string": old, "new_string": new });
        bench.call("edit_file", edit).await.ok();
    }
    assert_eq!(fs::read(&path).unwrap(), b"coffee \xe9 = 1\nna\xefve = 3\n");
    // UTF-8 with some damage is still UTF-8.
    let path = bench.file("utf-8", b"gr\xc3\xb6\xc3\x9fe = 1 \xff\n");
    let edit = json!({ "path": path, "old_string": "= 1", "new_string": "= 2" });
    bench.call("edit_file", edit).await.ok();
    assert_eq!(fs::read(&path).unwrap(), b"gr\xc3\xb6\xc3\x9fe = 2 \xff\n");
}

#[tokio::test]
async fn bytes_are_added_as_they_are() {
    let bench = Bench::open();
    let path = bench.file("wide", b"\xff\xfea\0");
    let add = json!({ "path": path, "content": "YgA=", "encoding": "base64", "mode": "append" });
    bench.call("write_file", add).await.ok();
    assert_eq!(fs::read(&path).unwrap(), b"\xff\xfea\0b\0");
}

#[tokio::test]
async fn text_in_it_is_found_and_shown() {
    let bench = Bench::open();
    for sample in samples() {
        let path = bench.file(sample.name, &sample.bytes);
        let [old, _] = sample.words;
        // By characters that are not ASCII, and by some that are.
        for pattern in [old, "80+"] {
            let search = json!({ "path": path, "pattern": pattern });
            let found = bench.call("search_files", search).await.ok();
            let line = sample.text.lines().find(|line| line.contains(old)).unwrap();
            let line = if pattern == "80+" {
                sample
                    .text
                    .lines()
                    .find(|line| line.contains("80"))
                    .unwrap()
            } else {
                line
            };
            let matches = found.value["matches"].as_array().unwrap();
            assert_eq!(matches.len(), 1, "{}: {}", sample.name, found.text);
            assert_eq!(matches[0]["text"], line, "{}", sample.name);
        }
        fs::remove_file(path).unwrap();
    }
}

#[tokio::test]
async fn the_bytes_of_any_file_can_be_asked_for() {
    use base64::Engine as _;
    let bench = Bench::open();
    let bytes: Vec<u8> = (0..100_000_u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let path = bench.file("binary", &bytes);
    let words = bench
        .call("read_file", json!({ "path": path }))
        .await
        .refused("not text");
    assert!(words.contains("`form: \"hex\"`"), "{words}");
    let part = json!({ "path": path, "form": "hex", "byte_offset": 16, "byte_limit": 20 });
    let read = bench.call("read_file", part).await.ok();
    let dump = read.value["files"][0]["content"]
        .as_str()
        .unwrap()
        .to_owned();
    let first: Vec<String> = bytes[16..32]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert!(
        dump.starts_with(&format!("00000010: {}  ", first.join(" "))),
        "{dump}"
    );
    assert_eq!(dump.lines().count(), 2);
    // Part by part, as they fit, base64 gives them all.
    let (mut all, mut from) = (Vec::new(), Some(0));
    while let Some(offset) = from {
        let part = json!({ "path": path, "form": "base64", "byte_offset": offset });
        let read = bench.call("read_file", part).await.ok();
        let file = &read.value["files"][0];
        let content = file["content"].as_str().unwrap();
        all.extend(
            base64::engine::general_purpose::STANDARD
                .decode(content)
                .unwrap(),
        );
        from = file["next"]["byte_offset"].as_u64();
    }
    assert_eq!(all, bytes);
    let lines = json!({ "path": path, "form": "hex", "offset": 3 });
    bench.call("read_file", lines).await.refused("byte_offset");
}

#[tokio::test]
async fn a_notebook_is_read_and_edited_by_its_cells() {
    let bench = Bench::open();
    let file = r##"{
 "cells": [
  {
   "cell_type": "code",
   "execution_count": 1,
   "metadata": {},
   "outputs": [{"name": "stdout", "output_type": "stream", "text": ["2\n"]}],
   "source": [
    "x = \"a\"\n",
    "print(1 + 1)"
   ]
  }
 ],
 "metadata": {},
 "nbformat": 4,
 "nbformat_minor": 4
}
"##;
    let path = bench.file("notes.ipynb", file);
    let read = bench.call("read_file", json!({ "path": path })).await.ok();
    let shown = &read.value["files"][0];
    assert_eq!(
        shown["content"],
        "# %% [1] code\nx = \"a\"\nprint(1 + 1)\n#> 2\n"
    );
    let edit = json!({
        "path": path, "if_hash": shown["hash"],
        "old_string": "x = \"a\"\n", "new_string": "x = \"b\"\ny = 2\n",
    });
    bench.call("edit_file", edit).await.ok();
    let expected = file.replace(
        "    \"x = \\\"a\\\"\\n\",\n",
        "    \"x = \\\"b\\\"\\n\",\n    \"y = 2\\n\",\n",
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), expected);
    // Whoever looked at the JSON edits the JSON.
    let raw = bench
        .call("read_file", json!({ "path": path, "byte_offset": 0 }))
        .await
        .ok();
    assert_eq!(raw.value["files"][0]["content"], expected);
    let edit = json!({ "path": path, "old_string": "\"nbformat_minor\": 4", "new_string": "\"nbformat_minor\": 5" });
    bench.call("edit_file", edit).await.ok();
    let expected = expected.replace("_minor\": 4", "_minor\": 5");
    assert_eq!(fs::read_to_string(&path).unwrap(), expected);
}
