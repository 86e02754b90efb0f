//! `lmcp run` below another host: the command gets the server of that host.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, process::Command};

use lmcp::{
    Server,
    embed::{Allowance, Host, family, whoami},
};
use serde_json::{Value, json};

use crate::{
    proxy::{Client, modern},
    support::{lmcp, said},
};

const LMCP: &str = env!("CARGO_BIN_EXE_lmcp");

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("tests may write here");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).expect("it is ours");
    folder
}

/// Returns `lmcp run --label outer -- lmcp run WORDS`.
fn nested(runtime: &Path, words: &[&str]) -> Command {
    let mut command = lmcp(&["run", "--label", "outer", "--", LMCP, "run"]);
    command
        .args(words)
        .env("XDG_RUNTIME_DIR", runtime)
        .env("HOME", runtime);
    command
}

fn who(client: &mut Client) -> Value {
    let call = json!({ "name": "whoami", "arguments": {} });
    client.send(&modern(1, "tools/call", call));
    client.answer(1)["result"]["structuredContent"].clone()
}

fn sockets(runtime: &Path) -> usize {
    let entries = fs::read_dir(runtime.join("lmcp")).expect("it was made");
    let names = entries.map(|entry| entry.expect("it is listed").file_name());
    names
        .filter(|name| name.to_string_lossy().ends_with(".sock"))
        .count()
}

#[test]
fn a_run_in_a_run_has_the_outer_server() {
    let runtime = folder();
    for (words, label, servers) in [
        (vec!["--label", "inner", "--", LMCP, "proxy"], "outer", 1),
        (
            vec!["--own", "--label", "inner", "--", LMCP, "proxy"],
            "inner",
            2,
        ),
        // The command has hardly any variables; its identity is found through the processes above it.
        (vec!["--", "env", "-i", LMCP, "proxy"], "outer", 1),
    ] {
        let mut client = Client::new(&mut nested(runtime.path(), &words));
        assert_eq!(who(&mut client)["label"], label);
        assert_eq!(sockets(runtime.path()), servers);
        assert_eq!(client.end(), Some(0));
        let left = fs::read_dir(runtime.path().join("lmcp")).expect("it was made");
        assert_eq!(left.count(), 0);
    }
}

#[test]
fn the_code_of_the_innermost_command_is_passed_on() {
    let runtime = folder();
    let output = nested(runtime.path(), &["--", "sh", "-c", "exit 7"]).output();
    let (code, words) = said(&output.expect("it runs"));
    assert_eq!(code, Some(7), "{words}");
}

#[test]
fn options_for_a_server_are_refused_where_the_server_is_anothers() {
    let runtime = folder();
    let output = nested(runtime.path(), &["--read-only", "--", "true"]).output();
    let (code, words) = said(&output.expect("it runs"));
    assert_eq!(code, Some(2), "{words}");
    assert!(
        words.contains("--read-only") && words.contains("--own"),
        "{words}"
    );
}

#[test]
fn with_a_role_it_is_a_sub_agent_if_the_host_allows_that() {
    let folder = folder();
    let server = Server::new("host", "1.0.0").tool(whoami()).tools(family());
    let host = Host::start_in(server, folder.path()).expect("it starts");
    let child = host.child("ann", "lead").expect("there is room");
    let words = [
        "run", "--role", "worker", "--label", "sub", "--", LMCP, "proxy",
    ];
    let start = |child: &lmcp::embed::Child| {
        let mut command = lmcp(&words);
        child.prepare(&mut command);
        let client = Client::new(&mut command);
        child.bind(client.process.0.id()).expect("it runs");
        client
    };
    child.allow_children(Allowance::new(["worker"]));
    let mut client = start(&child);
    let sub = who(&mut client);
    assert_eq!(
        (&sub["label"], &sub["role"], &sub["parent"]),
        (
            &"sub".into(),
            &"worker".into(),
            &child.identity().id.clone().into()
        )
    );
    assert_eq!(client.end(), Some(0));
    // If the host does not allow sub-agents, the reason is reported.
    let other = host.child("bob", "lead").expect("there is room");
    let client = start(&other);
    let output = {
        let Client { process, input, .. } = client;
        drop(input);
        let mut process = process;
        let mut words = String::new();
        let mut stderr = process.0.stderr.take().expect("stderr is a pipe");
        std::io::Read::read_to_string(&mut stderr, &mut words).expect("it says text");
        (process.0.wait().expect("it is our child").code(), words)
    };
    assert_eq!(output.0, Some(1), "{}", output.1);
    assert!(
        output.1.contains("you may not make identities"),
        "{}",
        output.1
    );
}
