//! The same calls with this machine's own tools and over a shell give the same results, except for times, names of jobs and
//! numbers of processes.

use std::{fs, path::Path, process::Command};

use lmcp_core::{Handle, Server};
use lmcp_testkit::soon;
use lmcp_tools::{Helper, HostTools, Settings};
use serde_json::Value;

use crate::support::{Far, text};

/// The members that may differ: times, numbers of processes, values that only a guard can measure, and counts that depend on
/// the kind of search.
const DIFFERENT: [&str; 16] = [
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
    "left_running",
    "restarted_as",
    "job",
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

/// Returns the program that guards commands, and builds it if it does not exist: it belongs to another crate.
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
            // Removes the name of a job and the link to its output; the report about a job stays.
            let is_link = |value: &Value| {
                value
                    .as_str()
                    .is_some_and(|text| text.starts_with("job://"))
            };
            members.retain(|name, value| {
                let is_told_of = name == "job" && value.is_object();
                let is_different = DIFFERENT.contains(&name.as_str()) && !is_told_of;
                !is_different && !is_link(value)
            });
            members.values_mut().for_each(without_differences);
        }
        Value::Array(values) => values.iter_mut().for_each(without_differences),
        _ => {}
    }
}

/// Makes a folder with files of every kind.
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

/// Each line holds a tool and its arguments; `TREE` is the folder, `JOB` the job that was started last. The tests of the
/// binary make the same calls through a hub, on every way to a host.
const CALLS: &str = include_str!("alike.txt");

fn placed(args: &str, folder: &Path, job: &str) -> Value {
    let text = args.replace("TREE", folder.to_str().unwrap());
    serde_json::from_str(&text.replace("JOB", job)).unwrap()
}

#[tokio::test]
async fn every_tool_answers_as_it_does_on_its_own_host() {
    let state = tempfile::tempdir().unwrap();
    let here = local(state.path());
    let far = Far::sh();
    let trees = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    trees.iter().for_each(|folder| tree(folder.path()));
    let client = here.client();
    let mut jobs = [String::new(), String::new()];
    let mut unlike = Vec::new();
    for (tool, args) in CALLS.lines().filter_map(|line| line.split_once(' ')) {
        let mut results = Vec::new();
        for (at, client) in [&client, &far.client].into_iter().enumerate() {
            let (folder, job) = (&trees[at], &mut jobs[at]);
            let result = soon(client.call_tool(tool, placed(args, folder.path(), job))).await;
            let (mut value, is_error, words) = match result {
                Ok(result) => (
                    result.structured_content.clone().unwrap_or_default(),
                    result.is_error,
                    text(&result),
                ),
                Err(err) => (Value::Null, true, err.to_string()),
            };
            let started = match tool {
                "shell" => &value["job"],
                "shell_bg" => &value["id"],
                _ => &value["restarted_as"],
            };
            if let Some(id) = started.as_str() {
                id.clone_into(job);
            }
            without_differences(&mut value);
            let own = folder.path().to_str().unwrap();
            let value: Value =
                serde_json::from_str(&value.to_string().replace(own, "TREE")).unwrap();
            // The text of a result has times in it. If the call went well, the structured value says the same without them.
            let words = if is_error && value.is_null() {
                words.replace(own, "TREE").replace(job.as_str(), "JOB")
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
