//! `edit_file` as a client sees it, on real files.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
};

use crate::writing::{Bench, Called, leftovers};
use serde_json::{Value, json};

impl Bench {
    /// One edit of one file.
    async fn edit(&self, path: &std::path::Path, old: &str, new: &str, more: Value) -> Called {
        let mut arguments = json!({ "path": path, "old_string": old, "new_string": new });
        arguments
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        self.call("edit_file", arguments).await
    }
}

#[tokio::test]
async fn a_text_that_occurs_once_is_replaced_and_the_result_tells_the_change() {
    let bench = Bench::open();
    let path = bench.file("file", "one\ntwo\nthree\n");
    let done = bench.edit(&path, "two", "2", json!({})).await.ok();
    assert_eq!(fs::read_to_string(&path).unwrap(), "one\n2\nthree\n");
    let file = &done.value["files"][0];
    assert_eq!(file["path"], path.to_str().unwrap());
    assert_eq!(file["replacements"], 1);
    assert_eq!(file["matched"], "exact");
    assert_eq!(done.value["dry_run"], false);
    let diff = file["diff"].as_str().unwrap();
    assert!(
        diff.contains("@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"),
        "{diff}"
    );
    let hash = file["hash"].as_str().unwrap();
    let told = format!("{}: changed line 2, hash {hash}", path.display());
    assert_eq!(done.text, told);
    let again = bench
        .edit(&path, "2", "zwei", json!({ "if_hash": hash }))
        .await
        .ok();
    bench
        .edit(&path, "zwei", "deux", json!({ "if_hash": hash }))
        .await
        .refused("has changed");
    assert_eq!(fs::read_to_string(&path).unwrap(), "one\nzwei\nthree\n");
    assert_ne!(again.value["files"][0]["hash"], hash);
}

#[tokio::test]
async fn mistakes_are_errors_and_leave_the_file_alone() {
    let bench = Bench::open();
    let path = bench.file("file", "aaaa b");
    let before = fs::metadata(&path).unwrap().ino();
    bench
        .edit(&path, "", "x", json!({}))
        .await
        .refused("`old_string` is missing");
    bench
        .edit(&path, "b", "b", json!({}))
        .await
        .refused("is the same");
    bench
        .edit(&path, "nowhere to be seen", "x", json!({}))
        .await
        .refused("is not in");
    bench
        .edit(&path, "aa", "x", json!({}))
        .await
        .refused("occurs 2 times");
    bench
        .edit(&bench.path("missing"), "a", "x", json!({}))
        .await
        .refused("does not exist");
    bench
        .edit(&bench.path(""), "a", "x", json!({}))
        .await
        .refused("is a folder");
    bench
        .call("edit_file", json!({ "path": path, "old_string": "b" }))
        .await
        .refused("missing");
    bench
        .call("edit_file", json!({ "old_string": "b", "new_string": "c" }))
        .await
        .refused("`path`");
    bench
        .call("edit_file", json!({ "path": path, "edits": [] }))
        .await
        .refused("`old_string` is missing");
    assert_eq!(fs::metadata(&path).unwrap().ino(), before);
    assert!(leftovers(path.parent().unwrap()).is_empty());
}

#[tokio::test]
async fn several_matches_are_listed_and_none_is_chosen() {
    let bench = Bench::open();
    let path = bench.file("file", "let x = 1;\nlet y = 2;\n  let x = 1; // again\n");
    let told = bench
        .edit(&path, "let x = 1;", "let x = 3;", json!({}))
        .await
        .refused("occurs 2 times");
    assert!(
        told.contains("line 1: let x = 1;\nline 3:   let x = 1; // again"),
        "{told}"
    );
    bench
        .edit(
            &path,
            "let x = 1;",
            "let x = 3;",
            json!({ "expected_count": 3 }),
        )
        .await
        .refused("not 3");
    bench
        .edit(
            &path,
            "let x = 1;",
            "let x = 3;",
            json!({ "expected_count": 2 }),
        )
        .await
        .ok();
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        "let x = 3;\nlet y = 2;\n  let x = 3; // again\n"
    );
    let all = bench
        .edit(&path, "let ", "const ", json!({ "replace_all": true }))
        .await
        .ok();
    assert_eq!(all.value["files"][0]["replacements"], 3);
}

