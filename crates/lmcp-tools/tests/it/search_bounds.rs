//! `search_files`: every result once, page by page, within its limits, and nothing from outside of the roots.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    sync::atomic::{AtomicBool, Ordering},
};

use lmcp_core::client::Event;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::searching::{Host, client, strings, text};

#[tokio::test]
async fn results_come_files_first_then_folders_by_name() {
    let host = Host::with(&[
        ("b/a", "x"),
        ("z", "x"),
        ("a/b/c", "x"),
        ("a/z", "x"),
        ("B", "x"),
        ("é", "x"),
    ]);
    let found = host.paths(json!({ "pattern": "x" })).await;
    assert_eq!(found, ["B", "z", "é", "a/z", "a/b/c", "b/a"]);
}

#[tokio::test]
async fn the_limit_is_for_all_files_together() {
    let host = Host::with(&[("a", "x\nx\nx\n"), ("b", "x\nx\nx\n")]);
    let found = host.search(json!({ "pattern": "x", "limit": 4 })).await;
    assert_eq!(found["found"], 4);
    assert_eq!(found["stopped_by"], "limit");
    assert_eq!(found["complete"], false);
    let cursor = &found["next_cursor"];
    let rest = host
        .search(json!({ "pattern": "x", "limit": 4, "cursor": cursor }))
        .await;
    assert_eq!(rest["found"], 2);
    assert_eq!(rest["found_so_far"], 6);
    assert_eq!(
        rest["matches"][0],
        json!({ "path": "b", "line": 2, "column": 1, "text": "x" })
    );
    assert!(rest.get("next_cursor").is_none());
}

#[tokio::test]
async fn an_answer_stays_within_its_room_and_the_rest_follows() {
    let host = Host::new();
    let line = format!("{}\n", "\t\"x\"".repeat(60));
    for file in 0..20 {
        host.write(&format!("f{file:02}"), line.repeat(20));
    }
    let (mut cursor, mut seen, mut pages) = (Value::Null, Vec::new(), 0);
    loop {
        let result = host
            .call(json!({ "pattern": "x", "context": 2, "cursor": cursor }))
            .await;
        let structured = result.structured_content.clone().unwrap();
        assert!(
            structured.to_string().len() < 26 * 1024,
            "{}",
            structured.to_string().len()
        );
        assert!(json!(text(&result)).to_string().len() < 26 * 1024);
        for found in structured["matches"].as_array().unwrap() {
            seen.push((found["path"].to_string(), found["line"].as_u64().unwrap()));
        }
        pages += 1;
        cursor = structured["next_cursor"].clone();
        if cursor.is_null() {
            break;
        }
        assert_eq!(structured["stopped_by"], "room");
    }
    let expected: Vec<_> = (0..20)
        .flat_map(|file| (1..=20).map(move |line| (format!("\"f{file:02}\""), line)))
        .collect();
    assert_eq!(seen, expected);
    assert!(pages > 3);
}

#[tokio::test]
async fn a_cursor_of_another_search_or_of_nobody_is_refused() {
    let host = Host::with(&[("a", "x\nx\n")]);
    let found = host.search(json!({ "pattern": "x", "limit": 1 })).await;
    let message = host
        .fails(json!({ "pattern": "y", "cursor": found["next_cursor"] }))
        .await;
    assert!(message.contains("another search"), "{message}");
    let message = host
        .fails(json!({ "pattern": "x", "cursor": "nonsense" }))
        .await;
    assert!(message.contains("not a cursor"), "{message}");
}

#[tokio::test]
async fn a_cursor_outlives_the_file_it_points_to() {
    let host = Host::with(&[("a", "x"), ("b", "x\nx\n"), ("c", "x")]);
    let found = host.search(json!({ "pattern": "x", "limit": 2 })).await;
    fs::remove_file(host.dir.path().join("b")).unwrap();
    let rest = host
        .search(json!({ "pattern": "x", "cursor": found["next_cursor"] }))
        .await;
    assert_eq!(
        rest["matches"],
        json!([{ "path": "c", "line": 1, "column": 1, "text": "x" }])
    );
}

#[tokio::test]
async fn a_single_file_is_paged_too() {
    let host = Host::with(&[("a", "x\ny\nx\nx\n")]);
    let arguments = json!({ "pattern": "x", "path": "a", "limit": 2 });
    let found = host.search(arguments).await;
    let rest = json!({ "pattern": "x", "path": "a", "limit": 2, "cursor": found["next_cursor"] });
    assert_eq!(host.search(rest).await["matches"][0]["line"], 4);
}

