//! The same calls on this machine's own tools and over a shell give the same results, but for times, names of jobs and numbers
//! of processes.

use std::{fs, path::Path, process::Command};

use lmcp_core::{Handle, Server};
use lmcp_testkit::soon;
use lmcp_tools::{Helper, HostTools, Settings};
use serde_json::{Value, json};

use crate::support::{Far, text};

/// What may differ: times, numbers of processes, what only a guard can measure, and what only searching elsewhere counts.
const DIFFERENT: [&str; 13] = [
    "duration_ms",
    "cpu_ms",
    "peak_memory_bytes",
    "pid",
    "id",
    "started",
    "ended",
    "mtime",
    "output_bytes",
    "elapsed_ms",
    "searched_files",
    "searched_bytes",
    "skipped",
];

fn local(state: &Path) -> Handle {
    let guard = guard();
    let mut settings = Settings::default();
    settings.helper = Some(Helper::program(guard));
    settings.state_dir = Some(state.to_owned());
    let server = HostTools::new(settings)
        .unwrap()
        .add_to(Server::new("host", "0"));
    server.start().unwrap()
}

/// The program that guards commands, built if it is not there: it belongs to another crate.
fn guard() -> std::path::PathBuf {
    let own = std::env::current_exe().unwrap();
    let folder = own.parent().unwrap().parent().unwrap();
    let guard = folder.join("lmcp-guard");
    if !guard.exists() {
        let built = Command::new(env!("CARGO"))
            .args(["build", "-p", "lmcp-tools", "--bin", "lmcp-guard"])
            .status();
        assert!(built.unwrap().success());
    }
    guard
}

fn without_differences(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, _| !DIFFERENT.contains(&name.as_str()));
            members.values_mut().for_each(without_differences);
        }
        Value::Array(values) => values.iter_mut().for_each(without_differences),
        _ => {}
    }
}

