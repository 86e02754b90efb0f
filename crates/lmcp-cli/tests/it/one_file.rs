//! Two servers and two other programs change the same file at once, and are killed again and again. Every change that one of
//! them reported must be in the file, and no line may be torn.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    thread,
};

use serde_json::{Value, json};

use crate::support::{Running, lmcp};

/// Returns the number of changes of all four together. 10,000 are a heavy run, which CONTRIBUTING.md names.
fn changes() -> usize {
    let wanted = std::env::var("LMCP_TEST_CHANGES").ok();
    wanted.map_or(1000, |number| number.parse().unwrap())
}

#[test]
fn nothing_reported_is_missing_whoever_else_writes_and_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let names = ["first", "second", "rename"];
    let counters: String = names.map(|name| format!("{name}: 0\n")).concat();
    fs::write(&path, format!("{counters}appended:\n")).unwrap();
    let each = changes() / 4;
    let lines = thread::scope(|scope| {
        let path = &path;
        let servers = ["first", "second"].map(|name| scope.spawn(move || ours(path, name, each)));
        let others = ["rename", "append"].map(|kind| scope.spawn(move || theirs(path, kind, each)));
        let lines = servers.map(|thread| thread.join().unwrap());
        for thread in others {
            thread.join().unwrap();
        }
        lines
    });
    let content = fs::read_to_string(&path).unwrap();
    let (head, appended) = content.split_once("appended:\n").unwrap();
    let edits = each - each / 4;
    let expected = format!("first: {edits}\nsecond: {edits}\nrename: {each}\n");
    assert_eq!(head, expected);
    let mut appended: Vec<&str> = appended.lines().collect();
    assert!(content.ends_with('\n'));
    let mut expected: Vec<String> = lines.concat();
    expected.extend((1..=each).map(|number| format!("append line {number}")));
    appended.sort_unstable();
    expected.sort_unstable();
    assert_eq!(appended, expected);
}

/// Changes the file through a server: usually a counter, and every fourth time a line at the end. From time to time the
/// server is killed during a change; then the file shows whether the change was made, and the change was not reported.
fn ours(path: &Path, name: &str, each: usize) -> Vec<String> {
    let mut server = Server::start();
    let (mut count, mut lines) = (0, Vec::new());
    for turn in 1..=each {
        let appends = turn % 4 == 0;
        let (tool, arguments) = if appends {
            let line = format!("{name} line {turn}\n");
            (
                "write_file",
                json!({ "path": path, "content": line, "mode": "append" }),
            )
        } else {
            let [old, new] = [count, count + 1].map(|count| format!("{name}: {count}\n"));
            (
                "edit_file",
                json!({ "path": path, "old_string": old, "new_string": new }),
            )
        };
        let is_done = || {
            let content = fs::read_to_string(path).unwrap();
            let line = if appends {
                format!("{name} line {turn}\n")
            } else {
                format!("{name}: {}\n", count + 1)
            };
            match content.matches(&line).count() {
                0 => false,
                times => {
                    assert_eq!(times, 1, "{line} in {content}");
                    true
                }
            }
        };
        server.send(tool, &arguments);
        if turn % 20 < 2 {
            // Waits for a varying time during the change.
            for _ in 0..turn * 7919 % 4000 {
                thread::yield_now();
            }
            drop(server);
            server = Server::start();
            if !is_done() {
                server.send(tool, &arguments);
                server.expect_success();
            }
        } else {
            server.expect_success();
        }
        assert!(is_done(), "{name} {turn} was reported, and is missing");
        if appends {
            lines.push(format!("{name} line {turn}"));
        } else {
            count += 1;
        }
    }
    lines
}

/// Lets another program change the file, and kills it from time to time.
fn theirs(path: &Path, kind: &str, each: usize) {
    let mut next = 1;
    while next <= each {
        let numbers = [next, each + 1].map(|number| number.to_string());
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/one_file.py");
        let mut command = Command::new("python3");
        command.arg(program).arg(path).arg(kind).args(numbers);
        let mut child = Running(command.stdout(Stdio::piped()).spawn().unwrap());
        let mut told = BufReader::new(child.0.stdout.take().unwrap()).lines();
        let some = told.by_ref().take(60).count();
        // The program is killed, unless it has ended; its earlier reports count.
        child.0.kill().unwrap();
        child.0.wait().unwrap();
        let some = some + told.count();
        assert!(some > 0, "the other program failed");
        next += some;
        let content = fs::read_to_string(path).unwrap();
        let made = |number: usize| match kind {
            "append" => content.contains(&format!("append line {number}\n")),
            _ => content.contains(&format!("rename: {number}\n")),
        };
        assert!(
            kind == "append" || made(next) || made(next - 1),
            "{kind} {next} in {content}"
        );
        // A killed program may have made one change more than it reported.
        next += usize::from(made(next));
    }
}

/// A server of ours, which is killed when it is dropped.
struct Server {
    child: Running,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Server {
    fn start() -> Self {
        let mut command = lmcp(&["serve", "--stdio"]);
        let mut child: Child = command.stderr(Stdio::null()).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let child = Running(child);
        Self {
            child,
            input,
            output,
        }
    }

    fn send(&mut self, tool: &str, arguments: &Value) {
        let call = lmcp_testkit::call(1, tool, arguments);
        self.input
            .write_all(format!("{call}\n").as_bytes())
            .unwrap();
    }

    fn expect_success(&mut self) {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap();
        let result = &answer["result"];
        let alive = self.child.0.try_wait().unwrap().is_none();
        assert!(
            alive && result["content"].is_array() && result["isError"] != true,
            "{answer}"
        );
    }
}