#[tokio::test]
async fn what_is_not_there_or_outside_is_an_error() {
    let host = Host::with(&[("a", "x")]);
    assert!(
        host.fails(json!({ "pattern": "x", "path": "none" }))
            .await
            .contains("does not exist")
    );
    assert!(
        host.fails(json!({ "pattern": "x", "path": "/etc" }))
            .await
            .contains("outside")
    );
    assert!(
        host.fails(json!({ "pattern": "x", "path": "../.." }))
            .await
            .contains("outside")
    );
    assert!(
        host.fails(json!({ "pattern": "x", "nosuch": 1 }))
            .await
            .contains("nosuch")
    );
}

#[tokio::test]
async fn links_fifos_and_second_names_are_not_searched() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), "x").unwrap();
    let host = Host::with(&[("a", "x"), ("second", "x")]);
    let dir = host.dir.path();
    symlink(outside.path(), dir.join("link")).unwrap();
    symlink(outside.path().join("secret"), dir.join("file_link")).unwrap();
    symlink(dir.join("a"), dir.join("inner_link")).unwrap();
    fs::hard_link(dir.join("second"), dir.join("third")).unwrap();
    let made = std::process::Command::new("mkfifo")
        .arg(dir.join("fifo"))
        .status()
        .unwrap();
    assert!(made.success());
    let found = host
        .search(json!({ "pattern": "x", "mode": "files" }))
        .await;
    assert_eq!(strings(&found["files"]), ["a"]);
    assert_eq!(found["skipped"]["hard_linked_files"], 2);
    assert_eq!(found["complete"], false);
    let message = host
        .fails(json!({ "pattern": "x", "path": "second" }))
        .await;
    assert!(message.contains("another name"), "{message}");

    let allowed = client(&[dir], true);
    let arguments = json!({ "pattern": "x", "mode": "files" });
    let found = allowed
        .call_tool("search_files", arguments.clone())
        .await
        .unwrap();
    assert_eq!(
        strings(&found.structured_content.unwrap()["files"]),
        ["a", "second", "third"]
    );

    // Where there are no roots, a second name gives nothing away.
    let mut arguments = arguments;
    arguments["path"] = dir.display().to_string().into();
    let found = client(&[], false)
        .call_tool("search_files", arguments)
        .await
        .unwrap();
    assert_eq!(found.structured_content.unwrap()["found"], 3);
}

#[tokio::test]
async fn ignore_files_above_the_root_are_not_read() {
    let host = Host::with(&[(".ignore", "a\n"), ("root/a", "x")]);
    let arguments = json!({ "pattern": "x", "mode": "files" });
    let confined = client(&[&host.dir.path().join("root")], false);
    let found = confined.call_tool("search_files", arguments).await.unwrap();
    assert_eq!(strings(&found.structured_content.unwrap()["files"]), ["a"]);
}

#[tokio::test]
async fn what_cannot_be_read_is_counted_and_named() {
    let host = Host::with(&[("a", "x"), ("closed/b", "x")]);
    let closed = host.dir.path().join("closed");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::read_dir(&closed).is_ok() {
        // The superuser reads everything; a path that is too long is closed to all.
        let name = "n".repeat(250);
        let mut deep = rustix::fs::open(
            host.dir.path(),
            rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY,
            rustix::fs::Mode::empty(),
        )
        .unwrap();
        for _ in 0..20 {
            rustix::fs::mkdirat(&deep, &*name, rustix::fs::Mode::RWXU).unwrap();
            let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY;
            deep = rustix::fs::openat(&deep, &*name, flags, rustix::fs::Mode::empty()).unwrap();
        }
    }
    let found = host
        .search(json!({ "pattern": "x", "globs": ["!b"] }))
        .await;
    assert_eq!(found["found"], 1);
    assert_eq!(found["skipped"]["unreadable"], 1);
    assert_eq!(found["complete"], false);
    assert_eq!(strings(&found["skipped"]["unreadable_examples"]).len(), 1);
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
}

