//! Without a token, HTTP serves only the user of the server and root (D15).

use std::{
    io::{Read as _, Write as _},
    os::unix::process::CommandExt as _,
    process::{Command, Stdio},
};

use rustix::process::geteuid;

use crate::support::{ask, can_unshare, get, lmcp, start, tool_names, unshared};

/// A user that is neither root nor this user.
const NOBODY: u32 = 65_534;

/// Returns the answer to a request from a process of another user. Bash can send it without another program.
fn ask_as_nobody(address: &str) -> String {
    let (host, port) = address.rsplit_once(':').expect("it has a port");
    let host = host.trim_matches(['[', ']']);
    let script = format!("exec 3<>/dev/tcp/{host}/{port}; cat >&3; cat <&3");
    let mut process = Command::new("bash")
        .args(["-c", &script])
        .current_dir("/")
        .uid(NOBODY)
        .gid(NOBODY)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("there is a bash");
    let request = format!("GET /mcp HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    let mut input = process.stdin.take().expect("a pipe");
    input.write_all(request.as_bytes()).expect("it reads");
    drop(input);
    let mut answer = String::new();
    let mut output = process.stdout.take().expect("a pipe");
    output.read_to_string(&mut answer).expect("text");
    process.wait().expect("it ends");
    answer
}

#[expect(clippy::print_stderr, reason = "says what was not tested")]
fn is_root() -> bool {
    let is_root = geteuid().is_root();
    if !is_root {
        eprintln!("note: only root can act as several users, so this is not tested");
    }
    is_root
}

#[test]
fn another_user_is_not_served_without_a_token() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        if std::net::TcpListener::bind(address).is_err() {
            continue;
        }
        let command = lmcp(&["serve", "--demo", "--http", address]);
        let (_server, address, _) = start(command);
        assert_eq!(tool_names(&address).len(), 4, "its own user is served");
        if !is_root() {
            continue;
        }
        let answer = ask_as_nobody(&address);
        assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
        assert!(
            answer.contains("of user 65534") && answer.contains("--any-local-user"),
            "{answer}"
        );
        assert_eq!(get(&address, "/mcp"), 405, "others go on");
    }
}

#[test]
fn a_server_that_cannot_tell_its_user_from_others_serves_nobody_without_a_token() {
    for options in [&["-U"][..], &["--map-user=65534"]] {
        if !can_unshare(options) {
            return;
        }
        let (_server, address, _) = start(unshared(
            options,
            &["serve", "--demo", "--http", "127.0.0.1:0"],
        ));
        let head = "GET /mcp HTTP/1.1\r\n";
        let mut answers = vec![ask(&address, head, "").1];
        if geteuid().is_root() {
            answers.push(ask_as_nobody(&address));
        }
        for answer in answers {
            assert!(answer.starts_with("HTTP/1.1 403"), "{options:?}: {answer}");
            assert!(answer.contains("without a number"), "{options:?}: {answer}");
        }
        let mut command = unshared(options, &["serve", "--demo", "--http", "127.0.0.1:0"]);
        command.env("LMCP_TOKEN", "s3cret-s3cret-s3cret");
        let (_server, address, _) = start(command);
        let head = format!("{head}authorization: Bearer s3cret-s3cret-s3cret\r\n");
        assert_eq!(ask(&address, &head, "").0, 405, "a token needs no user");
    }
    // In a namespace in which the user has a number, the server knows this user, and no other.
    let options = ["--map-user=5555"];
    let (_server, address, _) = start(unshared(
        &options,
        &["serve", "--demo", "--http", "127.0.0.1:0"],
    ));
    assert_eq!(get(&address, "/mcp"), 405);
    if geteuid().is_root() {
        let answer = ask_as_nobody(&address);
        assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    }
}

#[test]
fn root_is_served_by_everybodys_server() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().expect("tests may write here");
    let rights = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&folder, rights).expect("it is ours");
    let program = folder.path().join("lmcp");
    std::fs::copy(env!("CARGO_BIN_EXE_lmcp"), &program).expect("tests may write here");
    let mut command = Command::new(&program);
    command
        .args(["serve", "--demo", "--http", "127.0.0.1:0"])
        .env_clear()
        .current_dir("/")
        .uid(NOBODY)
        .gid(NOBODY)
        .stderr(Stdio::piped());
    let (_server, address, _) = start(command);
    assert_eq!(tool_names(&address).len(), 4);
    assert!(ask_as_nobody(&address).starts_with("HTTP/1.1 405"));
}

#[test]
fn every_user_is_served_where_that_is_said_and_a_token_needs_no_user() {
    if !is_root() {
        return;
    }
    let command = lmcp(&["serve", "--demo", "--http", ":0", "--any-local-user"]);
    let (_server, address, _) = start(command);
    assert!(ask_as_nobody(&address).starts_with("HTTP/1.1 405"));
    let mut command = lmcp(&["serve", "--demo", "--http", ":0"]);
    command.env("LMCP_TOKEN", "0123456789abcdef");
    let (_server, address, _) = start(command);
    assert!(ask_as_nobody(&address).starts_with("HTTP/1.1 401"));
}
