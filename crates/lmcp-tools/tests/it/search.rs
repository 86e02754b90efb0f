//! `search_files`: what is found, and what is left out.

use serde_json::json;

use crate::searching::{Host, text};

#[tokio::test]
async fn a_match_says_where_it_is_with_its_context() {
    let host = Host::with(&[("src/main.rs", "one\ntwo\nlet needle = 1;\nfour\nfive\n")]);
    let found = host
        .search(json!({ "pattern": "needle", "context": 1 }))
        .await;
    assert_eq!(
        found["matches"],
        json!([{ "path": "src/main.rs", "line": 3, "column": 5, "text": "let needle = 1;", "before": ["two"], "after": ["four"] }])
    );
    assert_eq!(found["complete"], true);
    assert_eq!(found["searched_files"], 1);
    assert!(found.get("next_cursor").is_none());
}

#[tokio::test]
async fn the_text_reads_like_ripgrep() {
    let host = Host::with(&[("a.txt", "x\nhit\ny\nz\nz\nhit\n"), ("b.txt", "hit\n")]);
    let result = host.call(json!({ "pattern": "hit", "after": 1 })).await;
    assert_eq!(
        text(&result),
        "3 matches; 2 files searched\n\na.txt\n2:hit\n3-y\n--\n6:hit\n\nb.txt\n1:hit"
    );
}

#[tokio::test]
async fn paths_begin_as_the_model_wrote_them() {
    let host = Host::with(&[("src/a.rs", "x")]);
    assert_eq!(
        host.paths(json!({ "pattern": "x", "path": "src/" })).await,
        ["src/a.rs"]
    );
    assert_eq!(
        host.paths(json!({ "pattern": "x", "path": "src/a.rs" }))
            .await,
        ["src/a.rs"]
    );
    assert_eq!(
        host.paths(json!({ "pattern": "x", "path": "./src" })).await,
        ["./src/a.rs"]
    );
    let absolute = host.dir.path().join("src/a.rs").display().to_string();
    let folder = host.dir.path().display().to_string();
    assert_eq!(
        host.paths(json!({ "pattern": "x", "path": folder })).await,
        [absolute]
    );
}

#[tokio::test]
async fn query_is_another_name_for_pattern_and_one_of_them_is_needed() {
    let host = Host::with(&[("a", "x")]);
    assert_eq!(host.paths(json!({ "query": "x" })).await, ["a"]);
    assert!(
        host.fails(json!({}))
            .await
            .contains("`/pattern` is required")
    );
    let twice = host.fails(json!({ "pattern": "x", "query": "y" })).await;
    assert!(twice.contains("`/query`"), "{twice}");
}

#[tokio::test]
async fn count_counts_matching_lines_of_each_file() {
    let host = Host::with(&[("a", "x x\nx\ny\n"), ("b", "y"), ("c", "x")]);
    let found = host
        .search(json!({ "pattern": "x", "mode": "count" }))
        .await;
    assert_eq!(
        found["counts"],
        json!([{ "path": "a", "lines": 2 }, { "path": "c", "lines": 1 }])
    );
}

#[tokio::test]
async fn names_finds_files_by_glob_without_opening_them() {
    let host = Host::with(&[
        ("src/a.rs", ""),
        ("src/deep/B.rs", ""),
        ("b.txt", ""),
        ("tests/c.rs", ""),
    ]);
    let names = |pattern: &str| json!({ "mode": "names", "pattern": pattern });
    assert_eq!(
        host.paths(names("*.rs")).await,
        ["src/a.rs", "src/deep/B.rs", "tests/c.rs"]
    );
    assert_eq!(
        host.paths(names("src/**")).await,
        ["src/a.rs", "src/deep/B.rs"]
    );
    assert_eq!(host.paths(names("b.*")).await, ["b.txt"]);
    let insensitive = json!({ "mode": "names", "pattern": "b.*", "case": "insensitive" });
    assert_eq!(host.paths(insensitive).await, ["b.txt", "src/deep/B.rs"]);
    assert!(host.fails(names("[")).await.contains("not a glob"));
    assert!(host.fails(names("!*.rs")).await.contains("names no files"));
}

#[tokio::test]
async fn case_is_sensitive_insensitive_or_smart() {
    let host = Host::with(&[("a", "Word"), ("b", "word")]);
    assert_eq!(host.paths(json!({ "pattern": "word" })).await, ["b"]);
    assert_eq!(
        host.paths(json!({ "pattern": "WORD", "case": "insensitive" }))
            .await,
        ["a", "b"]
    );
    assert_eq!(
        host.paths(json!({ "pattern": "word", "case": "smart" }))
            .await,
        ["a", "b"]
    );
    assert_eq!(
        host.paths(json!({ "pattern": "Word", "case": "smart" }))
            .await,
        ["a"]
    );
}