#[tokio::test]
async fn line_endings_need_not_be_known_and_are_kept_line_by_line() {
    let bench = Bench::open();
    let path = bench.file("file", "a\r\nb\r\nc\nd\r\n");
    let done = bench
        .edit(&path, "b\nc\n", "B\nC\nE\n", json!({}))
        .await
        .ok();
    assert_eq!(fs::read_to_string(&path).unwrap(), "a\r\nB\r\nC\nE\nd\r\n");
    assert_eq!(done.value["files"][0]["matched"], "line_endings");
    bench.edit(&path, "d", "d\nlast", json!({})).await.ok();
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        "a\r\nB\r\nC\nE\nd\r\nlast\r\n"
    );
}

#[tokio::test]
async fn a_byte_order_mark_stays() {
    let bench = Bench::open();
    let path = bench.file("file", "\u{feff}first\nsecond");
    bench.edit(&path, "first\n", "1\n", json!({})).await.ok();
    assert_eq!(fs::read_to_string(&path).unwrap(), "\u{feff}1\nsecond");
    bench
        .edit(
            &path,
            "1  \nsecond",
            "one\nsecond",
            json!({ "fuzzy": true }),
        )
        .await
        .ok();
    assert_eq!(fs::read_to_string(&path).unwrap(), "\u{feff}one\nsecond");
}

#[tokio::test]
async fn without_fuzzy_blanks_matter_and_the_error_says_what_would_match() {
    let bench = Bench::open();
    let content = "fn main() {  \n    let x = 1;\n}\n";
    let path = bench.file("file", content);
    let old = "fn main() {\n    let x = 1;\n";
    let told = bench
        .edit(&path, old, "fn main() {\n    let x = 2;\n", json!({}))
        .await
        .refused("is not in");
    assert!(
        told.contains("`fuzzy: true`") && told.contains("line 1"),
        "{told}"
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), content);
    let done = bench
        .edit(
            &path,
            old,
            "fn main() {\n    let x = 2;\n",
            json!({ "fuzzy": true }),
        )
        .await
        .ok();
    assert_eq!(done.value["files"][0]["matched"], "trailing_blanks");
    // The line that is only quoted keeps its blanks.
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        "fn main() {  \n    let x = 2;\n}\n"
    );
}

#[tokio::test]
async fn fuzzy_indentation_puts_new_lines_where_they_belong() {
    let bench = Bench::open();
    let path = bench.file(
        "file",
        "class A:\n\tdef f(self):\n\t\treturn 1\n\n\tdef g(self):\n\t\treturn 2\n",
    );
    let new = "def f(self):\n    if self.x:\n        return 3\n    return 1\n";
    let done = bench
        .edit(
            &path,
            "def f(self):\n    return 1\n",
            new,
            json!({ "fuzzy": true }),
        )
        .await
        .ok();
    assert_eq!(done.value["files"][0]["matched"], "indentation");
    assert!(done.text.contains("indentation"), "{}", done.text);
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        "class A:\n\tdef f(self):\n\t\tif self.x:\n\t\t\treturn 3\n\t\treturn 1\n\n\tdef g(self):\n\t\treturn 2\n"
    );
}

#[tokio::test]
async fn fuzzy_too_takes_no_first_of_many() {
    let bench = Bench::open();
    let content = "  a();\n  b();\n\n    a();\n    b();\n";
    let path = bench.file("file", content);
    bench
        .edit(&path, "a();\nb();\n", "c();\n", json!({ "fuzzy": true }))
        .await
        .refused("occurs 2 times");
    assert_eq!(fs::read_to_string(&path).unwrap(), content);
}