#[tokio::test]
async fn a_search_that_is_dropped_lets_the_next_ones_in() {
    let host = Host::new();
    for folder in 0..200 {
        host.write(&format!("d{folder}/f"), "x\n".repeat(50_000));
    }
    // More than run at once: if dropped ones went on or kept their turn, the last would wait for them.
    for _ in 0..50 {
        let mut calling = host
            .client
            .start_tool("search_files", json!({ "pattern": "(x|y)z{2}$" }));
        // One turn of the loop starts it.
        tokio::select! {
            biased;
            event = calling.next() => assert!(!matches!(event, Some(Event::Done(Err(_))))),
            () = tokio::task::yield_now() => {}
        }
        drop(calling);
    }
    let found = host.search(json!({ "pattern": "x", "limit": 1 })).await;
    assert_eq!(found["found"], 1);
}

#[test]
fn nothing_from_outside_is_found_while_a_folder_is_swapped_for_a_link() {
    const SEARCHES: usize = 300;
    let outside = tempfile::tempdir().unwrap();
    for file in 0..20 {
        fs::write(
            outside.path().join(format!("outer{file}")),
            "outer secret\n",
        )
        .unwrap();
    }
    fs::write(outside.path().join("only_outside"), "secret\n").unwrap();
    let host = Host::with(&[]);
    for file in 0..20 {
        host.write(&format!("swapped/inner{file}"), "inner secret\n");
        host.write(&format!("swapped/outer{file}"), "inner secret\n");
    }
    let (folder, aside) = (
        host.dir.path().join("swapped"),
        outside.path().join("aside"),
    );
    let over = AtomicBool::new(false);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                fs::rename(&folder, &aside).unwrap();
                symlink(outside.path(), &folder).unwrap();
                fs::remove_file(&folder).unwrap();
                fs::rename(&aside, &folder).unwrap();
            }
        });
        runtime.block_on(async {
            for round in 0..SEARCHES {
                let mode = ["content", "names"][round % 2];
                let pattern = ["secret", "*"][round % 2];
                let arguments = json!({ "pattern": pattern, "mode": mode, "ignored": true });
                let result = host.call(arguments).await;
                for foreign in ["outer secret", "only_outside", "aside"] {
                    assert!(!text(&result).contains(foreign), "{}", text(&result));
                }
            }
        });
        over.store(true, Ordering::Relaxed);
    });
    // Nothing was found because it was outside, not because nothing is ever found.
    let arguments = json!({ "pattern": "secret", "mode": "content", "ignored": true });
    let found = runtime.block_on(host.call(arguments));
    assert!(text(&found).contains("inner secret"), "{}", text(&found));
}

/// A small tree: paths of a few names, and lines of a few words.
fn tree() -> impl Strategy<Value = Vec<(String, String)>> {
    let name = prop::sample::select(vec!["a", "b", "B", ".h", "c.rs"]);
    let folders = prop::collection::vec(prop::sample::select(vec!["d", "e", ".k", "b"]), 0..3);
    let path = (folders, name).prop_map(|(folders, name)| {
        format!(
            "{}{name}_",
            folders.iter().map(|f| format!("{f}/")).collect::<String>()
        )
    });
    let line = prop::sample::select(vec![
        "foo", "bar", "", "a foo b", "FOO", "foo foo", "\0foo", "é foo",
    ]);
    let end = prop::sample::select(vec!["\n", "\n", "\r\n"]);
    let content = prop::collection::vec((line, end), 0..12).prop_map(|lines| {
        lines
            .iter()
            .map(|(line, end)| format!("{line}{end}"))
            .collect::<String>()
    });
    prop::collection::vec((path, content), 0..12)
}

/// What a search should find, the simple way: for one file the matches with context.
fn model(content: &str, before: usize, after: usize) -> Vec<Value> {
    if content.contains('\0') {
        return Vec::new();
    }
    let lines: Vec<_> = content.lines().collect();
    let hits: Vec<_> = (0..lines.len())
        .filter(|at| lines[*at].contains("foo"))
        .collect();
    hits.iter()
        .enumerate()
        .map(|(number, &at)| {
            let from = number
                .checked_sub(1)
                .map_or(0, |last| hits[last] + after + 1);
            let to = hits.get(number + 1).copied().unwrap_or(lines.len());
            let mut found = json!({
                "line": at + 1, "column": lines[at].find("foo").unwrap() + 1, "text": lines[at],
            });
            let before = &lines[from.max(at.saturating_sub(before)).min(at)..at];
            let after = &lines[at + 1..to.min(at + 1 + after).max(at + 1)];
            if !before.is_empty() {
                found["before"] = json!(before);
            }
            if !after.is_empty() {
                found["after"] = json!(after);
            }
            found
        })
        .collect()
}