#[tokio::test]
async fn literal_takes_the_pattern_as_it_is() {
    let host = Host::with(&[("a", "f(x)"), ("b", "fx")]);
    assert_eq!(
        host.paths(json!({ "pattern": "f(x)", "literal": true }))
            .await,
        ["a"]
    );
    assert_eq!(host.paths(json!({ "pattern": "f(x)" })).await, ["b"]);
}

#[tokio::test]
async fn multiline_lets_a_match_span_lines() {
    let host = Host::with(&[("a", "one\nfn x(\n  y,\n)\ntwo\n")]);
    let found = host
        .search(json!({ "pattern": r"x\(.*\)", "multiline": true }))
        .await;
    assert_eq!(found["matches"][0]["line"], 2);
    assert_eq!(found["matches"][0]["column"], 4);
    assert_eq!(found["matches"][0]["text"], "fn x(\n  y,\n)");
    let message = host.fails(json!({ "pattern": r"one\nfn" })).await;
    assert!(message.contains("multiline"), "{message}");
}

#[tokio::test]
async fn the_end_of_a_line_is_found_whatever_it_is_made_of() {
    let host = Host::with(&[("dos", "one\r\ntwo\r\n"), ("unix", "one\ntwo\n")]);
    assert_eq!(
        host.paths(json!({ "pattern": "one$" })).await,
        ["dos", "unix"]
    );
    assert_eq!(host.paths(json!({ "pattern": r"one\r$" })).await, ["dos"]);
    let found = host.search(json!({ "pattern": "one" })).await;
    assert_eq!(found["matches"][0]["text"], "one");
}

#[tokio::test]
async fn globs_and_types_choose_files() {
    let host = Host::with(&[
        ("a.rs", "x"),
        ("b.py", "x"),
        ("t/c.rs", "x"),
        ("t/d.md", "x"),
    ]);
    assert_eq!(
        host.paths(json!({ "pattern": "x", "globs": ["*.rs"] }))
            .await,
        ["a.rs", "t/c.rs"]
    );
    assert_eq!(
        host.paths(json!({ "pattern": "x", "globs": ["!t/**"] }))
            .await,
        ["a.rs", "b.py"]
    );
    assert_eq!(
        host.paths(json!({ "pattern": "x", "globs": ["*.rs", "!t"] }))
            .await,
        ["a.rs"]
    );
    assert_eq!(
        host.paths(json!({ "pattern": "x", "types": ["py", "md"] }))
            .await,
        ["b.py", "t/d.md"]
    );
    assert_eq!(
        host.paths(json!({ "pattern": "x", "types": ["!rust"] }))
            .await,
        ["b.py", "t/d.md"]
    );
    assert!(
        host.fails(json!({ "pattern": "x", "types": ["nosuch"] }))
            .await
            .contains("nosuch")
    );
    assert!(
        host.fails(json!({ "pattern": "x", "globs": ["{a"] }))
            .await
            .contains("not a glob")
    );
}

#[tokio::test]
async fn ignore_files_count_as_for_ripgrep() {
    let host = Host::with(&[
        (".git/config", "x"),
        (".git/info/exclude", "excluded\n"),
        (".gitignore", "*.log\n!keep.log\nbuild/\n/top\n"),
        (".ignore", "plain\n!plain2.log\n"),
        ("a.log", "x"),
        ("keep.log", "x"),
        ("plain", "x"),
        ("plain2.log", "x"),
        ("excluded", "x"),
        ("top", "x"),
        ("build/out", "x"),
        ("sub/top", "x"),
        ("sub/.gitignore", "!b.log\nc\n"),
        ("sub/b.log", "x"),
        ("sub/c", "x"),
        ("sub/deep/c", "x"),
        ("sub/deep/d", "x"),
    ]);
    let shown = [
        "keep.log",
        "plain2.log",
        "sub/b.log",
        "sub/top",
        "sub/deep/d",
    ];
    assert_eq!(host.paths(json!({ "pattern": "x" })).await, shown);
    let deep = host
        .paths(json!({ "pattern": "x", "path": "sub/deep" }))
        .await;
    assert_eq!(deep, ["sub/deep/d"], "the rules of the folders above count");
    let all = host.paths(json!({ "pattern": "x", "ignored": true })).await;
    assert_eq!(all.len(), 12, "all but what is hidden: {all:?}");
}