#[tokio::test]
async fn fuzzy_replace_all_ends_even_if_the_new_text_matches_again() {
    let bench = Bench::open();
    let path = bench.file("file", "  a();\n x\n    a();\nend\n\n");
    let done = bench
        .edit(
            &path,
            "\ta();\n",
            "\ta();\n\ta();\n",
            json!({ "fuzzy": true, "replace_all": true }),
        )
        .await
        .ok();
    assert_eq!(done.value["files"][0]["replacements"], 2);
    // And the breaks at the end of the file are still there.
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        "  a();\n  a();\n x\n    a();\n    a();\nend\n\n"
    );
}

#[tokio::test]
async fn a_miss_tells_the_nearest_places_and_how_they_differ() {
    let bench = Bench::open();
    let mut lines: Vec<String> = (0..300)
        .map(|n| format!("entry number {n} of a long list"))
        .collect();
    lines[120] = "pub fn compute_total(items: &[Item]) -> u64 {".into();
    let path = bench.file("file", lines.join("\n"));
    let told = bench
        .edit(
            &path,
            "pub fn compute_totals(items: &[Item]) -> u32 {",
            "x",
            json!({}),
        )
        .await
        .refused("is not in");
    assert!(told.contains("line 121, 9"), "{told}");
    assert!(told.contains("compute_total{-s-}("), "{told}");
    assert!(told.contains("{-32-}{+64+}"), "{told}");
    let told = bench
        .edit(&path, "entry number 1000 of a long list", "x", json!({}))
        .await
        .refused("is not in");
    assert_eq!(told.matches("% similar").count(), 3, "{told}");
}

#[tokio::test]
async fn a_miss_in_a_large_file_is_bounded_in_what_it_says() {
    let bench = Bench::open();
    let one_line = bench.file("one_line", "{\"key\": \"value\"},".repeat(60_000));
    let many = bench.file(
        "many",
        "the quick brown fox jumps over the lazy dog\n".repeat(25_000),
    );
    for path in [one_line, many] {
        let old = "the quick brown {\"key\": \"vlaue\"} fox\n".repeat(400);
        let told = bench
            .edit(&path, &old, "x", json!({}))
            .await
            .refused("is not in");
        assert!(told.len() < 8000, "{} bytes", told.len());
    }
}

#[tokio::test]
async fn a_dry_run_tells_the_same_and_writes_nothing() {
    let bench = Bench::open();
    let path = bench.file("file", "a\nb\n");
    let dry = bench
        .edit(&path, "b", "c", json!({ "dry_run": true }))
        .await
        .ok();
    assert_eq!(fs::read_to_string(&path).unwrap(), "a\nb\n");
    assert_eq!(dry.value["dry_run"], true);
    assert!(
        dry.text.contains(": would change line 2\n@@ "),
        "{}",
        dry.text
    );
    let wet = bench.edit(&path, "b", "c", json!({})).await.ok();
    assert_eq!(dry.value["files"], wet.value["files"]);
}

#[tokio::test]
async fn edits_work_on_the_result_of_those_before() {
    let bench = Bench::open();
    let path = bench.file("file", "one");
    let edits = json!([{ "old_string": "one", "new_string": "two two" }, { "old_string": "two", "new_string": "3", "replace_all": true }]);
    let done = bench
        .call("edit_file", json!({ "path": path, "edits": edits }))
        .await
        .ok();
    assert_eq!(fs::read_to_string(&path).unwrap(), "3 3");
    assert_eq!(done.value["files"][0]["replacements"], 3);
    let edits = json!([{ "old_string": "3 3", "new_string": "4" }, { "old_string": "5", "new_string": "6" }]);
    bench
        .call("edit_file", json!({ "path": path, "edits": edits }))
        .await
        .refused("edit 2 of 2");
    assert_eq!(fs::read_to_string(&path).unwrap(), "3 3");
}

