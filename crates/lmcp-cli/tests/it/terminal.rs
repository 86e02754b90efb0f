//! The messages for a person who starts the server by hand.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::Stdio,
};

use crate::support::{self, Running, file, lmcp, screen, terminal};

/// Returns the text on a terminal, up to its last line.
fn said(options: &[&str]) -> String {
    let (terminal, name) = terminal();
    let mut command = lmcp(&["serve", "--http", ":0"]);
    command.args(options).stderr(screen(&name));
    let _running = Running(command.spawn().expect("the binary was built for this test"));
    drop(command);
    let mut words = String::new();
    for line in BufReader::new(terminal).lines().map_while(Result::ok) {
        words += &format!("{line}\n");
        if line.starts_with("Ctrl-C") {
            break;
        }
    }
    words.replace('\r', "")
}

#[test]
fn it_says_where_it_is_how_to_get_there_and_what_holds() {
    let words = said(&["--root", "/usr", "--read-only"]);
    let url = words
        .lines()
        .next()
        .and_then(|line| line.strip_prefix("listening on "));
    let url = url.expect("the first line says where");
    assert!(
        words.contains(&format!("claude mcp add --transport http lmcp {url}\n")),
        "{words}"
    );
    assert!(words.contains(&format!(r#""url": "{url}""#)), "{words}");
    assert!(
        words.contains("below /usr\n") && words.contains("no tool changes anything"),
        "{words}"
    );
    assert!(!words.contains("Authorization"), "{words}");
}

#[test]
fn with_a_token_it_says_how_to_send_it_and_not_what_it_is() {
    let path = file("terminal-token", "hush-hush", 0o600);
    let words = said(&["--token-file", path.to_str().unwrap()]);
    let header = format!(
        "--header \"Authorization: Bearer $(cat '{}')\"",
        path.display()
    );
    assert!(words.contains(&header), "{words}");
    assert!(!words.contains("hush"), "{words}");
}

#[test]
fn on_stdio_it_says_what_it_waits_for() {
    let (mut terminal, name) = terminal();
    let mut command = lmcp(&["serve", "--stdio"]);
    let [stdin, stdout, stderr] = [(); 3].map(|()| screen(&name));
    command.stdin(stdin).stdout(stdout).stderr(stderr);
    let mut running = Running(command.spawn().expect("the binary was built for this test"));
    drop(command);
    let mut line = String::new();
    let mut shown = BufReader::new(terminal.try_clone().unwrap());
    shown.read_line(&mut line).unwrap();
    for words in ["waiting for an MCP client", "Ctrl-D ends the server"] {
        assert!(line.contains(words), "{line}");
    }
    // Ctrl-D.
    terminal.write_all(b"\x04").unwrap();
    assert!(running.0.wait().unwrap().success());
}

#[test]
fn on_stdio_an_agent_is_told_nothing() {
    let mut command = lmcp(&["serve", "--stdio"]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert_eq!(support::said(&output), (Some(0), String::new()));
}
