//! `file_history`: what was changed can be seen and taken back, by whoever changed it.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use crate::{
    write::Sealed,
    writing::{Bench, Called},
};
use lmcp_core::{Caller, CallerTransport};
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
async fn an_undo_tells_what_is_to_be_known_about_how_it_was_written() {
    let bench = bench();
    let folder = bench.path("folder");
    fs::create_dir(&folder).unwrap();
    let path = bench.file("folder/file", "old");
    bench.replace(&path, "old", "new").await;
    let Some(_sealed) = Sealed::new(&folder) else {
        return;
    };
    let undone = bench.undo("last").await.ok();
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    let text = undone.text;
    assert!(text.contains("note: written in place"), "{text}");
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
    // A file for each would cost as much as the change itself.
    assert!(fs::read_dir(&folder).unwrap().count() <= 12);
    for entry in fs::read_dir(&folder).unwrap() {
        let mode = entry.unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    // One that is larger than a fourth of all is not kept.
    bench.write(&path, &"x".repeat(30_000), json!({})).await;
    bench.undo("last").await.refused("changed since");
}

#[tokio::test]
async fn a_history_belongs_to_its_caller() {
    let bench = bench();
    let path = bench.file("file", "old");
    bench.replace(&path, "old", "new").await;
    let id = bench.changes().await.remove(0);
    let other = Caller::new(CallerTransport::Memory).known_as("other");
    let other = bench.client.clone().caller(other);
    for (arguments, words) in [
        (json!({}), "No changes are kept."),
        (json!({ "undo": id }), "there is no change"),
    ] {
        let told = other.call_tool("file_history", arguments).await.unwrap();
        let text = told.content[0].as_text().unwrap();
        assert!(text.contains(words), "{text}");
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), "new");
}

#[tokio::test]
async fn a_change_that_is_too_large_to_be_undone_says_so() {
    const NOTE: &str = "file_history cannot undo it";
    let bench = Bench::with(|settings, folder| {
        settings.state_dir = Some(folder.join("outside"));
        settings.change_bytes_kept = 100_000;
    });
    let path = bench.file("file", "old\n");
    let long = "x".repeat(30_000);
    let small = json!({ "path": path, "old_string": "old", "new_string": "new" });
    let edited = bench.call("edit_file", small).await.ok();
    assert!(!edited.text.contains(NOTE), "{}", edited.text);
    let large = json!({ "path": path, "old_string": "new", "new_string": long });
    let edited = bench.call("edit_file", large).await.ok();
    assert!(edited.text.contains(NOTE), "{}", edited.text);
    // The old content is too large, and the next one as well.
    for content in ["short", &*long] {
        let args = json!({ "path": path, "content": content });
        let written = bench.call("write_file", args).await.ok();
        assert!(written.text.contains(NOTE), "{}", written.text);
    }
}

#[tokio::test]
async fn the_changes_of_one_call_are_listed_as_they_were_made() {
    let bench = bench();
    let names: Vec<_> = (0..20).map(|n| format!("file{n:02}")).collect();
    let edits: Vec<_> = names
        .iter()
        .map(|name| json!({ "path": bench.file(name, "old"), "old_string": "old", "new_string": "new" }))
        .collect();
    bench
        .call("edit_file", json!({ "edits": edits }))
        .await
        .ok();
    let listed = bench.call("file_history", json!({})).await.ok();
    let changes = listed.value["changes"].as_array().unwrap();
    let paths = changes.iter().rev().map(|change| &change["path"]);
    let expected = names.iter().map(|name| json!(bench.path(name)));
    assert!(paths.eq(expected.collect::<Vec<_>>().iter()));
}

#[tokio::test]
async fn a_change_is_kept_where_another_server_forgets_all_before_it() {
    let bench = bench();
    let path = bench.file("file", "0");
    let state = bench.outside("");
    let forgetful = Bench::with(|settings, _| {
        settings.state_dir = Some(state.clone());
        settings.changes_kept = 1;
    });
    for n in 0..30 {
        bench
            .replace(&path, &n.to_string(), &(n + 1).to_string())
            .await;
        // That makes it forget the others, or even the folder that they were in.
        let other = forgetful.path("file");
        forgetful.write(&other, &n.to_string(), json!({})).await;
        assert_eq!(forgetful.changes().await.len(), 1);
        let last = json!({ "path": path, "old_string": (n + 1).to_string(), "new_string": "last" });
        bench.call("edit_file", last).await.ok();
        bench
            .call("file_history", json!({ "path": path, "undo": "last" }))
            .await
            .ok();
        assert_eq!(fs::read_to_string(&path).unwrap(), (n + 1).to_string());
    }
}