#[tokio::test]
async fn several_files_change_together_or_not_at_all() {
    for bench in [Bench::open(), Bench::confined()] {
        let (a, b) = (bench.file("a", "one"), bench.file("b", "one"));
        fs::set_permissions(&a, fs::Permissions::from_mode(0o640)).unwrap();
        symlink("b", bench.path("link")).unwrap();
        let edit = |path: &std::path::Path, old: &str, new: &str| json!({ "path": path, "old_string": old, "new_string": new });
        let edits = json!([
            edit(&a, "one", "1"),
            edit(&b, "one", "1"),
            edit(&bench.path("link"), "1", "2")
        ]);
        let done = bench
            .call("edit_file", json!({ "edits": edits }))
            .await
            .ok();
        assert_eq!(done.value["files"].as_array().unwrap().len(), 2);
        assert_eq!(fs::read_to_string(&a).unwrap(), "1");
        assert_eq!(fs::read_to_string(&b).unwrap(), "2");
        assert_eq!(fs::metadata(&a).unwrap().mode() & 0o777, 0o640);
        let edits = json!([edit(&a, "1", "x"), edit(&b, "nowhere", "x")]);
        bench
            .call("edit_file", json!({ "edits": edits }))
            .await
            .refused("is not in");
        let mut stale = edit(&b, "2", "x");
        stale["if_hash"] = "00".into();
        bench
            .call("edit_file", json!({ "edits": [edit(&a, "1", "x"), stale] }))
            .await
            .refused("has changed");
        assert_eq!(fs::read_to_string(&a).unwrap(), "1");
        assert_eq!(fs::read_to_string(&b).unwrap(), "2");
        assert!(leftovers(a.parent().unwrap()).is_empty());
    }
}

#[tokio::test]
async fn files_that_changed_are_changed_back_if_a_later_one_cannot() {
    let bench = Bench::open();
    let (a, b) = (bench.file("a", "one"), bench.file("b", "one"));
    let file = fs::File::open(&b).unwrap();
    // An immutable file can be read, and lies in a folder that takes drafts, but cannot be replaced.
    let sealed = rustix::fs::ioctl_getflags(&file)
        .and_then(|flags| rustix::fs::ioctl_setflags(&file, flags | rustix::fs::IFlags::IMMUTABLE));
    if sealed.is_err() {
        return;
    }
    let edits: Vec<_> = [&a, &b]
        .map(|path| json!({ "path": path, "old_string": "one", "new_string": "1" }))
        .into();
    let called = bench.call("edit_file", json!({ "edits": edits })).await;
    let flags = rustix::fs::ioctl_getflags(&file).unwrap();
    rustix::fs::ioctl_setflags(&file, flags - rustix::fs::IFlags::IMMUTABLE).unwrap();
    called.refused("cannot write");
    assert_eq!(fs::read_to_string(&a).unwrap(), "one");
    assert_eq!(fs::read_to_string(&b).unwrap(), "one");
    assert!(leftovers(a.parent().unwrap()).is_empty());
}

#[tokio::test]
async fn mode_and_link_are_kept() {
    let bench = Bench::open();
    let path = bench.file("script", "#!/bin/sh\necho one\n");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
    symlink("script", bench.path("link")).unwrap();
    bench
        .edit(&bench.path("link"), "one", "two", json!({}))
        .await
        .ok();
    assert!(
        fs::symlink_metadata(bench.path("link"))
            .unwrap()
            .is_symlink()
    );
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o750);
    assert_eq!(fs::read_to_string(&path).unwrap(), "#!/bin/sh\necho two\n");
}

#[tokio::test]
async fn parallel_edits_of_one_file_are_all_there() {
    let bench = Bench::open();
    let path = bench.file("file", "A\r\nB\n");
    symlink("file", bench.path("link")).unwrap();
    let editor = async |path: std::path::PathBuf, mark: &str| {
        for n in 0..500 {
            bench
                .edit(
                    &path,
                    &format!("{mark}\n"),
                    &format!("{mark}{n}\n{mark}\n"),
                    json!({}),
                )
                .await
                .ok();
        }
    };
    tokio::join!(editor(path.clone(), "A"), editor(bench.path("link"), "B"));
    let text = fs::read_to_string(&path).unwrap();
    for (mark, end) in [("A", "\r\n"), ("B", "\n")] {
        let expected: String = (0..500).map(|n| format!("{mark}{n}{end}")).collect();
        assert!(
            text.contains(&format!("{expected}{mark}{end}")),
            "an edit of {mark} was lost"
        );
    }
    assert!(leftovers(path.parent().unwrap()).is_empty());
}

