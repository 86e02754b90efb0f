//! `lmcp run` with an agent that uses the server and the identity, and the end of both.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::support::{lmcp, said};

/// Returns a folder like `$XDG_RUNTIME_DIR`.
fn runtime() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("tests may write here");
    let rights = fs::Permissions::from_mode(0o700);
    fs::set_permissions(&folder, rights).expect("it is ours");
    folder
}

/// Returns `lmcp run OPTIONS -- COMMAND`.
fn run(runtime: &Path, options: &[&str], command: &[&str]) -> Command {
    let mut started = lmcp(&["run"]);
    started.args(options).arg("--").args(command);
    started.env("XDG_RUNTIME_DIR", runtime).env("HOME", runtime);
    started.stdin(Stdio::null());
    started
}

/// Does the same with an agent that calls these tools.
fn agent(runtime: &Path, options: &[&str], calls: &[&str]) -> Command {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/agent.py");
    let words = ["python3", script, env!("CARGO_BIN_EXE_lmcp")];
    run(runtime, options, &[&words, calls].concat())
}

/// Returns the lines that the command printed, and checks that no files are left.
fn answers(runtime: &Path, mut command: Command) -> Vec<Value> {
    let output = command
        .output()
        .expect("the binary was built for this test");
    let (code, words) = said(&output);
    assert_eq!(code, Some(0), "{words}");
    assert_eq!(left(runtime), Vec::<String>::new());
    let lines = String::from_utf8(output.stdout).expect("it prints text");
    let lines = lines.lines();
    lines
        .map(|line| serde_json::from_str(line).expect("it prints JSON"))
        .collect()
}

fn left(runtime: &Path) -> Vec<String> {
    let entries = fs::read_dir(runtime.join("lmcp")).expect("it was made");
    let names = entries.map(|entry| entry.expect("it is listed").file_name());
    names
        .map(|name| name.into_string().expect("it is text"))
        .collect()
}

