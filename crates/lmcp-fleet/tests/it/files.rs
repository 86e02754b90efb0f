//! The tools on files, on every kind of host.

use std::{fs, os::unix::fs::PermissionsExt as _};

use serde_json::json;

use crate::support::{Far, all};

/// Names that a shell might take for something else.
const HOSTILE: [&str; 8] = [
    "it's",
    "two\nlines",
    "-rf",
    "$(touch gone)",
    "`touch gone`",
    "a \"b\" \\c",
    "end\n",
    "*?[x]",
];

#[tokio::test]
async fn files_of_any_name_are_written_read_edited_and_listed() {
    for far in all() {
        for name in HOSTILE {
            let path = far.path(name);
            let written = far
                .value(
                    "write_file",
                    json!({ "path": path, "content": "one\ntwo\n" }),
                )
                .await;
            assert_eq!(
                (&written["created"], &written["lines"]),
                (&json!(true), &json!(2)),
                "{}: {name:?}",
                far.name
            );
            let edited = far
                .value("edit_file", json!({ "path": path, "old_string": "two", "new_string": name, "if_hash": written["hash"] }))
                .await;
            let read = far.value("read_file", json!({ "path": path })).await;
            assert_eq!(
                read["files"][0]["content"],
                format!("one\n{name}\n"),
                "{}: {name:?}",
                far.name
            );
            assert_eq!(read["files"][0]["hash"], edited["files"][0]["hash"]);
            assert_eq!(fs::read_to_string(&path).unwrap(), format!("one\n{name}\n"));
        }
        let listed = far
            .value("list_dir", json!({ "path": far.home.path() }))
            .await;
        let mut names: Vec<_> = listed["entries"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| entry["path"].as_str().unwrap())
            .collect();
        names.sort_unstable();
        let mut expected = HOSTILE.to_vec();
        expected.sort_unstable();
        assert_eq!(names, expected, "{}", far.name);
        let found = far
            .value(
                "search_files",
                json!({ "pattern": "on[e]", "path": far.home.path(), "mode": "files" }),
            )
            .await;
        assert_eq!(found["found"], HOSTILE.len(), "{}: {found}", far.name);
        assert!(!far.home.path().join("gone").exists());
    }
}

#[tokio::test]
async fn a_write_keeps_the_mode_follows_links_and_leaves_no_draft() {
    for far in all() {
        let path = far.path("script");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
        std::os::unix::fs::symlink("script", far.path("link")).unwrap();
        far.value(
            "write_file",
            json!({ "path": far.path("link"), "content": "new" }),
        )
        .await;
        assert_eq!(fs::read_to_string(&path).unwrap(), "new", "{}", far.name);
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o7777,
            0o750,
            "{}",
            far.name
        );
        assert!(fs::symlink_metadata(far.path("link")).unwrap().is_symlink());
        let names: Vec<_> = fs::read_dir(far.home.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert!(
            names
                .iter()
                .all(|name| !name.to_str().unwrap().contains("lmcp-")),
            "{names:?}"
        );
    }
}

#[tokio::test]
async fn modes_of_writing_mean_what_they_say() {
    for far in all() {
        let path = far.path("deep/er/file");
        let refused = far
            .error("write_file", json!({ "path": path, "content": "a" }))
            .await;
        assert!(
            refused.contains("does not exist"),
            "{}: {refused}",
            far.name
        );
        far.value(
            "write_file",
            json!({ "path": path, "content": "a\n", "parents": true, "mode": "create" }),
        )
        .await;
        let refused = far
            .error(
                "write_file",
                json!({ "path": path, "content": "b", "mode": "create" }),
            )
            .await;
        assert!(
            refused.contains("exists already"),
            "{}: {refused}",
            far.name
        );
        let added = far
            .value(
                "write_file",
                json!({ "path": path, "content": "b\n", "mode": "append" }),
            )
            .await;
        assert_eq!(
            (&added["bytes_written"], &added["lines"]),
            (&json!(2), &json!(2)),
            "{}",
            far.name
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), "a\nb\n", "{}", far.name);
        let refused = far
            .error(
                "write_file",
                json!({ "path": path, "content": "c", "if_hash": "0123456789ab" }),
            )
            .await;
        assert!(refused.contains("has changed"), "{}: {refused}", far.name);
        far.value(
            "write_file",
            json!({ "path": path, "content": "c", "if_hash": added["hash"] }),
        )
        .await;
        assert_eq!(fs::read_to_string(&path).unwrap(), "c", "{}", far.name);
    }
}

