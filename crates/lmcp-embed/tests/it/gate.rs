//! Tests which processes are admitted.

use std::{fs, os::unix::fs::PermissionsExt as _, process::Command};

use lmcp_core::{Cx, NoArgs, Server, Tool};
use lmcp_embed::{Host, whoami};
use serde_json::{Value, json};

use crate::visitor::{call, follow, heard, refusal, request, shown, visitor};

fn host() -> (Host, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    let server = Server::new("gate", "1.0.0").tool(whoami());
    (Host::start_in(server, folder.path()).unwrap(), folder)
}

fn who() -> Vec<String> {
    vec![call(1, "whoami", &json!({}))]
}

fn identity(answer: &Value) -> (&str, &str) {
    let found = &answer["result"]["structuredContent"];
    let text = |name: &str| found[name].as_str().unwrap_or_default();
    (text("label"), text("role"))
}

#[test]
fn a_child_is_known() {
    let (host, _folder) = host();
    let child = host.child("reviewer", "worker").unwrap();
    let heard = heard(child.spawn(&mut visitor("env", 2, &who())).unwrap());
    assert_eq!(heard[0]["lmcp_welcome"]["label"], "reviewer");
    assert_eq!(heard[0]["lmcp_welcome"]["id"], child.identity().id.as_str());
    assert_eq!(identity(&heard[1]), ("reviewer", "worker"));
}

#[test]
fn a_childs_folder_and_tool_chain_are_known_to_handlers() {
    async fn place(_: NoArgs, cx: Cx) -> String {
        let caller = cx.caller();
        let folder = caller.folder().map(|folder| folder.display().to_string());
        let variables = caller.variables().unwrap();
        let known = ["VIRTUAL_ENV", "GITHUB_TOKEN", "LMCP_IDENTITY_FILE"];
        let known = known.map(|name| variables.get(name).map_or("-", String::as_str));
        format!("{} {}", folder.unwrap(), known.join(" "))
    }
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    let server = Server::new("gate", "1.0.0").tool(Tool::new("place", place).read_only());
    let host = Host::start_in(server, folder.path()).unwrap();
    for name in ["one", "two"] {
        let work = folder.path().canonicalize().unwrap().join(name);
        fs::create_dir(&work).unwrap();
        let child = host.child(name, "worker").unwrap();
        let mut command = visitor("env", 2, &[call(1, "place", &json!({}))]);
        command
            .current_dir(&work)
            .env("VIRTUAL_ENV", name)
            .env("GITHUB_TOKEN", "hush");
        let heard = heard(child.spawn(&mut command).unwrap());
        let text = &heard[1]["result"]["content"][0]["text"];
        assert_eq!(*text, format!("{} {name} - -", work.display()));
    }
}

#[test]
fn what_a_child_starts_is_that_child() {
    let (host, _folder) = host();
    let child = host.child("reviewer", "worker").unwrap();
    let script = visitor("env", 2, &who());
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "python3 \"$@\"; :", "sh"])
        .args(script.get_args())
        .stdout(std::process::Stdio::piped());
    let heard = heard(child.spawn(&mut shell).unwrap());
    assert_eq!(identity(&heard[1]), ("reviewer", "worker"));
}

#[test]
fn the_older_greeting_is_taken_and_not_answered() {
    let (host, _folder) = host();
    let child = host.child("reviewer", "worker").unwrap();
    let mut command = visitor("env", 1, &who());
    command.env("KEY", "patterm_identity");
    let heard = heard(child.spawn(&mut command).unwrap());
    assert_eq!(identity(&heard[0]), ("reviewer", "worker"));
}

#[test]
fn a_child_of_a_child_names_its_parent() {
    let (host, _folder) = host();
    let parent = host.child("lead", "orchestrator").unwrap();
    let child = parent.child("helper", "worker").unwrap();
    let heard = heard(child.spawn(&mut visitor("env", 2, &who())).unwrap());
    let found = &heard[1]["result"]["structuredContent"];
    assert_eq!(found["parent"], parent.identity().id.as_str());
}