#[test]
fn an_agent_is_known_and_has_the_tools() {
    let runtime = runtime();
    let calls = ["whoami", "{}", "shell", r#"{"command": "echo $((6 * 7))"}"#];
    let said = answers(
        runtime.path(),
        agent(runtime.path(), &["--label", "ann"], &calls),
    );
    let offered = said[0].as_array().expect("a list");
    assert!(offered.contains(&json!("job_stop")) && offered.contains(&json!("whoami")));
    let known = &said[1]["structuredContent"];
    assert_eq!([&known["label"], &known["role"]], ["ann", "agent"]);
    assert_eq!(said[2]["structuredContent"]["stdout"], "42\n");
}

#[test]
fn a_role_takes_away_and_one_that_is_not_there_is_refused() {
    let runtime = runtime();
    let config = runtime.path().join("config.toml");
    let text = "[roles.reviewer]\nread_only = true\n[roles.agent]\ntools = ['fetch']\n";
    fs::write(&config, text).expect("tests may write here");
    let config = config.to_str().expect("it is text");
    let offered = |options: &[&str]| answers(runtime.path(), agent(runtime.path(), options, &[]));
    let reviewer = offered(&["--config", config, "--role", "reviewer"]).remove(0);
    let reviewer = reviewer.as_array().expect("a list");
    assert!(reviewer.contains(&json!("read_file")));
    assert!(!reviewer.contains(&json!("shell")) && !reviewer.contains(&json!("write_file")));
    assert_eq!(offered(&["--config", config]), [json!(["fetch", "whoami"])]);
    let options = ["--config", config, "--role", "admin"];
    let (code, words) = said(
        &agent(runtime.path(), &options, &[])
            .output()
            .expect("it runs"),
    );
    assert_eq!(code, Some(2));
    assert!(
        words.contains("no role `admin`") && words.contains("agent, reviewer"),
        "{words}"
    );
}

#[test]
fn it_ends_as_the_command_ends() {
    let runtime = runtime();
    for (script, expected) in [("exit 7", 7), ("kill -TERM $$", 143), ("true", 0)] {
        let mut command = run(runtime.path(), &[], &["sh", "-c", script]);
        let (code, words) = said(&command.output().expect("it runs"));
        assert_eq!(code, Some(expected), "{script}: {words}");
        assert!(!words.contains("error"), "{words}");
        assert_eq!(left(runtime.path()), Vec::<String>::new());
    }
}

#[test]
fn its_folder_for_commands_goes_with_it() {
    let (runtime, temporary) = (runtime(), runtime());
    for _ in 0..20 {
        let mut command = run(runtime.path(), &[], &["true"]);
        command.env("TMPDIR", temporary.path());
        let (code, words) = said(&command.output().expect("the binary was built"));
        assert_eq!(code, Some(0), "{words}");
        let left = fs::read_dir(&temporary).expect("it is ours").count();
        assert_eq!(left, 0);
    }
}

#[test]
fn a_request_to_end_is_passed_on() {
    let runtime = runtime();
    let script = "trap 'echo asked; exit 3' TERM; echo ready; while :; do sleep 0.02; done";
    let mut running = run(runtime.path(), &[], &["sh", "-c", script])
        .spawn()
        .expect("the binary was built for this test");
    let mut lines = BufReader::new(running.stdout.take().expect("a pipe")).lines();
    assert_eq!(lines.next().expect("it speaks").expect("text"), "ready");
    let pid = rustix::process::Pid::from_child(&running);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
    assert_eq!(lines.next().expect("it speaks").expect("text"), "asked");
    assert_eq!(running.wait().expect("it ends").code(), Some(3));
}

#[test]
fn what_is_ignored_is_ignored_by_the_command_too() {
    let runtime = runtime();
    let started = run(
        runtime.path(),
        &[],
        &["grep", "SigIgn", "/proc/self/status"],
    );
    // The shell ignores SIGHUP, as `nohup` does.
    let mut command = Command::new("sh");
    command
        .args(["-c", "trap '' HUP; exec \"$@\"", "sh"])
        .arg(started.get_program())
        .args(started.get_args())
        .env("XDG_RUNTIME_DIR", runtime.path());
    let output = command.output().expect("it runs");
    let mask = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    assert!(
        mask.ends_with(['1', '3', '5', '7', '9', 'b', 'd', 'f']),
        "{mask}"
    );
}

#[test]
fn killing_it_leaves_nothing_behind() {
    let runtime = runtime();
    let job = r#"{"command": "sleep 300"}"#;
    let mut command = agent(runtime.path(), &[], &["shell_bg", job, "wait"]);
    let mark = format!("LEFT_BEHIND={}", std::process::id());
    let (name, value) = mark.split_once('=').expect("it has one");
    command.env(name, value);
    let mut running = command.spawn().expect("the binary was built for this test");
    let lines = BufReader::new(running.stdout.take().expect("a pipe")).lines();
    let ready = lines.map_while(Result::ok).any(|line| line == "ready");
    assert!(ready);
    // The processes are the server, the agent, its proxy and the job; the guard has none of these variables.
    assert_eq!(marked(&mark), 4);
    running.kill().expect("it runs");
    running.wait().expect("it ends");
    while marked(&mark) > 0 {
        std::thread::yield_now();
    }
    // The socket, the lock and the files for the agent stay until the next run cleans up.
    assert_eq!(left(runtime.path()).len(), 3);
    answers(runtime.path(), agent(runtime.path(), &[], &[]));
}

/// An agent that survives when its host is killed, and a proxy: our stdin and stdout are those of the proxy.
const SURVIVOR: &str =
    r#"trap '' TERM; echo "$LMCP_IDENTITY_FILE" >&2; "$1" proxy; echo "code $?"; read -r rest"#;

#[test]
fn a_child_of_a_killed_host_keeps_its_credentials_and_hears_at_once_that_the_host_is_gone() {
    let runtime = runtime();
    let command = ["sh", "-c", SURVIVOR, "sh", env!("CARGO_BIN_EXE_lmcp")];
    let mut running = run(runtime.path(), &[], &command);
    running.stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut running = running.spawn().expect("the binary was built for this test");
    let mut input = running.stdin.take().expect("a pipe");
    let mut said = BufReader::new(running.stderr.take().expect("a pipe")).lines();
    let mut heard = BufReader::new(running.stdout.take().expect("a pipe")).lines();
    let mut hear = || heard.next().expect("it speaks").expect("text");
    let mut lines = said.by_ref().map_while(Result::ok);
    let file = lines.find(|line| line.starts_with('/'));
    let file = PathBuf::from(file.expect("the agent says it"));
    let list = crate::proxy::modern(1, "tools/list", json!({}));
    writeln!(input, "{list}").expect("the proxy reads");
    assert!(hear().contains(r#""id":1"#));

    running.kill().expect("it runs");
    running.wait().expect("it ends");
    // Another `lmcp run`, which is not related, starts and ends.
    let (code, words) = self::said(
        &run(runtime.path(), &[], &["true"])
            .output()
            .expect("it runs"),
    );
    assert_eq!(code, Some(0), "{words}");
    assert!(file.exists(), "its credentials are gone");
    // The proxy has reported that waiting is useless, and has ended.
    assert_eq!(hear(), "code 77");
    let gone = "has ended, and nobody else knows it";
    assert!(said.map_while(Result::ok).any(|line| line.contains(gone)));
    // After the child has ended, the next run removes its files.
    drop(input);
    while file.exists() {
        run(runtime.path(), &[], &["true"])
            .output()
            .expect("it runs");
    }
}

/// Returns how many processes have this mark in their environment.
fn marked(mark: &str) -> usize {
    let entry = format!("{mark}\0").into_bytes();
    let all = fs::read_dir("/proc").expect("this is Linux").flatten();
    let environs = all.filter_map(|process| fs::read(process.path().join("environ")).ok());
    environs
        .filter(|environ| environ.windows(entry.len()).any(|part| part == entry))
        .count()
}