#[tokio::test]
async fn several_files_are_edited_together_or_not_at_all() {
    for far in all() {
        let (first, second) = (far.path("first"), far.path("second"));
        fs::write(&first, "a b\n").unwrap();
        fs::write(&second, "a b\n").unwrap();
        let edits = |new: &str| {
            json!({ "edits": [
                { "path": first, "old_string": "a", "new_string": "x" },
                { "path": second, "old_string": new, "new_string": "y" },
            ] })
        };
        let refused = far.error("edit_file", edits("none")).await;
        assert!(refused.contains("edit 2 of 2"), "{}: {refused}", far.name);
        assert_eq!(fs::read_to_string(&first).unwrap(), "a b\n");
        far.value("edit_file", edits("b")).await;
        assert_eq!(fs::read_to_string(&first).unwrap(), "x b\n", "{}", far.name);
        assert_eq!(
            fs::read_to_string(&second).unwrap(),
            "a y\n",
            "{}",
            far.name
        );
    }
}

#[tokio::test]
async fn edits_of_one_file_at_once_are_all_made() {
    let far = Far::sh();
    let path = far.path("shared");
    let lines: Vec<String> = (0..6).map(|number| format!("line {number}\n")).collect();
    fs::write(&path, lines.concat()).unwrap();
    let edits = (0..3).map(|number| {
        let args = json!({ "path": path, "old_string": format!("line {number}"), "new_string": format!("done {number}") });
        far.value("edit_file", args)
    });
    let mut edits = edits.collect::<Vec<_>>();
    let (third, second, first) = (
        edits.pop().unwrap(),
        edits.pop().unwrap(),
        edits.pop().unwrap(),
    );
    tokio::join!(first, second, third);
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        "done 0\ndone 1\ndone 2\nline 3\nline 4\nline 5\n"
    );
}

#[tokio::test]
async fn large_files_are_read_by_bytes() {
    let far = Far::sh();
    let path = far.path("large");
    let line = "0123456789abcde\n";
    fs::write(&path, line.repeat(1_200_000)).unwrap();
    let words = far.error("read_file", json!({ "path": path })).await;
    assert!(words.contains("byte_offset"), "{words}");
    let read = far
        .value(
            "read_file",
            json!({ "path": path, "byte_offset": 16_000_000, "byte_limit": 16 }),
        )
        .await;
    assert_eq!(read["files"][0]["content"], line);
    let read = far
        .value("read_file", json!({ "path": path, "byte_offset": -16 }))
        .await;
    assert_eq!(read["files"][0]["content"], line);
}

#[tokio::test]
async fn a_draft_is_not_written_through_what_somebody_put_in_its_place() {
    for far in all() {
        let victim = far.path("victim");
        fs::write(&victim, "theirs\n").unwrap();
        for name in ["file", "new"] {
            let file = json!({ "path": far.path("file"), "content": "one\n" });
            far.value("write_file", file).await;
            // The mark in the name of a connection's folder is also in the names of drafts.
            let jobs = far.home.path().join(".local/state/lmcp/script-jobs");
            for entry in fs::read_dir(jobs).unwrap().flatten() {
                let folder = entry.file_name().into_string().unwrap();
                if let Some(mark) = folder.strip_prefix(".link-") {
                    let draft = far.path(&format!(".0.lmcp-{mark}"));
                    let _ = std::os::unix::fs::symlink(&victim, draft);
                }
            }
            let arguments = json!({ "path": far.path(name), "content": "two\n" });
            far.error("write_file", arguments).await;
            let held = fs::read_to_string(&victim).unwrap();
            assert_eq!(held, "theirs\n", "{}", far.name);
        }
        let held = fs::read_to_string(far.path("file")).unwrap();
        assert_eq!(held, "one\n", "{}", far.name);
        assert!(!fs::exists(far.path("new")).unwrap(), "{}", far.name);
    }
}
