//! `file_history`: what was changed can be seen and taken back, by whoever changed it.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use crate::writing::{Bench, Called};
use serde_json::{Value, json};

/// A server that keeps its history, below a root if that is said.
fn bench() -> Bench {
    Bench::with(|settings, folder| settings.state_dir = Some(folder.join("outside")))
}

impl Bench {
    async fn write(&self, path: &Path, content: &str, more: Value) -> Called {
        let mut arguments = json!({ "path": path, "content": content });
        let object = arguments.as_object_mut().unwrap();
        object.extend(more.as_object().unwrap().clone());
        self.call("write_file", arguments).await.ok()
    }

    async fn replace(&self, path: &Path, old: &str, new: &str) -> Called {
        let arguments = json!({ "path": path, "old_string": old, "new_string": new });
        self.call("edit_file", arguments).await.ok()
    }

    async fn undo(&self, id: &str) -> Called {
        self.call("file_history", json!({ "undo": id })).await
    }

    /// The ids of all changes, the newest first.
    async fn changes(&self) -> Vec<String> {
        let listed = self.call("file_history", json!({})).await.ok();
        let changes = listed.value["changes"].as_array().unwrap();
        changes
            .iter()
            .map(|change| change["id"].as_str().unwrap().to_owned())
            .collect()
    }
}

