//! Access over HTTP, and the errors for a token that is missing from its named place.

use std::{fs, path::Path, process::Command};

use serde_json::{Value, json};

use crate::support::{Running, ask, file, folder, get, lmcp, post, refusal, said, start};

const SERVE: [&str; 4] = ["serve", "--demo", "--http", "127.0.0.1:0"];

fn ping() -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" })
}

/// Returns the status of a request with this token.
fn with(address: &str, token: &str) -> u16 {
    post(
        address,
        &format!("authorization: Bearer {token}\r\n"),
        &ping(),
    )
    .0
}

fn serve(token: &str, options: &[&str]) -> (Running, String) {
    let mut command = lmcp(&SERVE);
    command.args(options).env("LMCP_TOKEN", token);
    let (running, address, _) = start(command);
    (running, address)
}

// Defect L5.
#[test]
fn without_the_token_nothing_is_served() {
    let (_running, address) = serve("right-one", &["--legacy-sse"]);
    assert_eq!(with(&address, "right-one"), 200);
    let loud = "authorization: BEARER right-one\r\n";
    assert_eq!(post(&address, loud, &ping()).0, 200);
    for token in ["wrong", "righ", "right2", "Right", ""] {
        assert_eq!(with(&address, token), 401, "{token}");
    }
    assert_eq!(post(&address, "", &ping()).0, 401);
    for path in ["/mcp", "/sse", "/messages"] {
        let status = get(&address, path);
        assert!(
            status == 401 || path == "/messages" && status == 405,
            "{path} {status}"
        );
    }
    let (status, answer) = ask(
        &address,
        "GET /sse HTTP/1.1\r\nauthorization: Bearer no\r\n",
        "",
    );
    assert_eq!(status, 401);
    let challenge = r#"www-authenticate: Bearer realm="lmcp", error="invalid_token""#;
    assert!(answer.contains(challenge), "{answer}");
}

#[test]
fn clients_find_no_login_and_browsers_may_ask_first() {
    let (_running, address) = serve("right-one", &[]);
    assert_eq!(
        get(&address, "/.well-known/oauth-protected-resource/mcp"),
        404
    );
    assert_eq!(ask(&address, "OPTIONS /mcp HTTP/1.1\r\n", "").0, 204);
}

// Makes a named pipe. Defect L2: each of these servers would have run without a token.
fn mkfifo(path: &Path) {
    let made = Command::new("mkfifo")
        .args(["-m", "600"])
        .arg(path)
        .status();
    assert!(made.expect("there is mkfifo").success());
}

#[test]
fn options_may_come_from_a_pipe_of_the_shell() {
    let mut command = Command::new("bash");
    let script = "exec \"$0\" serve --stdio --demo --config <(echo 'name = 1')";
    let command = command.args(["-c", script, env!("CARGO_BIN_EXE_lmcp")]);
    let (code, words) = said(&command.output().unwrap());
    assert_eq!(code, Some(2), "{words}");
    assert!(words.contains(":1: invalid type: integer"), "{words}");
}

#[test]
fn a_token_that_is_not_where_it_should_be_stops_the_start() {
    let none = folder("no-token").join("none");
    let none = none.to_str().unwrap();
    // No process writes to the pipe, and the server does not wait for one.
    let pipe = file("token-pipe", "", 0o600).with_file_name("pipe");
    mkfifo(&pipe);
    let empty = file("token-empty", "\n", 0o600);
    let short = file("token-short", "ab\n", 0o600);
    let other = file("token-other", "port = 8080\n", 0o600);
    let blank = file("token-blank", ".godparticle = \n", 0o600);
    for (variable, value, words) in [
        ("LMCP_TOKEN", "", "LMCP_TOKEN is empty"),
        ("LMCP_TOKEN", " ", "LMCP_TOKEN is empty"),
        ("LMCP_TOKEN", "two words", "LMCP_TOKEN is no token"),
        ("LMCP_TOKEN", "short", "LMCP_TOKEN has 5 characters"),
        (
            "LMCP_TOKEN_FILE",
            short.to_str().unwrap(),
            "has 2 characters, which can be guessed",
        ),
        ("LMCP_TOKEN_FILE", "", "LMCP_TOKEN_FILE is empty"),
        ("LMCP_TOKEN_FILE", none, "cannot read"),
        ("LMCP_TOKEN_FILE", empty.to_str().unwrap(), "is empty"),
        ("LMCP_TOKEN_FILE", pipe.to_str().unwrap(), "is a pipe"),
        ("LMCP_CONFIG", pipe.to_str().unwrap(), "is a pipe"),
        ("LMCP_CONF", "", "LMCP_CONF is empty"),
        ("LMCP_CONF", none, "cannot read"),
        (
            "LMCP_CONF",
            other.to_str().unwrap(),
            "has no line `.godparticle = TOKEN`",
        ),
        ("LMCP_CONF", blank.to_str().unwrap(), "is empty"),
    ] {
        let mut command = lmcp(&SERVE);
        command.env(variable, value);
        let said = refusal(command);
        assert!(said.contains(words), "{variable}={value}: {said}");
        assert!(!said.contains("two words"), "{said}");
    }
}

