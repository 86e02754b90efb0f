//! Programs that start their servers with hardly any environment, below a process that has an identity (D19).

use std::{
    borrow::BorrowMut,
    fs,
    io::Write as _,
    os::unix::{
        fs::{PermissionsExt as _, chown},
        process::CommandExt as _,
    },
    path::Path,
    process::{Command, Output, Stdio},
};

use serde_json::{Value, json};

use crate::{
    proxy::modern,
    support::{can_unshare, folder, lmcp, program_in, said},
};

const LMCP: &str = env!("CARGO_BIN_EXE_lmcp");

/// Lists the tools through a proxy at the end of a command line.
pub(crate) fn ask(mut command: impl BorrowMut<Command>) -> Output {
    let mut running = command
        .borrow_mut()
        .stdin(Stdio::piped())
        .spawn()
        .expect("the binary was built for this test");
    let mut input = running.stdin.take().expect("stdin is a pipe");
    let list = modern(1, "tools/list", json!({}));
    // The proxy may have ended already.
    let _ = input.write_all(format!("{list}\n").as_bytes());
    drop(input);
    running.wait_with_output().expect("it ends")
}

/// Returns the names of the tools in the answer of a proxy.
pub(crate) fn tools(output: &Output) -> Vec<String> {
    let line = String::from_utf8_lossy(&output.stdout);
    let answer: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{output:?}"));
    let tools = answer["result"]["tools"].as_array().cloned();
    let tools = tools.unwrap_or_else(|| panic!("{answer}")).into_iter();
    tools
        .map(|tool| tool["name"].as_str().expect("a name").to_owned())
        .collect()
}

/// Returns the variables that SDKs and Codex leave, with a home of the test.
fn few(home: &Path) -> Vec<String> {
    let home = home.display();
    vec![
        "env".into(),
        "-i".into(),
        format!("HOME={home}"),
        "PATH=/usr/bin:/bin".into(),
    ]
}

fn home(name: &str) -> std::path::PathBuf {
    let home = folder(&format!("stripped-{name}"));
    fs::create_dir_all(&home).expect("tests may write here");
    home
}

#[test]
fn a_proxy_without_variables_finds_the_identity_above_it() {
    let home = home("found");
    // The proxy is the child itself, or a child of the child.
    for before in [&[][..], &["timeout", "60"]] {
        for _ in 0..5 {
            let mut command = lmcp(&["run", "--read-only", "--"]);
            command.args(before).args(few(&home)).args([LMCP, "proxy"]);
            let output = ask(command);
            let tools = tools(&output);
            assert!(tools.contains(&"whoami".to_owned()), "{tools:?}");
            assert!(!tools.contains(&"shell".to_owned()), "{tools:?}");
        }
    }
}

#[test]
fn a_proxy_below_an_identity_that_has_ended_is_refused() {
    let home = home("ended");
    // The credentials are removed before the proxy looks for them.
    let script = r#"rm -r "$(dirname "$LMCP_IDENTITY_FILE")" && exec "$@""#;
    let mut command = lmcp(&["run", "--read-only", "--", "sh", "-c", script, "sh"]);
    command.args(few(&home)).args([LMCP, "proxy"]);
    let (code, words) = said(&ask(command));
    assert_eq!(code, Some(77), "{words}");
    assert!(
        words.contains("a process above this one has an identity") && words.contains("--own"),
        "{words}"
    );
}

#[test]
fn who_asks_for_the_own_server_gets_it() {
    let home = home("own");
    let mut command = lmcp(&["run", "--read-only", "--"]);
    command.args(few(&home));
    // No server is started: the missing server is enough to see where the proxy connects.
    command.args([LMCP, "proxy", "--own", "--no-start"]);
    let output = ask(command);
    let line = String::from_utf8_lossy(&output.stdout);
    assert!(line.contains("serve.sock"), "{output:?}");
    let words = crate::support::refusal(lmcp(&["proxy", "--own", "/x"]));
    assert!(words.contains("cannot be used with"), "{words}");
}

