//! Writing below a root: nothing outside is ever written, whatever links say and whenever they say it.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, symlink},
    sync::atomic::{AtomicBool, Ordering},
};

use crate::writing::Bench;
use serde_json::json;

#[tokio::test]
async fn no_path_and_no_link_leads_out() {
    let bench = Bench::confined();
    fs::write(bench.outside("secret"), "secret").unwrap();
    symlink(bench.outside("secret"), bench.path("absolute")).unwrap();
    symlink("../outside/secret", bench.path("relative")).unwrap();
    symlink("../outside", bench.path("folder")).unwrap();
    symlink("../outside/new", bench.path("dangling")).unwrap();
    symlink("/proc/self/root/tmp", bench.path("magic")).unwrap();
    let paths = [
        "absolute",
        "relative",
        "folder/secret",
        "folder/new",
        "dangling",
        "../outside/secret",
        "../outside/new",
        "magic/new",
    ];
    for name in paths {
        for extra in [
            json!({}),
            json!({ "parents": true }),
            json!({ "mode": "append" }),
            json!({ "mode": "create" }),
        ] {
            let mut arguments = json!({ "path": bench.path(name), "content": "x" });
            arguments
                .as_object_mut()
                .unwrap()
                .extend(extra.as_object().unwrap().clone());
            let called = bench.call("write_file", arguments).await;
            assert!(called.failed, "{name}: {}", called.text);
        }
        let edit = json!({ "path": bench.path(name), "old_string": "secret", "new_string": "x" });
        assert!(bench.call("edit_file", edit).await.failed, "{name}");
    }
    bench
        .call(
            "write_file",
            json!({ "path": bench.outside("new"), "content": "x" }),
        )
        .await
        .refused("outside");
    bench
        .call(
            "write_file",
            json!({ "path": bench.path("folder/a/b"), "content": "x", "parents": true }),
        )
        .await
        .refused("outside");
    let names: Vec<_> = fs::read_dir(bench.outside(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["secret"]);
    assert_eq!(
        fs::read_to_string(bench.outside("secret")).unwrap(),
        "secret"
    );
}

/// Ends the other thread, also when this one fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn links_that_are_swapped_meanwhile_lead_nowhere_else() {
    let bench = Bench::confined();
    fs::create_dir(bench.path("inside")).unwrap();
    bench.file("inside/file", "word");
    fs::write(bench.outside("file"), "word").unwrap();
    symlink("inside", bench.path("folder")).unwrap();
    symlink("inside/file", bench.path("link")).unwrap();
    let (over, before) = (
        AtomicBool::new(false),
        fs::metadata(bench.outside("file")).unwrap(),
    );
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // The folder on the way and the file at its end, each now here and now there.
            let swap = |name: &str, to: &str| {
                let draft = bench.path("draft");
                symlink(to, &draft).unwrap();
                fs::rename(&draft, bench.path(name)).unwrap();
            };
            while !over.load(Ordering::Relaxed) {
                for side in ["inside", "../outside"] {
                    swap("folder", side);
                    swap("link", &format!("{side}/file"));
                }
            }
        });
        let _over = Over(&over);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            for n in 0..300 {
                for path in ["folder/file", "folder/new/er", "link"] {
                    let path = bench.path(path);
                    let write =
                        json!({ "path": path, "content": format!("word {n}"), "parents": true });
                    bench.call("write_file", write).await;
                    let edit = json!({ "path": path, "old_string": "word", "new_string": "words" });
                    bench.call("edit_file", edit).await;
                }
            }
        });
    });
    let after = fs::metadata(bench.outside("file")).unwrap();
    assert_eq!(
        (after.ino(), after.mtime(), after.mtime_nsec()),
        (before.ino(), before.mtime(), before.mtime_nsec())
    );
    assert_eq!(fs::read_to_string(bench.outside("file")).unwrap(), "word");
    assert_eq!(fs::read_dir(bench.outside("")).unwrap().count(), 1);
    assert!(fs::read_to_string(bench.path("inside/file")).unwrap().len() > "word".len());
}

#[tokio::test]
async fn a_file_with_other_names_is_refused_below_a_root_unless_allowed() {
    let refusing = Bench::confined();
    let allowing = Bench::with(|settings, folder| {
        settings.roots = vec![folder.join("root")];
        settings.allow_hard_links = true;
    });
    for (bench, allowed) in [(&refusing, false), (&allowing, true)] {
        fs::write(bench.outside("other"), "old").unwrap();
        let path = bench.path("file");
        fs::hard_link(bench.outside("other"), &path).unwrap();
        for arguments in [
            json!({ "path": path, "content": "new" }),
            json!({ "path": path, "content": "er", "mode": "append" }),
        ] {
            assert_eq!(bench.call("write_file", arguments).await.failed, !allowed);
        }
        // Even then the other name keeps what it had.
        assert_eq!(fs::read_to_string(bench.outside("other")).unwrap(), "old");
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            if allowed { "newer" } else { "old" }
        );
    }
}