#[tokio::test]
async fn what_was_not_written_whole_hides_nothing() {
    let bench = bench();
    let path = bench.file("file", "one");
    bench.replace(&path, "one", "two").await;
    bench.replace(&path, "two", "three").await;
    let logs = || fs::read_dir(bench.outside("history")).unwrap();
    let log = logs().next().unwrap().unwrap().path();
    assert_eq!(logs().count(), 1);
    // As a full disk leaves it, or a crash.
    let whole = fs::read(&log).unwrap();
    fs::write(&log, &whole[..whole.len() - 1]).unwrap();
    assert_eq!(bench.changes().await.len(), 1);
    let other = Bench::with(|settings, _| settings.state_dir = Some(bench.outside("")));
    other.replace(&path, "three", "four").await;
    assert_eq!(other.changes().await.len(), 2);
    other.undo("last").await.ok();
    assert_eq!(fs::read_to_string(&path).unwrap(), "three");
    // And a file with one change, whose name is its id, as they were kept before.
    let whole = String::from_utf8(whole).unwrap();
    let (head, rest) = whole.split_once('\n').unwrap();
    let mut head: Value = serde_json::from_str(head).unwrap();
    let id = head.as_object_mut().unwrap().remove("id").unwrap();
    fs::remove_file(&log).unwrap();
    fs::write(
        log.with_file_name(id.as_str().unwrap()),
        format!("{head}\n{}", &rest[..rest.find('{').unwrap()]),
    )
    .unwrap();
    fs::write(&path, "two").unwrap();
    other.undo(id.as_str().unwrap()).await.ok();
    assert_eq!(fs::read_to_string(&path).unwrap(), "one");
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
async fn a_server_that_may_do_less_erases_nothing_of_it() {
    let wide = Bench::with(|settings, folder| {
        settings.state_dir = Some(folder.join("outside"));
        settings.changes_kept = 10;
        settings.change_bytes_kept = 40_000;
    });
    let path = wide.file("file", "0");
    for n in 0..10 {
        wide.replace(&path, &n.to_string(), &(n + 1).to_string())
            .await;
    }
    let kept = wide.changes().await;
    let (state, root) = (wide.outside(""), wide.path("root"));
    fs::create_dir(&root).unwrap();
    let narrow = Bench::with(|settings, _| {
        settings.state_dir = Some(state.clone());
        settings.roots = vec![root.clone()];
        settings.changes_kept = 10;
        settings.change_bytes_kept = 40_000;
    });
    for size in [1, 9000] {
        for n in 0..40 {
            let content = format!("{n}").repeat(size);
            narrow.write(&root.join("flood"), &content, json!({})).await;
        }
        assert!(!narrow.changes().await.is_empty());
    }
    // The wide server itself counts both. What it removes then is of the one that has most.
    let left = wide.changes().await;
    assert!(left.contains(&kept[0]), "{left:?}");
    wide.undo(&kept[0]).await.ok();
    assert_eq!(fs::read_to_string(&path).unwrap(), "9");
}

#[tokio::test]
async fn changes_outside_of_the_roots_are_not_shown() {
    let before = bench();
    let (state, root) = (before.outside(""), before.path("root"));
    fs::create_dir(&root).unwrap();
    let server = |root: &Path| {
        let (state, root) = (state.clone(), root.to_owned());
        Bench::with(|settings, _| {
            settings.state_dir = Some(state);
            settings.roots = vec![root];
        })
    };
    let first = server(&root);
    first.write(&root.join("file"), "old", json!({})).await;
    let id = first.changes().await.pop().unwrap();
    // The same folder, by another name: there are no files any more at the paths that were changed.
    let moved = before.path("moved");
    fs::rename(&root, &moved).unwrap();
    let second = server(&moved);
    assert_eq!(second.changes().await, Vec::<String>::new());
    second.undo(&id).await.refused("there is no change");
    fs::rename(&moved, &root).unwrap();
    assert_eq!(server(&root).changes().await, [id]);
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
    let none = Bench::with(|settings, folder| {
        settings.state_dir = Some(folder.join("outside"));
        settings.changes_kept = 0;
    });
    none.write(&none.path("file"), "new", json!({})).await;
    none.call("file_history", json!({}))
        .await
        .refused("keeps no history");
    assert!(!none.outside("history").exists());
}