// Defect L2: another source of a token is not used either.
#[test]
fn no_other_token_is_taken_instead() {
    let good = file("token-good", "right-one\n", 0o600);
    let config = file(
        "token-below",
        &format!("token_file = '{}'", good.display()),
        0o600,
    );
    let mut command = lmcp(&SERVE);
    command
        .args(["--token-file", "/nowhere", "--config"])
        .arg(&config)
        .env("LMCP_TOKEN", "right-one");
    assert!(refusal(command).contains("cannot read /nowhere"));
    let mut command = lmcp(&SERVE);
    command
        .arg("--config")
        .arg(&config)
        .env("LMCP_CONF", "/nowhere");
    assert!(refusal(command).contains("cannot read /nowhere"));
}

#[test]
fn the_command_line_wins_over_the_environment_and_that_over_the_file() {
    let (of_line, of_file) = (
        file("token-line", "of-the-line", 0o600),
        file("token-file", "of-the-file", 0o600),
    );
    let config = file(
        "token-config",
        &format!("token_file = '{}'", of_file.display()),
        0o644,
    );
    for (line, environment, good) in [
        (true, true, "of-the-line"),
        (false, true, "environment"),
        (false, false, "of-the-file"),
    ] {
        let mut command = lmcp(&SERVE);
        command.arg("--config").arg(&config);
        if line {
            command.arg("--token-file").arg(&of_line);
        }
        if environment {
            command.env("LMCP_TOKEN", "environment");
        }
        let (_running, address, _) = start(command);
        for token in ["of-the-line", "environment", "of-the-file"] {
            let expected = if token == good { 200 } else { 401 };
            assert_eq!(with(&address, token), expected, "{token} for {good}");
        }
    }
}

#[test]
fn a_token_that_others_can_read_is_refused() {
    for mode in [0o640, 0o604, 0o620, 0o666] {
        let path = file("token-open", ".godparticle = right-one", mode);
        for variable in ["LMCP_TOKEN_FILE", "LMCP_CONF"] {
            let mut command = lmcp(&SERVE);
            command.env(variable, &path);
            let said = refusal(command);
            assert!(said.contains("not for its owner alone"), "{said}");
            assert!(said.contains("hint: chmod 600 "), "{said}");
        }
    }
    let config = file(
        "token-within",
        "[[token]]\nname = 'ann'\nsecret = 'right-one'\n",
        0o644,
    );
    let mut command = lmcp(&SERVE);
    command.arg("--config").arg(&config);
    assert!(refusal(command).contains("holds a secret"));
}

#[test]
fn a_token_is_not_taken_from_the_command_line() {
    let mut command = lmcp(&SERVE);
    command.args(["--token", "right-one"]);
    let said = refusal(command);
    assert!(said.contains("unexpected argument '--token'"), "{said}");
}

#[test]
fn tokens_are_read_once_at_the_start() {
    let path = file("token-once", "first-one", 0o600);
    let mut command = lmcp(&SERVE);
    command.arg("--token-file").arg(&path);
    let (_running, address, _) = start(command);
    fs::write(&path, "second-one").unwrap();
    assert_eq!(
        (with(&address, "first-one"), with(&address, "second-one")),
        (200, 401)
    );
}