#[tokio::test]
async fn changes_are_listed_with_what_they_did_and_taken_back_one_by_one() {
    let bench = bench();
    let path = bench.path("file");
    bench.write(&path, "one\ntwo\n", json!({})).await;
    bench.replace(&path, "two", "2").await;
    bench
        .write(&path, "three\n", json!({ "mode": "append" }))
        .await;
    bench.write(&path, "all new\n", json!({})).await;
    let listed = bench
        .call("file_history", json!({ "path": path }))
        .await
        .ok();
    let about: Vec<_> = listed.value["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| change["about"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(about.len(), 4, "{}", listed.text);
    assert_eq!(
        about[1..],
        ["added `three`", "`two` became `2`", "new file, 8 bytes"]
    );
    assert!(listed.text.contains("edit_file") && listed.text.contains("`two` became `2`"));
    for expected in ["one\n2\nthree\n", "one\n2\n", "one\ntwo\n"] {
        bench.undo("last").await.ok();
        assert_eq!(fs::read_to_string(&path).unwrap(), expected);
    }
    bench.undo("last").await.ok();
    assert!(!path.exists());
    bench.undo("last").await.refused("no change left");
}

#[tokio::test]
async fn an_undo_can_be_undone() {
    let bench = bench();
    let path = bench.path("file");
    bench
        .write(&path, "new", json!({ "create_only": true }))
        .await;
    let undone = bench.undo("last").await.ok();
    assert!(!path.exists());
    let undo = undone.value["changes"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    bench.undo(&undo).await.ok();
    assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    // So the change stands again, and is the last that can be undone.
    bench.undo("last").await.ok();
    assert!(!path.exists());
}

#[tokio::test]
async fn an_earlier_change_is_undone_around_later_ones() {
    let bench = bench();
    let text: String = (0..50).map(|n| format!("line {n}\n")).collect();
    let path = bench.file("file", &text);
    bench.replace(&path, "line 10\n", "ten\n").await;
    bench.replace(&path, "line 40\n", "forty\n").await;
    let first = bench.changes().await.pop().unwrap();
    let undone = bench.undo(&first).await.ok();
    assert!(
        undone.text.contains("-ten") && undone.text.contains("+line 10"),
        "{}",
        undone.text
    );
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        text.replace("line 40\n", "forty\n")
    );
}

#[tokio::test]
async fn a_change_that_was_changed_again_is_refused_with_what_would_have_been() {
    let bench = bench();
    let path = bench.file("file", "a = 1\n");
    bench.replace(&path, "a = 1", "a = 2").await;
    fs::write(&path, "a = 3\n").unwrap();
    let words = bench.undo("last").await.refused("changed since");
    assert!(words.contains("-2") && words.contains("+1"), "{words}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "a = 3\n");
}

#[tokio::test]
async fn edits_of_several_files_are_kept_one_by_one() {
    let bench = bench();
    let [a, b] = ["a", "b"].map(|name| bench.file(name, "old"));
    let edits =
        [&a, &b].map(|path| json!({ "path": path, "old_string": "old", "new_string": "new" }));
    bench
        .call("edit_file", json!({ "edits": edits }))
        .await
        .ok();
    let last_of_a = json!({ "path": a, "undo": "last" });
    bench.call("file_history", last_of_a).await.ok();
    assert_eq!(fs::read_to_string(&a).unwrap(), "old");
    assert_eq!(fs::read_to_string(&b).unwrap(), "new");
}

#[tokio::test]
async fn nothing_is_kept_of_what_was_not_done() {
    let bench = bench();
    let path = bench.file("file", "old");
    let dry = json!({ "path": path, "old_string": "old", "new_string": "new", "dry_run": true });
    bench.call("edit_file", dry).await.ok();
    let wrong = json!({ "path": path, "old_string": "other", "new_string": "new" });
    assert!(bench.call("edit_file", wrong).await.failed);
    assert_eq!(bench.changes().await, Vec::<String>::new());
}

#[tokio::test]
async fn only_so_much_is_kept_and_nobody_else_may_read_it() {
    let bench = Bench::with(|settings, folder| {
        settings.state_dir = Some(folder.join("outside"));
        settings.changes_kept = 20;
        settings.change_bytes_kept = 100_000;
    });
    let path = bench.path("file");
    for n in 0..60 {
        bench.write(&path, &format!("{n}\n"), json!({})).await;
    }
    assert_eq!(bench.changes().await.len(), 20);
    let folder = bench.outside("history");
    assert_eq!(
        fs::metadata(&folder).unwrap().permissions().mode() & 0o777,
        0o700
    );
    for entry in fs::read_dir(&folder).unwrap() {
        let mode = entry.unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    // One that is larger than a fourth of all is not kept.
    bench.write(&path, &"x".repeat(30_000), json!({})).await;
    bench.undo("last").await.refused("changed since");
}

#[tokio::test]
async fn a_change_is_forgotten_in_time() {
    let bench = Bench::with(|settings, folder| {
        settings.state_dir = Some(folder.join("outside"));
        settings.jobs_kept_for = std::time::Duration::ZERO;
    });
    bench.write(&bench.path("file"), "new", json!({})).await;
    // The clock goes on by at least a millisecond.
    let listed = async || bench.changes().await.len();
    while listed().await > 0 {}
    assert_eq!(fs::read_dir(bench.outside("history")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_server_that_may_do_less_sees_nothing_of_it() {
    let wide = bench();
    let path = wide.file("file", "old");
    wide.replace(&path, "old", "new").await;
    let id = wide.changes().await.pop().unwrap();
    let state = wide.outside("");
    let root = wide.path("");
    let narrow = Bench::with(|settings, _| {
        settings.state_dir = Some(state.clone());
        settings.roots = vec![root];
    });
    assert_eq!(narrow.changes().await, Vec::<String>::new());
    narrow.undo(&id).await.refused("there is no change");
    assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    // The other way round it does.
    narrow.replace(&path, "new", "newer").await;
    wide.undo("last").await.ok();
    assert_eq!(fs::read_to_string(&path).unwrap(), "new");
}

#[tokio::test]
async fn without_a_state_folder_it_says_so() {
    let bench = Bench::open();
    bench
        .call("file_history", json!({}))
        .await
        .refused("keeps no history");
    let inside = Bench::with(|settings, folder| {
        settings.roots = vec![folder.join("root")];
        settings.state_dir = Some(folder.join("root/state"));
    });
    inside
        .call("file_history", json!({}))
        .await
        .refused("keeps no history");
}