/// A folder with a bit of everything.
fn tree(folder: &Path) {
    fs::create_dir_all(folder.join("src/deep")).unwrap();
    fs::write(
        folder.join("src/main.rs"),
        "fn main() {\n    println!(\"hello\");\n}\n",
    )
    .unwrap();
    fs::write(
        folder.join("src/deep/mod.rs"),
        "// hello again\nfn other() {}\n",
    )
    .unwrap();
    fs::write(folder.join("notes.txt"), "one\r\ntwo\r\nthree\r\n").unwrap();
    fs::write(folder.join("latin.txt"), b"caf\xe9 au lait, tr\xe8s bon\n").unwrap();
    fs::write(folder.join("binary"), [0, 1, 2, 255]).unwrap();
    fs::write(folder.join(".hidden"), "hello\n").unwrap();
    fs::write(folder.join(".gitignore"), "ignored\n").unwrap();
    fs::write(folder.join("ignored"), "hello\n").unwrap();
    std::os::unix::fs::symlink("notes.txt", folder.join("link")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        folder.join("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
}

fn calls() -> Vec<(&'static str, Value)> {
    let at = |path: &str| format!("TREE/{path}");
    vec![
        (
            "shell",
            json!({ "command": "echo out; echo err >&2; exit 3" }),
        ),
        (
            "shell",
            json!({ "command": "printf 'a\\033[1mb\\r\\n'", "cwd": "TREE" }),
        ),
        ("shell", json!({ "command": "kill -9 $$" })),
        (
            "shell",
            json!({ "command": "pwd; echo $A", "cwd": "TREE", "env": { "A": "b" } }),
        ),
        ("shell", json!({ "argv": ["cat"], "stdin": "typed" })),
        ("shell", json!({ "command": "sleep 100", "timeout": 1 })),
        ("shell", json!({ "command": " " })),
        ("shell", json!({ "command": "x", "argv": ["x"] })),
        ("shell", json!({ "command": "x", "cwd": at("none/x") })),
        ("shell", json!({ "command": "x", "cwd": at("notes.txt") })),
        ("shell", json!({ "command": "x", "timeout": 99999 })),
        ("read_file", json!({ "path": at("src/main.rs") })),
        (
            "read_file",
            json!({ "path": at("notes.txt"), "offset": 2, "limit": 1, "line_numbers": true }),
        ),
        (
            "read_file",
            json!({ "path": at("notes.txt"), "byte_offset": -5 }),
        ),
        ("read_file", json!({ "path": at("latin.txt") })),
        ("read_file", json!({ "path": at("binary") })),
        ("read_file", json!({ "path": at("binary"), "form": "hex" })),
        ("read_file", json!({ "path": at("fifo") })),
        ("read_file", json!({ "path": at("src") })),
        ("read_file", json!({ "path": at("src/none/x") })),
        ("read_file", json!({ "path": at("notes.txt/x") })),
        ("read_file", json!({ "path": at("link") })),
        (
            "read_file",
            json!({ "paths": [at("notes.txt"), at("none"), at("src/../notes.txt")] }),
        ),
        ("read_file", json!({})),
        ("list_dir", json!({ "path": "TREE" })),
        (
            "list_dir",
            json!({ "path": "TREE", "depth": 3, "hidden": true }),
        ),
        (
            "list_dir",
            json!({ "path": "TREE", "sort": "size", "limit": 3 }),
        ),
        ("list_dir", json!({ "path": at("notes.txt") })),
        ("list_dir", json!({ "path": at("none") })),
        (
            "search_files",
            json!({ "pattern": "hello", "path": "TREE" }),
        ),
        (
            "search_files",
            json!({ "pattern": "HEL+O", "path": "TREE", "case": "insensitive", "hidden": true, "context": 1 }),
        ),
        (
            "search_files",
            json!({ "pattern": "fn \\w+\\(\\)", "path": "TREE", "globs": ["*.rs"] }),
        ),
        (
            "search_files",
            json!({ "pattern": "main\\(.*\\n.*hello", "path": "TREE", "multiline": true }),
        ),
        (
            "search_files",
            json!({ "pattern": "*.rs", "path": "TREE", "mode": "names" }),
        ),
        (
            "search_files",
            json!({ "pattern": "hello", "path": at("src/main.rs"), "mode": "count" }),
        ),
        ("search_files", json!({ "pattern": "(", "path": "TREE" })),
        (
            "search_files",
            json!({ "pattern": "x", "path": at("none") }),
        ),
        (
            "edit_file",
            json!({ "path": at("src/main.rs"), "old_string": "hello", "new_string": "world", "dry_run": true }),
        ),
        (
            "edit_file",
            json!({ "path": at("src/main.rs"), "old_string": "helo", "new_string": "world" }),
        ),
        (
            "edit_file",
            json!({ "path": at("src/main.rs"), "old_string": "hello", "new_string": "world" }),
        ),
        (
            "edit_file",
            json!({ "path": at("notes.txt"), "old_string": "one\ntwo", "new_string": "1\n2" }),
        ),
        (
            "edit_file",
            json!({ "path": at("latin.txt"), "old_string": "café", "new_string": "thé" }),
        ),
        (
            "edit_file",
            json!({ "path": at("none"), "old_string": "a", "new_string": "b" }),
        ),
        (
            "edit_file",
            json!({ "path": at("src/deep/mod.rs"), "old_string": "fn  other", "new_string": "fn x", "fuzzy": true }),
        ),
        (
            "write_file",
            json!({ "path": at("new"), "content": "a\nb" }),
        ),
        (
            "write_file",
            json!({ "path": at("new"), "content": "c\n", "mode": "append" }),
        ),
        (
            "write_file",
            json!({ "path": at("new"), "content": "d", "mode": "create" }),
        ),
        (
            "write_file",
            json!({ "path": at("latin.txt"), "content": "é\n", "mode": "append" }),
        ),
        (
            "write_file",
            json!({ "path": at("none/x"), "content": "d" }),
        ),
        ("write_file", json!({ "path": at("src"), "content": "d" })),
        (
            "write_file",
            json!({ "path": at("new"), "content": "d", "if_hash": "nonsense" }),
        ),
        ("job_output", json!({ "id": "nosuchjob" })),
        ("job_stop", json!({ "id": "nosuchjob" })),
        ("jobs", json!({ "state": "lost" })),
        (
            "read_file",
            json!({ "paths": [at("src/main.rs"), at("notes.txt"), at("latin.txt"), at("new")] }),
        ),
    ]
}

fn placed(args: &Value, folder: &Path) -> Value {
    let text = args.to_string().replace("TREE", folder.to_str().unwrap());
    serde_json::from_str(&text).unwrap()
}

#[tokio::test]
async fn every_tool_answers_as_it_does_on_its_own_host() {
    let state = tempfile::tempdir().unwrap();
    let here = local(state.path());
    let far = Far::sh();
    let trees = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    trees.iter().for_each(|folder| tree(folder.path()));
    let client = here.client();
    let mut unlike = Vec::new();
    for (tool, args) in calls() {
        let mut results = Vec::new();
        for (client, folder) in [(&client, &trees[0]), (&far.client, &trees[1])] {
            let result = soon(client.call_tool(tool, placed(&args, folder.path()))).await;
            let (mut value, is_error, words) = match result {
                Ok(result) => (
                    result.structured_content.clone().unwrap_or_default(),
                    result.is_error,
                    text(&result),
                ),
                Err(err) => (Value::Null, true, err.to_string()),
            };
            without_differences(&mut value);
            let own = folder.path().to_str().unwrap();
            let value: Value =
                serde_json::from_str(&value.to_string().replace(own, "TREE")).unwrap();
            // Of what went well the value tells everything, and the text has times.
            let words = if is_error && value.is_null() {
                words.replace(own, "TREE")
            } else {
                String::new()
            };
            results.push((value, is_error, words));
        }
        if results[1] != results[0] {
            let [here, there] = [0, 1].map(|at: usize| format!("{:?}", results[at]));
            unlike.push(format!("{tool} {args}\n   here: {here}\n  there: {there}"));
        }
    }
    assert!(unlike.is_empty(), "{}", unlike.join("\n"));
}

#[tokio::test]
async fn the_tools_are_described_alike() {
    let state = tempfile::tempdir().unwrap();
    let here = local(state.path()).client().list_tools().await.unwrap();
    let far = Far::sh().client.list_tools().await.unwrap();
    assert_eq!(far.len(), 12);
    for tool in far {
        let own = here.iter().find(|own| own.name == tool.name).unwrap();
        assert_eq!(
            serde_json::to_value(&tool).unwrap(),
            serde_json::to_value(own).unwrap()
        );
    }
}
