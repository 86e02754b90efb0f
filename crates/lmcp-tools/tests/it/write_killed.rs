//! Killed in the middle of a write: the file is the old one or the new one.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    process::{Command, Stdio},
};

use crate::writing::{Bench, leftovers};
use serde_json::json;

const CHILD: &str = "LMCP_TEST_WRITES_TO";

fn version(n: usize) -> String {
    format!("version {n}\n").repeat(60_000 + n)
}

/// Not a test of its own: what the next one starts and kills.
#[test]
fn child_that_writes_until_it_is_killed() {
    let Some(path) = std::env::var_os(CHILD) else {
        return;
    };
    let bench = Bench::open();
    let path = path.into_string().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        for n in 0.. {
            bench
                .call(
                    "write_file",
                    json!({ "path": path, "content": version(n % 2) }),
                )
                .await
                .ok();
            if n == 0 {
                std::io::stdout().write_all(b"\nbegun\n").unwrap();
            }
        }
    });
}

#[test]
fn killed_while_writing_it_leaves_one_version_or_the_other() {
    let bench = Bench::open();
    let path = bench.file("file", version(0));
    let folder = path.parent().unwrap();
    let versions = [version(0), version(1)];
    for round in 0..50_usize {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "write_killed::child_that_writes_until_it_is_killed",
                "--nocapture",
            ])
            .env(CHILD, &path)
            .env("TMPDIR", bench.outside(""))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap() == "begun"));
        if round % 2 == 0 {
            // In the middle of a write: there is a draft.
            let begun = leftovers(folder).len();
            let _ = (0..100_000).find(|_| leftovers(folder).len() != begun);
        } else {
            // A reader too sees nothing else, however often the file changes under it.
            let (mut last, mut changes) = (String::new(), 0);
            while changes < 2 + round % 3 {
                let now = fs::read_to_string(&path).unwrap();
                assert!(
                    versions.contains(&now),
                    "round {round}: {} bytes",
                    now.len()
                );
                changes += usize::from(now != last);
                last = now;
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let now = fs::read_to_string(&path).unwrap();
        assert!(
            versions.contains(&now),
            "round {round}: {} bytes",
            now.len()
        );
    }
    // Some were killed in the middle, and nothing but drafts is left of them.
    let left = leftovers(folder).len();
    assert!(left > 0);
    assert_eq!(fs::read_dir(folder).unwrap().count(), 1 + left);
}