#[test]
fn nobody_comes_in_as_a_stranger() {
    let (host, _folder) = host();
    let child = host.child("reviewer", "worker").unwrap();
    for line in [
        call(1, "whoami", &json!({})),
        request(1, "server/discover", json!({})),
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#.into(),
        "{}".into(),
        "nonsense".into(),
    ] {
        let mut command = visitor("-", 2, &[line, call(2, "whoami", &json!({}))]);
        command.env("SOCKET", host.socket());
        // A process of a child must show its token, too.
        let words = refusal(child.child("x", "y").unwrap().spawn(&mut command).unwrap());
        assert!(words.contains("must say who calls"), "{words}");
    }
}

#[test]
fn what_is_not_known_is_refused() {
    let (host, folder) = host();
    let file = folder.path().join("forged");
    for token in ["", "0", &"0".repeat(32), &"f".repeat(3000)] {
        let forged = json!({ "socket": host.socket(), "identity": token });
        fs::write(&file, forged.to_string()).unwrap();
        let child = host.child("reviewer", "worker").unwrap();
        let process = child.spawn(&mut visitor(shown(&file), 2, &who())).unwrap();
        let words = refusal(process);
        assert!(words.contains("not known"), "{words}");
    }
}

#[test]
fn a_stolen_token_is_worth_nothing() {
    let (host, _folder) = host();
    let (victim, thief) = (
        host.child("victim", "orchestrator").unwrap(),
        host.child("thief", "worker").unwrap(),
    );
    let mut sleeping = victim.spawn(Command::new("sleep").arg("60")).unwrap();
    let theft = || visitor(shown(victim.credentials()), 2, &who());
    let by_sibling = refusal(thief.spawn(&mut theft()).unwrap());
    let by_stranger = refusal(theft().spawn().unwrap());
    for words in [by_sibling, by_stranger] {
        assert!(words.contains("given to another process"), "{words}");
    }
    sleeping.kill().unwrap();
    sleeping.wait().unwrap();
}

#[test]
fn a_connection_of_a_process_that_has_ended_is_refused() {
    // Its number may belong to another process by now.
    let (host, _folder) = host();
    let child = host.child("reviewer", "worker").unwrap();
    let mut command = visitor("env", 2, &who());
    command.env("BY_ANOTHER", "1");
    let words = refusal(child.spawn(&mut command).unwrap());
    let expected = [
        "which process this is",
        "the process that connected has ended",
    ];
    assert!(expected.iter().any(|part| words.contains(part)), "{words}");
}

#[test]
fn a_child_below_another_cannot_be_that_other() {
    let (host, folder) = host();
    let outer = host.child("outer", "orchestrator").unwrap();
    let inner = host.child("inner", "worker").unwrap();
    // The shell is the outer child. It starts the inner one, which waits until it is named.
    let go = folder.path().join("go");
    let script = "python3 \"$@\" & echo $!; wait";
    let waiting = "import os,sys,time\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.01)\n\
                   os.execvp('python3', ['python3'] + sys.argv[2:])";
    let mut shell = Command::new("sh");
    shell
        .args(["-c", script, "sh", "-c", waiting])
        .arg(&go)
        .args(visitor(shown(outer.credentials()), 2, &who()).get_args())
        .stdout(std::process::Stdio::piped());
    let mut process = outer.spawn(&mut shell).unwrap();
    let mut lines = follow(&mut process);
    let pid: u32 = lines.next().unwrap().unwrap().parse().unwrap();
    inner.bind(pid).unwrap();
    fs::write(&go, "").unwrap();
    let answer = lines.next().unwrap().unwrap();
    process.wait().unwrap();
    assert!(answer.contains("given to another process"), "{answer}");
}