#[test]
fn the_conf_of_the_seed_is_read() {
    let conf = file(
        "token-conf",
        "# hosts\nport = 1\n.godparticle = right-one\n",
        0o600,
    );
    let mut command = lmcp(&SERVE);
    command.env("LMCP_CONF", conf);
    let (_running, address, _) = start(command);
    assert_eq!(
        (with(&address, "right-one"), with(&address, "wrong")),
        (200, 401)
    );
}

#[test]
fn a_token_has_a_name_and_what_it_opens_belongs_to_that_name() {
    let config = file("token-names", "", 0o600);
    fs::write(config.with_file_name("bob"), "second-one\n").unwrap();
    fs::set_permissions(
        config.with_file_name("bob"),
        std::os::unix::fs::PermissionsExt::from_mode(0o600),
    )
    .unwrap();
    let text =
        "[[token]]\nname = 'ann'\nsecret = 'first-one'\n[[token]]\nname = 'bob'\nfile = 'bob'\n";
    fs::write(&config, text).unwrap();
    let mut command = lmcp(&SERVE);
    command.arg("--config").arg(&config);
    let (_running, address, _) = start(command);
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "x", "version": "1" } });
    let open =
        json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }).to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\ncontent-type: application/json\r\ncontent-length: {}\r\nauthorization: Bearer first-one\r\n",
        open.len()
    );
    let (_, answer) = ask(&address, &head, &open);
    let mut lines = answer.lines().filter_map(|line| line.split_once(": "));
    let session = lines.find(|(name, _)| name.eq_ignore_ascii_case("mcp-session-id"));
    let session = session.expect("a session is given").1;
    for (token, expected) in [("first-one", 200), ("second-one", 404), ("third-one", 401)] {
        let headers = format!("mcp-session-id: {session}\r\nauthorization: Bearer {token}\r\n");
        assert_eq!(post(&address, &headers, &ping()).0, expected, "{token}");
    }
}

#[test]
fn names_and_tokens_are_not_given_twice() {
    for (text, words) in [
        (
            "[[token]]\nname = 'a'\nsecret = 'xxxxxxxx'\n[[token]]\nname = 'a'\nsecret = 'yyyyyyyy'",
            "`a` cannot be the name",
        ),
        (
            "[[token]]\nname = 'a'\nsecret = 'xxxxxxxx'\n[[token]]\nname = 'b'\nsecret = 'xxxxxxxx'",
            "the same as another",
        ),
        ("[[token]]\nname = 'a'", "needs a `file` or a `secret`"),
        (
            "[[token]]\nname = ''\nsecret = 'xxxxxxxx'",
            "cannot be the name",
        ),
    ] {
        let mut command = lmcp(&SERVE);
        command
            .arg("--config")
            .arg(file("token-twice", text, 0o600));
        let said = refusal(command);
        assert!(said.contains(words), "{said}");
    }
}

// Defect L3.
#[test]
fn other_machines_are_let_in_only_with_a_token_or_when_told_so() {
    let open = ["serve", "--demo", "--http", "0.0.0.0:0"];
    let said = refusal(lmcp(&open));
    assert!(said.contains("can be reached by other machines"), "{said}");
    assert!(
        said.contains("--token-file") && said.contains("--allow-remote"),
        "{said}"
    );
    let mut command = lmcp(&open);
    command.env("LMCP_TOKEN", "right-one");
    let (_running, address, _) = start(command);
    let address = address.replace("0.0.0.0", "127.0.0.1");
    assert_eq!(
        (with(&address, "right-one"), with(&address, "wrong")),
        (200, 401)
    );
    let mut command = lmcp(&open);
    command.arg("--allow-remote");
    let (_running, address, _) = start(command);
    let address = address.replace("0.0.0.0", "127.0.0.1");
    assert_eq!(post(&address, "", &ping()).0, 200);
}

#[test]
fn stdio_needs_no_token() {
    let mut command = lmcp(&["serve", "--demo", "--stdio"]);
    command
        .env("LMCP_TOKEN", "right-one")
        .stdin(std::process::Stdio::null());
    assert!(command.output().unwrap().status.success());
}
