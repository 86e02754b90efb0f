//! One file, several writers: servers wait for each other, and notice those who wait for nobody.

use std::{fs, sync::Barrier, thread};

use crate::writing::{Bench, leftovers};
use serde_json::json;

/// Something that runs a future to its end.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    runtime.block_on(future)
}

#[test]
fn edits_and_appends_of_several_servers_are_all_there() {
    let benches = [Bench::open(), Bench::open()];
    let path = benches[0].file("file", "left: 0\nright: 0\n");
    let path = path.as_path();
    thread::scope(|scope| {
        for (bench, name) in benches.iter().zip(["left", "right"]) {
            scope.spawn(move || {
                block_on(async {
                    for n in 0..100 {
                        let [old, new] = [n, n + 1].map(|n| format!("{name}: {n}\n"));
                        let edit = json!({ "path": path, "old_string": old, "new_string": new });
                        bench.call("edit_file", edit).await.ok();
                        let line = format!("{name} {n}\n");
                        let add = json!({ "path": path, "content": line, "mode": "append" });
                        bench.call("write_file", add).await.ok();
                    }
                });
            });
        }
    });
    let content = fs::read_to_string(path).unwrap();
    assert!(content.starts_with("left: 100\nright: 100\n"), "{content}");
    for name in ["left", "right"] {
        let own: Vec<_> = content
            .lines()
            .filter(|line| line.starts_with(&format!("{name} ")))
            .collect();
        let expected: Vec<_> = (0..100).map(|n| format!("{name} {n}")).collect();
        assert_eq!(own, expected);
    }
}

#[test]
fn edits_of_several_files_in_any_order_do_not_wait_for_each_other_for_ever() {
    let benches = [Bench::open(), Bench::open()];
    let [a, b] = ["a", "b"].map(|name| benches[0].file(name, "x 0\ny 0\n"));
    let orders = [([&a, &b], "x"), ([&b, &a], "y")];
    thread::scope(|scope| {
        for (bench, (paths, name)) in benches.iter().zip(orders) {
            scope.spawn(move || {
                block_on(async {
                    for n in 0..100 {
                        let [old, new] = [n, n + 1].map(|n| format!("{name} {n}\n"));
                        let edits = paths.map(
                            |path| json!({ "path": path, "old_string": old, "new_string": new }),
                        );
                        bench
                            .call("edit_file", json!({ "edits": edits }))
                            .await
                            .ok();
                    }
                });
            });
        }
    });
    for path in [&a, &b] {
        assert_eq!(fs::read_to_string(path).unwrap(), "x 100\ny 100\n");
    }
    assert_eq!(leftovers(a.parent().unwrap()), Vec::<String>::new());
}

#[test]
fn a_file_that_is_replaced_by_somebody_without_a_lock_stays_theirs() {
    let bench = Bench::open();
    let version = |n: usize| format!("version {n}\nmark\n{}", "line\n".repeat(1000));
    let path = bench.file("file", version(0));
    let barrier = Barrier::new(2);
    for n in 1..=300 {
        thread::scope(|scope| {
            scope.spawn(|| {
                let draft = bench.file("theirs", version(n));
                barrier.wait();
                // A little later each time: before, during and after the edit.
                for _ in 0..n {
                    thread::yield_now();
                }
                fs::rename(draft, &path).unwrap();
            });
            let edit = json!({ "path": path, "old_string": "mark", "new_string": "edited mark" });
            barrier.wait();
            block_on(bench.call("edit_file", edit)).ok();
        });
        let content = fs::read_to_string(&path).unwrap();
        let edited = version(n).replace("mark", "edited mark");
        assert!(content == version(n) || content == edited, "{content}");
    }
}
