//! Commands that are longer than the kernel takes as an argument.

use std::path::Path;

use lmcp_core::Handle;
use lmcp_tools::settings::{Decision, Rule};
use serde_json::{Value, json};

use crate::support::{Host, settings, skipped, start, text};

/// Lines and what is to be seen of them: that they run alike, however long they are.
const LINES: &[&str] = &[
    "echo $0 $#; cat; exit 3",
    "set -e; false; echo no",
    "set -e\nf() { false; }\nf || echo yes\nf\necho no",
    "trap 'echo bye' EXIT; exit 4",
    "cat <<EOF\nx $0\nEOF\n",
    "ls /proc/self/fd",
    "exec 3</dev/null; read line <&3; echo $?; echo $LINENO\n\necho $LINENO",
    "echo 'a'\\''b' \"$(echo \"n $0\")\" `echo old`; (exit 7)",
    "echo a\\\n",
    "echo first\nif",
    "kill -TERM $$",
];

async fn run(server: &Handle, command: &str) -> Value {
    let args = json!({"command": command, "stdin": "given\n"});
    let result = server.client().call_tool("shell", args).await.unwrap();
    let ran = result.structured_content.unwrap();
    json!([ran.get("exit_code"), ran.get("signal"), ran["stdout"]])
}

/// The same line, in so many bytes more.
fn longer(line: &str, bytes: usize) -> String {
    format!(": {}; {line}", "x".repeat(bytes))
}

#[tokio::test]
async fn a_line_runs_alike_however_long_it_is() {
    for shell in ["/bin/bash", "/bin/sh", "/bin/dash", "/bin/zsh"] {
        if !Path::new(shell).exists() {
            skipped(&format!("there is no {shell}"));
            continue;
        }
        let state = tempfile::tempdir().unwrap();
        let root = tempfile::tempdir().unwrap();
        let mut open = settings(state.path());
        open.shell = Some(shell.to_owned());
        let mut confined = open.clone();
        confined.roots = vec![root.path().to_owned()];
        for server in [start(open), start(confined)] {
            for line in LINES {
                let short = run(&server, line).await;
                let long = run(&server, &longer(line, 200_000)).await;
                assert_eq!(long, short, "{shell}: {line}");
            }
            let size = run(&server, &longer("echo there", 3_000_000)).await;
            assert_eq!(size, json!([0, null, "there\n"]), "{shell}");
        }
    }
}

#[tokio::test]
async fn a_long_line_runs_on_a_terminal_and_as_a_job_and_again() {
    let host = Host::new();
    let command = longer("tty >/dev/null && echo on a terminal", 200_000);
    let ran = host
        .value("shell", json!({"command": command, "tty": true}))
        .await;
    assert_eq!(ran["exit_code"], 0, "{ran}");
    let command = longer("echo ran; exit 5", 200_000);
    let started = host.value("shell_bg", json!({ "command": command })).await;
    let mut id = started["id"].clone();
    for _ in 0..2 {
        let args = json!({"id": id, "wait_exit": true});
        let output = host.value("job_output", args).await;
        assert_eq!(
            (&output["exit_code"], &output["output"]),
            (&json!(5), &json!("ran\n"))
        );
        let args = json!({"id": id, "restart": true});
        id = host.value("job_stop", args).await["restarted_as"].clone();
    }
    let listed = host.call("jobs", json!({})).await;
    assert!(text(&listed).len() < 4000, "{}", text(&listed).len());
}

#[tokio::test]
async fn of_long_arguments_an_error_tells_the_beginning() {
    let state = tempfile::tempdir().unwrap();
    let mut settings = settings(state.path());
    settings.rules = vec![Rule::new(Decision::Deny, "rm")];
    let ruled = start(settings.clone());
    settings.rules.clear();
    let server = start(settings.clone());
    settings.shell = Some("/usr/bin/env".to_owned());
    let other_shell = start(settings);
    let long = "x".repeat(150_000);
    let most = "131071";
    for (server, tool, args, words) in [
        (&server, "shell", json!({"argv": ["echo", &long]}), most),
        (&server, "shell", json!({"argv": [&long]}), most),
        (
            &server,
            "shell",
            json!({"argv": ["/no/such", &long[..100_000]]}),
            "cannot run `/no/such x",
        ),
        (
            &ruled,
            "shell",
            json!({"command": format!("rm {}", &long[..60_000])}),
            "forbid `rm x",
        ),
        (
            &other_shell,
            "shell",
            json!({"command": format!("echo {long}")}),
            most,
        ),
        (&server, "job_output", json!({ "id": long }), "no job `x"),
    ] {
        let result = server.client().call_tool(tool, args).await.unwrap();
        let said = text(&result);
        assert!(
            result.is_error && said.contains(words) && said.len() < 1000,
            "{}: {}",
            said.len(),
            &said[..said.len().min(1000)]
        );
    }
}

#[tokio::test]
async fn what_the_kernel_does_not_take_is_refused_before_a_command_starts() {
    let host = Host::new();
    let long = "x".repeat(200_000);
    for (args, words) in [
        (json!({ "env": [format!("A={long}")] }), "`A` in `env` has"),
        (json!({ "env": { "A": long } }), "`A` in `env` has"),
        (json!({ "env": [long] }), "in `env` has 200000 bytes"),
        (
            json!({ "argv": vec!["x".repeat(120_000); 60] }),
            "bytes together",
        ),
        (
            json!({ "env": (0..60).map(|at| format!("A{at}={}", "x".repeat(120_000))).collect::<Vec<_>>() }),
            "bytes together",
        ),
    ] {
        let mut args = args;
        if args.get("argv").is_none() {
            args["command"] = json!("true");
        }
        let refused = host.call("shell", args).await;
        let told = text(&refused);
        assert!(refused.is_error && told.contains(words), "{told}");
        assert!(told.len() < 1000, "{} bytes", told.len());
    }
}

/// An order is copied on its way to the guard: its message may fit where the copies do not.
#[tokio::test]
async fn many_arguments_are_passed_on_only_where_there_is_memory_for_it() {
    let mut limits = lmcp_core::Limits::default();
    limits.memory_bytes = 12 << 20;
    let state = tempfile::tempdir().unwrap();
    let tools = lmcp_tools::HostTools::new(settings(state.path())).unwrap();
    let server = lmcp_core::Server::new("t", "0").limits(limits);
    let server = tools.add_to(server).start().unwrap();
    let words = ["true".to_owned()]
        .into_iter()
        .chain(vec!["x".repeat(100_000); 10]);
    let args = json!({ "argv": words.collect::<Vec<_>>() });
    let others = server.budget().account("others").take(6 << 20);
    let refused = server.client().call_tool("shell", args.clone()).await;
    let data = refused.unwrap_err().into_rpc().data.unwrap();
    assert_eq!(
        (&data["limit"], &data["retriable"]),
        (&json!("memory_bytes"), &json!(true))
    );
    drop(others);
    let ran = server.client().call_tool("shell", args).await.unwrap();
    assert!(!ran.is_error, "{}", text(&ran));
    assert_eq!(server.budget().used(), 0, "everything was given back");
}