#[test]
fn a_token_ends_with_its_process() {
    let (host, folder) = host();
    let child = host.child("reviewer", "worker").unwrap();
    let copy = folder.path().join("copy");
    fs::copy(child.credentials(), &copy).unwrap();
    let mut process = child.spawn(&mut Command::new("true")).unwrap();
    process.wait().unwrap();
    while !child.has_ended() {
        std::thread::yield_now();
    }
    let next = host.child("next", "worker").unwrap();
    let words = refusal(next.spawn(&mut visitor(shown(&copy), 2, &who())).unwrap());
    assert!(words.contains("not known"), "{words}");
}

#[test]
fn connections_end_with_their_child() {
    let (host, _folder) = host();
    let child = host.child("reviewer", "worker").unwrap();
    // The shell leaves a visitor behind, which would wait for a hundred lines.
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "python3 \"$@\" & read _", "sh"])
        .args(visitor("env", 100, &who()).get_args())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped());
    let mut process = child.spawn(&mut shell).unwrap();
    let mut lines = follow(&mut process);
    assert!(lines.next().unwrap().unwrap().contains("lmcp_welcome"));
    assert!(lines.next().unwrap().unwrap().contains("reviewer"));
    drop(process.stdin.take());
    process.wait().unwrap();
    // The host closes the connection, so the visitor ends, and closes its end of the pipe.
    assert!(lines.next().is_none());
}

#[test]
fn dropping_a_child_ends_its_connections() {
    let (host, _folder) = host();
    let child = host.child("reviewer", "worker").unwrap();
    let mut process = child.spawn(&mut visitor("env", 100, &who())).unwrap();
    let mut lines = follow(&mut process);
    assert!(lines.next().unwrap().unwrap().contains("lmcp_welcome"));
    let file = child.credentials().to_owned();
    drop(child);
    assert!(!file.exists());
    assert!(
        lines
            .by_ref()
            .all(|line| line.unwrap().contains("reviewer"))
    );
    process.wait().unwrap();
}

#[test]
fn a_child_that_is_quicker_than_its_program_waits() {
    let (host, _folder) = host();
    let child = host.child("reviewer", "worker").unwrap();
    let mut command = visitor("env", 2, &who());
    command.env("WAIT", "1");
    child.prepare(&mut command);
    let mut process = command.spawn().unwrap();
    let mut lines = follow(&mut process);
    assert_eq!(lines.next().unwrap().unwrap(), "sent");
    child.bind(process.id()).unwrap();
    assert!(lines.next().unwrap().unwrap().contains("lmcp_welcome"));
    assert!(lines.next().unwrap().unwrap().contains("reviewer"));
    process.wait().unwrap();
}

#[test]
fn a_child_has_one_process() {
    let (host, _folder) = host();
    let child = host.child("reviewer", "worker").unwrap();
    let mut first = child.spawn(Command::new("sleep").arg("60")).unwrap();
    let second = child.spawn(Command::new("sleep").arg("60"));
    assert!(second.unwrap_err().to_string().contains("already"));
    first.kill().unwrap();
    first.wait().unwrap();
}

#[test]
fn a_greeting_counts_only_as_the_first_line() {
    let (host, _folder) = host();
    let child = host.child("reviewer", "worker").unwrap();
    let other = host.child("other", "orchestrator").unwrap();
    let token = fs::read_to_string(other.credentials()).unwrap();
    let token: Value = serde_json::from_str(&token).unwrap();
    let again = json!({ "lmcp_identity": token["identity"] }).to_string();
    let lines = [again, call(1, "whoami", &json!({}))];
    let heard = heard(child.spawn(&mut visitor("env", 3, &lines)).unwrap());
    assert!(heard[1]["error"].is_object(), "{heard:?}");
    assert_eq!(identity(&heard[2]), ("reviewer", "worker"));
}

#[test]
fn another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        // Only root can become another user.
        return;
    }
    let (host, folder) = host();
    // If the permissions were ever lost, the kernel still reports the user.
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(host.socket(), fs::Permissions::from_mode(0o666)).unwrap();
    let child = host.child("reviewer", "worker").unwrap();
    let mut command = visitor("env", 2, &who());
    command.env("UID", "65534");
    let words = refusal(child.spawn(&mut command).unwrap());
    assert!(words.contains("another user"), "{words}");
}