/// Runs a script as an otherwise unused user, below an identity of that user. The script gets the program as `$LMCP`, and
/// `/tmp/lmcp-USER` is the user's register.
fn run_as(user: u32, script: &str) -> Output {
    let place = tempfile::tempdir().expect("tests may write here");
    let program = program_in(place.path());
    chown(place.path(), Some(user), Some(user)).expect("root may do this");
    let mut command = Command::new(&program);
    command
        .args(["run", "--read-only", "--"])
        .args(few(place.path()))
        .arg(format!("LMCP={}", program.display()))
        .args(["sh", "-c", script])
        .env_clear()
        .env("HOME", place.path())
        .env("PATH", "/usr/bin:/bin")
        .current_dir("/")
        .uid(user)
        .gid(user)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let output = ask(command);
    let _ = fs::remove_dir_all(format!("/tmp/lmcp-{user}"));
    output
}

#[expect(clippy::print_stderr, reason = "says what was not tested")]
fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("note: only root can act as several users, so this is not tested");
    }
    is_root
}

#[test]
fn a_register_with_a_wrong_mode_is_mended_and_read() {
    if !is_root() {
        return;
    }
    const USER: u32 = 64_997;
    for mode in ["000", "755", "777"] {
        for what in ["/tmp/lmcp-64997", "/tmp/lmcp-64997/*.process"] {
            // The file is written once the process is there, so the process may have to wait for it.
            let waits = "until ls /tmp/lmcp-64997/*.process >/dev/null 2>&1; do :; done";
            let script = format!("{waits}; chmod {mode} {what} && exec $LMCP proxy");
            let output = run_as(USER, &script);
            let tools = tools(&output);
            assert!(tools.contains(&"whoami".to_owned()), "{mode}: {tools:?}");
            assert!(!tools.contains(&"shell".to_owned()), "{mode}: {tools:?}");
        }
    }
}

#[test]
fn a_register_that_cannot_be_read_is_a_refusal_and_not_the_own_server() {
    if !is_root() {
        return;
    }
    const USER: u32 = 64_996;
    let register = "/tmp/lmcp-64996";
    let script = format!("mv {register} $HOME/r && touch {register} && exec $LMCP proxy");
    let (code, words) = said(&run_as(USER, &script));
    fs::remove_file(register).unwrap();
    assert_eq!(code, Some(77), "{words}");
    assert!(
        words.contains("/tmp/lmcp-64996: it is no folder") && words.contains("--own"),
        "{words}"
    );
}

#[test]
fn a_register_in_the_hands_of_another_user_is_a_refusal_and_not_the_own_server() {
    if !is_root() {
        return;
    }
    const USER: u32 = 64_995;
    const OTHER: u32 = 64_998;
    // The whole folder belongs to the other user.
    let register = Path::new("/tmp/lmcp-64995");
    let _ = fs::create_dir(register);
    chown(register, Some(OTHER), Some(OTHER)).unwrap();
    let (code, words) = said(&run_as(USER, "exec $LMCP proxy"));
    assert_eq!(code, Some(77), "{words}");
    let why = "`lmcp-64995` is something that user 64998 made in a shared folder";
    assert!(
        words.contains(&format!("/tmp/lmcp-64995: {why}")),
        "{words}"
    );
    assert!(words.contains("--own"), "{words}");
    // A file in the folder belongs to the other user, who made it while everybody could write there.
    fs::create_dir(register).unwrap();
    fs::write(register.join("1-1.process"), "{}").unwrap();
    chown(register, Some(USER), Some(USER)).unwrap();
    chown(register.join("1-1.process"), Some(OTHER), Some(OTHER)).unwrap();
    fs::set_permissions(register, fs::Permissions::from_mode(0o777)).unwrap();
    let (code, words) = said(&run_as(USER, "exec $LMCP proxy"));
    assert_eq!(code, Some(77), "{words}");
    assert!(
        words.contains("`1-1.process` in it belongs to user 64998"),
        "{words}"
    );
}