#[tokio::test]
async fn gitignore_counts_where_a_search_begins_and_ends_at_the_next_repository() {
    let host = Host::with(&[(".gitignore", "a\n"), ("a", "x"), ("b", "x")]);
    assert_eq!(host.paths(json!({ "pattern": "x" })).await, ["b"]);
    host.write(".git/config", "");
    host.write("inner/.git/config", "");
    host.write("inner/a", "x");
    let shown = ["b", "inner/a"];
    assert_eq!(host.paths(json!({ "pattern": "x" })).await, shown);
}

#[tokio::test]
async fn what_is_hidden_is_searched_only_if_asked_for() {
    let host = Host::with(&[
        (".hidden", "x"),
        (".dir/a", "x"),
        (".git/a", "x"),
        ("a", "x"),
    ]);
    assert_eq!(host.paths(json!({ "pattern": "x" })).await, ["a"]);
    assert_eq!(
        host.paths(json!({ "pattern": "x", "globs": [".git/**", "a"] }))
            .await,
        ["a"]
    );
    let hidden = host.paths(json!({ "pattern": "x", "hidden": true })).await;
    assert_eq!(hidden, [".hidden", "a", ".dir/a", ".git/a"]);
}

#[tokio::test]
async fn binary_files_are_skipped_and_counted() {
    let host = Host::with(&[("a", "needle")]);
    host.write("b", b"needle\0needle");
    let found = host.search(json!({ "pattern": "needle" })).await;
    assert_eq!(found["found"], 1);
    assert_eq!(found["skipped"]["binary_files"], 1);
    assert_eq!(found["complete"], true);
}

#[tokio::test]
async fn a_file_in_utf16_is_searched() {
    let host = Host::new();
    let utf16: Vec<u8> = "\u{feff}a nëedle\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    host.write("a", utf16);
    let found = host.search(json!({ "pattern": "nëedle" })).await;
    assert_eq!(found["matches"][0]["text"], "a nëedle");
}

#[tokio::test]
async fn a_long_line_is_clipped_around_the_match() {
    let host = Host::new();
    host.write(
        "a",
        format!("{}needle{}\n", "é".repeat(50_000), "b".repeat(50_000)),
    );
    let found = host.search(json!({ "pattern": "needle" })).await;
    let first = &found["matches"][0];
    assert_eq!(first["column"], 100_001);
    assert!(first["text"].as_str().unwrap().contains("needle"));
    assert!(first["text"].as_str().unwrap().len() <= 400);
    assert_eq!(first["clipped"]["full_bytes"], 150_006);
}

#[tokio::test]
async fn a_bad_pattern_is_an_error_in_ripgreps_words() {
    let host = Host::with(&[("a", "x")]);
    let message = host.fails(json!({ "pattern": "a(b" })).await;
    assert!(message.contains("unclosed group"), "{message}");
    assert!(message.contains("literal"), "{message}");
    let message = host
        .fails(json!({ "pattern": r"((\w{1000}){1000}){1000}" }))
        .await;
    assert!(message.contains("size limit"), "{message}");
    let message = host.fails(json!({ "pattern": "(".repeat(4000) })).await;
    assert!(message.contains("cannot search"), "{message}");
}

#[tokio::test]
async fn a_file_that_is_named_is_searched_even_if_it_is_ignored() {
    let host = Host::with(&[(".ignore", "a\n"), ("a", "x")]);
    assert_eq!(
        host.paths(json!({ "pattern": "x", "path": "a" })).await,
        ["a"]
    );
    let message = host
        .fails(json!({ "pattern": "a", "path": "a", "mode": "names" }))
        .await;
    assert!(message.contains("is a file"), "{message}");
}

#[tokio::test]
async fn names_that_do_not_fit_are_counted_and_a_plain_word_gets_a_hint() {
    let host = Host::with(&[("spawn.rs", ""), ("a/respawn.c", ""), ("a/b/other", "")]);
    let args = |pattern: &str| json!({ "pattern": pattern, "mode": "names" });
    let none = host.search(args("spawn")).await;
    assert_eq!(
        (&none["found"], &none["searched_files"]),
        (&json!(0), &json!(3))
    );
    assert!(text(&host.call(args("spawn")).await).contains("`*spawn*`"));
    let some = host.search(args("*spawn*")).await;
    assert_eq!(
        (&some["found"], &some["searched_files"]),
        (&json!(2), &json!(3))
    );
    assert!(some["hint"].is_null());
}

#[tokio::test]
async fn names_with_control_characters_stay_on_one_line() {
    let host = Host::with(&[("line\nbreak\u{1b}", "x")]);
    for mode in ["content", "files", "count", "names"] {
        let pattern = if mode == "names" { "*" } else { "x" };
        let result = host.call(json!({ "pattern": pattern, "mode": mode })).await;
        let text = text(&result);
        assert!(text.contains("line\\nbreak\\u{1b}"), "{mode}: {text}");
    }
}
