//! One file, several writers: servers wait for each other, and notice those who wait for nobody.

use std::{
    fs::{self, File},
    path::Path,
    sync::{Arc, Barrier},
    thread,
    time::Duration,
};

use rustix::fs::{FlockOperation, flock};
use serde_json::json;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use crate::writing::{Bench, leftovers};

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

/// Locks a file as other programs do, until the result is dropped.
fn locked(path: &Path) -> File {
    let file = File::open(path).unwrap();
    flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
    file
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_five_seconds_for_all_its_locked_files_together() {
    let bench = Bench::open();
    let paths = ["a", "b", "c"].map(|name| bench.file(name, "old"));
    let _locks = paths.each_ref().map(|path| locked(path));
    let edits = { paths.each_ref() }
        .map(|path| json!({ "path": path, "old_string": "old", "new_string": "new" }));
    let began = Instant::now();
    bench
        .call("edit_file", json!({ "edits": edits }))
        .await
        .ok();
    assert_eq!(began.elapsed().as_secs(), 5);
    for path in &paths {
        assert_eq!(fs::read_to_string(path).unwrap(), "new");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_a_locked_file_keeps_nobody_waiting_for_its_others() {
    let bench = Arc::new(Bench::open());
    let [a, b] = ["a", "b"].map(|name| bench.file(name, "old"));
    let lock = locked(&b);
    let mut waiting = JoinSet::new();
    // More calls than there are threads for steps that block.
    for _ in 0..20 {
        let bench = Arc::clone(&bench);
        let edits =
            [&a, &b].map(|path| json!({ "path": path, "old_string": "old", "new_string": "new" }));
        waiting.spawn(async move { bench.call("edit_file", json!({ "edits": edits })).await });
    }
    sleep(Duration::from_secs(1)).await;
    let write = json!({ "path": a, "content": "old, and written meanwhile" });
    bench.call("write_file", write).await.ok();
    let search = json!({ "pattern": "written meanwhile", "path": a });
    bench.call("search_files", search).await.ok();
    assert!(waiting.try_join_next().is_none());
    drop(lock);
    let done = waiting.join_all().await;
    assert_eq!(done.iter().filter(|done| !done.failed).count(), 1);
    assert_eq!(
        fs::read_to_string(&a).unwrap(),
        "new, and written meanwhile"
    );
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_waited_for_however_many_others_are() {
    let bench = Arc::new(Bench::open());
    let paths: Vec<_> = (0..40)
        .map(|number| bench.file(&number.to_string(), ""))
        .collect();
    let mut locks: Vec<_> = paths.iter().map(|path| locked(path)).collect();
    let mut waiting = JoinSet::new();
    for path in &paths {
        let (bench, write) = (
            Arc::clone(&bench),
            json!({ "path": path, "content": "new" }),
        );
        waiting.spawn(async move { bench.call("write_file", write).await });
    }
    sleep(Duration::from_secs(4)).await;
    assert!(waiting.try_join_next().is_none());
    let contents = || paths.iter().map(|path| fs::read_to_string(path).unwrap());
    assert!(contents().all(|content| content.is_empty()));
    // The last one goes on, and the others wait.
    locks.pop();
    waiting.join_next().await.unwrap().unwrap().ok();
    let written: Vec<_> = contents().collect();
    assert_eq!(written.concat(), "new");
    assert_eq!(written.last().unwrap(), "new");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_waits_no_longer_for_a_locked_file() {
    let bench = Bench::open();
    let path = bench.file("file", "old");
    let lock = locked(&path);
    let write = bench.call("write_file", json!({ "path": path, "content": "new" }));
    let cancelled = timeout(Duration::from_secs(1), write).await;
    assert!(cancelled.is_err());
    drop(lock);
    sleep(Duration::from_secs(10)).await;
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
}