/// Returns a command for a separate pid namespace. `None`, with a note, if that is not allowed.
#[expect(clippy::print_stderr, reason = "says what was not tested")]
fn apart() -> Option<&'static [&'static str]> {
    const APART: &[&str] = &["unshare", "-Urpf", "--mount-proc"];
    let mut tried = Command::new("unshare");
    tried.args(&APART[1..]).arg("true");
    let is_allowed = tried.output().is_ok_and(|output| output.status.success());
    if !is_allowed {
        eprintln!("note: no namespaces are to be had here, so this is not tested");
    }
    is_allowed.then_some(APART)
}

#[test]
fn a_proxy_in_another_pid_namespace_gets_the_same_verdict() {
    let Some(apart) = apart() else { return };
    let mut command = lmcp(&["run", "--read-only", "--"]);
    command.args(apart).args([LMCP, "proxy"]);
    let output = ask(command);
    let tools = tools(&output);
    assert!(tools.contains(&"whoami".to_owned()), "{tools:?}");
    assert!(!tools.contains(&"shell".to_owned()), "{tools:?}");
}

#[test]
fn a_proxy_that_cannot_see_who_is_above_it_is_refused_where_it_could_be_somebodys() {
    let Some(apart) = apart() else { return };
    let home = home("apart");
    let mut command = lmcp(&["run", "--read-only", "--"]);
    command.args(apart).args(few(&home)).args([LMCP, "proxy"]);
    let (code, words) = said(&ask(command));
    assert_eq!(code, Some(77), "{words}");
    assert!(
        words.contains("not all processes above this one can be seen"),
        "{words}"
    );
}

#[test]
fn a_proxy_in_another_user_namespace_gets_the_same_identity_or_nothing() {
    if !can_unshare(&["-U"]) {
        return;
    }
    let home = home("users");
    for options in [
        &["-U"][..],
        &["--map-user=65534"],
        &["--map-user=5555"],
        &["-Uc"],
        &["-Uc", "unshare", "-Uc"],
        &[
            "--map-user=5555",
            "--map-group=5555",
            "unshare",
            "--map-user=6666",
        ],
    ] {
        let mut command = lmcp(&["run", "--read-only", "--", "timeout", "60"]);
        command.args(few(&home)).arg("unshare").args(options);
        let output = ask(command.args([LMCP, "proxy"]));
        expect_no_more(&output, options);
    }
}

#[test]
fn a_proxy_whose_register_is_covered_gets_the_same_identity_or_nothing() {
    if !can_unshare(&["-Ucm", "--keep-caps"]) {
        return;
    }
    let home = home("covered");
    // The program may be in a folder that is covered.
    let script = "exec 9<\"$0\" && mount -t tmpfs none /tmp && mount -t tmpfs none /run && exec /proc/self/fd/9 proxy";
    let mut namespaces = vec![&["-Ucm", "--keep-caps"][..], &["-Urm"]];
    if rustix::process::geteuid().is_root() {
        namespaces.push(&["-m"]);
    }
    for options in namespaces {
        // The proxy is the child itself, or a child of the child.
        for before in [&[][..], &["timeout", "60"]] {
            let mut command = lmcp(&["run", "--read-only", "--"]);
            command.args(before).args(few(&home));
            command
                .arg("unshare")
                .args(options)
                .args(["sh", "-c", script]);
            let output = ask(command.arg(LMCP));
            expect_no_more(&output, options);
        }
    }
}

/// Checks that a proxy was refused, or got only the rights of the identity above it.
fn expect_no_more(output: &Output, how: &[&str]) {
    if output.status.code() == Some(77) {
        return;
    }
    let tools = tools(output);
    assert!(tools.contains(&"whoami".to_owned()), "{how:?}: {tools:?}");
    assert!(!tools.contains(&"shell".to_owned()), "{how:?}: {tools:?}");
}