/// The order of a search: files first, then folders, each by name.
fn order(path: &str) -> Vec<(bool, String)> {
    let mut names: Vec<_> = path
        .split('/')
        .map(|name| (true, name.to_owned()))
        .collect();
    names.last_mut().unwrap().0 = false;
    names
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn all_pages_together_are_what_a_simple_search_finds(
        files in tree(), limit in 1_usize..8, before in 0_usize..3, after in 0_usize..3, hidden: bool,
    ) {
        let host = Host::new();
        let files: std::collections::BTreeMap<_, _> = files.into_iter().collect();
        for (path, content) in &files {
            host.write(path, content);
        }
        let mut expected: Vec<_> = files.iter()
            .filter(|(path, _)| hidden || !path.split('/').any(|name| name.starts_with('.')))
            .flat_map(|(path, content)| {
                model(content, before, after).into_iter().map(move |mut found| {
                    found["path"] = json!(path);
                    (order(path), found)
                })
            })
            .collect();
        expected.sort_by(|(a, _), (b, _)| a.cmp(b));
        let expected: Vec<_> = expected.into_iter().map(|(_, found)| found).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (mut cursor, mut seen) = (Value::Null, Vec::new());
        loop {
            let found = runtime.block_on(host.search(json!({
                "pattern": "foo", "before": before, "after": after, "hidden": hidden, "limit": limit, "cursor": cursor,
            })));
            let matches = found["matches"].as_array().unwrap();
            prop_assert!(matches.len() <= limit);
            seen.extend(matches.iter().cloned());
            prop_assert_eq!(found["found_so_far"].as_u64().unwrap(), seen.len() as u64);
            cursor = found["next_cursor"].clone();
            if cursor.is_null() {
                break;
            }
        }
        prop_assert_eq!(seen, expected);
    }
}

#[tokio::test]
async fn a_line_too_long_to_search_is_skipped_and_told_in_words() {
    let host = Host::with(&[("small", "needle\n")]);
    host.write("long", "x".repeat(65 << 20));
    for (path, multiline) in [(".", false), ("long", false), (".", true), ("long", true)] {
        let arguments = json!({ "pattern": "needle", "path": path, "multiline": multiline });
        let result = host.call(arguments).await;
        let found = result.structured_content.as_ref().unwrap();
        let is_folder = path == ".";
        assert_eq!(found["skipped"]["too_large_files"], 1);
        assert_eq!(found["skipped"]["unreadable"], 0);
        assert_eq!(found["searched_files"], u64::from(is_folder));
        assert_eq!(found["complete"], false);
        let text = text(&result);
        let words = if multiline {
            "too large for a multiline search with this pattern"
        } else {
            "has a line too long to search with this pattern"
        };
        let name = if is_folder { "./long" } else { "long" };
        assert!(
            text.lines().any(|line| line == format!("{words}: {name}")),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_long_regular_expression_is_refused_and_long_text_is_not() {
    let host = Host::with(&[("a", &"x".repeat(5000))]);
    let result = host.call(json!({ "pattern": r"\w".repeat(2049) })).await;
    assert!(result.is_error);
    let words = text(&result);
    assert!(
        words.contains("has 4098 bytes, and may have 4096"),
        "{words}"
    );
    assert!(words.contains("`literal: true`"), "{words}");
    let found = host
        .search(json!({ "pattern": "x".repeat(5000), "literal": true }))
        .await;
    assert_eq!(found["found"], 1);
}

#[tokio::test]
async fn a_large_pattern_is_not_looked_for_in_long_lines() {
    let host = Host::new();
    host.write("long", "ab".repeat(1_000_000));
    host.write("short", "ab".repeat(1000));
    for multiline in [false, true] {
        let search = |pattern: &str| {
            host.search(json!({ "pattern": pattern, "multiline": multiline, "mode": "files" }))
        };
        let found = search("(?:(?:(?:ab?){50}){50}){8}").await;
        assert_eq!(found["skipped"]["too_large_files"], 1, "{found}");
        assert_eq!(found["searched_files"], 1, "{found}");
        let found = search("(?:ab?){50}").await;
        assert_eq!(found["files"], json!(["long", "short"]), "{found}");
    }
}