#[tokio::test]
async fn edits_of_the_same_files_in_other_order_do_not_wait_for_each_other_for_ever() {
    let bench = Bench::open();
    let paths: Vec<_> = (0..8).map(|n| bench.file(&format!("{n}"), "x")).collect();
    let editor = async |order: Vec<&std::path::PathBuf>, text: &str| {
        for _ in 0..20 {
            let edits: Vec<_> = order
                .iter()
                .map(|path| json!({ "path": path, "old_string": "x", "new_string": text }))
                .collect();
            bench
                .call("edit_file", json!({ "edits": edits }))
                .await
                .ok();
        }
    };
    tokio::join!(
        editor(paths.iter().collect(), "xa"),
        editor(paths.iter().rev().collect(), "xb")
    );
    for path in &paths {
        assert_eq!(fs::read_to_string(path).unwrap().len(), 41);
    }
}

#[tokio::test]
async fn a_diff_larger_than_the_room_is_cut_and_says_so() {
    let bench = Bench::open();
    let path = bench.file("file", "x\n");
    let done = bench
        .edit(&path, "x", &"line\n".repeat(20_000), json!({}))
        .await
        .ok();
    let file = &done.value["files"][0];
    assert_eq!(file["diff_truncated"], true);
    assert!(file["diff"].as_str().unwrap().len() <= 24 * 1024);
    assert!(done.text.contains(": changed lines 1-20001, hash "));
    let dry = json!({ "dry_run": true });
    let long = "line\n".repeat(30_000);
    let done = bench.edit(&path, "line\n\n", &long, dry).await.ok();
    assert!(done.text.contains("the diff goes on"));
}

#[tokio::test]
async fn a_text_in_several_places_is_told_with_the_lines_it_was_in() {
    let bench = Bench::open();
    let path = bench.file("file", "let a = old();\nlet b = 1;\nreturn old(b);\n");
    let all = json!({ "replace_all": true });
    let done = bench.edit(&path, "old", "new", all.clone()).await.ok();
    assert!(
        done.text
            .contains(": changed lines 1, 3 in 2 places, hash ")
    );
    assert!(done.text.contains("\n+return new(b);"), "{}", done.text);
    let path = bench.file("many", "x = old()\n\n\n".repeat(1000));
    let done = bench.edit(&path, "old", "new", all).await.ok();
    assert!(done.text.len() < 3000, "{} bytes", done.text.len());
    assert!(done.text.contains(" and 990 more in 1000 places"));
    assert!(done.text.ends_with("read_file shows the file)"));
}

#[tokio::test]
async fn lines_that_were_not_as_expected_are_shown() {
    let bench = Bench::open();
    let path = bench.file("file", "if x:\n\tone()\n\ttwo()\n");
    let fuzzy = json!({ "fuzzy": true });
    let done = bench
        .edit(&path, "  one()\n  two()", "  three()", fuzzy)
        .await;
    assert!(done.ok().text.ends_with("\n-\tone()\n-\ttwo()\n+\tthree()"));
}

#[tokio::test]
async fn a_new_text_without_carriage_returns_does_not_mix_line_endings() {
    let bench = Bench::open();
    let path = bench.file("file", "one\r\ntwo\r\nthree\r\n");
    bench
        .edit(&path, "two\r\n", "2a\n2b\n", json!({}))
        .await
        .ok();
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        "one\r\n2a\r\n2b\r\nthree\r\n"
    );
}

#[tokio::test]
async fn too_much_is_refused_with_what_to_do() {
    let bench = Bench::open();
    let path = bench.file("many", "x".repeat(100_001));
    let all = json!({ "replace_all": true });
    bench
        .edit(&path, "x", "y", all)
        .await
        .refused("make `old_string` longer");
    let path = bench.file("large", "x".repeat((32 << 20) + 1));
    bench
        .edit(&path, "x", "y", json!({}))
        .await
        .refused("a command such as sed");
}
