//! The log lines of a hub and of a bridge about servers that fail.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::{ChildStderr, Command},
};

use super::*;
use crate::support::post;

/// Reads the log up to a line with these words, and returns all lines up to that one.
fn until(log: &mut BufReader<ChildStderr>, words: &str) -> Vec<String> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        let read = log.read_line(&mut line).expect("it is a pipe");
        assert!(read > 0, "{words}: {lines:?}");
        lines.push(line);
        if lines.last().is_some_and(|line| line.contains(words)) {
            return lines;
        }
    }
}

fn log(running: &mut Running) -> BufReader<ChildStderr> {
    BufReader::new(running.0.stderr.take().expect("it is a pipe"))
}

fn starts(place: &Place) -> usize {
    let lines = fs::read_to_string(place.0.join("starts"));
    lines.unwrap_or_default().lines().count()
}

#[test]
fn a_server_that_fails_is_told_of_once_and_when_it_is_back() {
    let place = Place::new("hub-log");
    place.write("broken", "");
    let config = place.write("hub.toml", &counted("one", &place.0));
    let (mut running, _, before) = start(place.hub(&config, &["--http", "0", "-v"]));
    let mut log = log(&mut running);
    while starts(&place) < 3 {
        std::thread::yield_now();
    }
    fs::remove_file(place.0.join("broken")).unwrap();
    let lines = until(&mut log, "server `one` is there again").concat();
    let lines = before + &lines;
    let told: Vec<_> = lines
        .lines()
        .filter(|line| line.contains("server `one` failed"))
        .collect();
    assert_eq!(told.len(), 1, "{lines:?}");
    assert!(told[0].contains("WARN"), "{told:?}");
    for words in ["exit status 3", "no such database"] {
        assert!(told[0].contains(words), "{told:?}");
    }
}

#[test]
fn a_bridge_tells_of_the_loss_of_its_server_though_nobody_calls() {
    let place = Place::new("bridge-log");
    let (program, pid) = (env!("CARGO_BIN_EXE_lmcp"), place.0.join("pid"));
    let script = format!(
        "echo $$ > {}; exec {program} serve --demo --stdio",
        pid.display()
    );
    let command = lmcp(&["bridge", "-v", "--http", "0", "--", "sh", "-c", &script]);
    let (mut running, address, _) = start(command);
    let mut log = log(&mut running);
    assert_eq!(tool_names(&address).len(), 4);
    let pid = fs::read_to_string(pid).unwrap();
    let killed = Command::new("kill").args(["-9", pid.trim()]).status();
    assert!(killed.unwrap().success());
    until(&mut log, "the server failed");
    assert_eq!(tool_names(&address).len(), 4);
    until(&mut log, "the server is there again");
}

/// Returns the log of a server with `-v` after one good and one failed call over HTTP, and after connections that only
/// checked the port.
fn told(command: Command, tool: &str) -> Vec<String> {
    let (mut running, address, _) = start(command);
    let mut log = log(&mut running);
    for _ in 0..20 {
        drop(std::net::TcpStream::connect(&address).expect("it listens"));
    }
    for arguments in [json!({ "text": "hello" }), json!({})] {
        let params = json!({ "name": tool, "arguments": arguments });
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        assert_eq!(post(&address, "", &call).0, 200);
    }
    let pid = running.0.id().to_string();
    let ended = Command::new("kill").arg(pid).status();
    assert!(ended.expect("there is kill").success());
    let lines = std::io::read_to_string(&mut log).expect("it is text");
    let is_of_log = |line: &&str| ["INFO", "DEBUG", "WARN"].iter().any(|it| line.contains(it));
    lines.lines().filter(is_of_log).map(str::to_owned).collect()
}

#[test]
fn each_call_is_one_line_of_the_log_and_connections_are_none() {
    let place = Place::new("log-lines");
    let config = place.write("hub.toml", &demo("one"));
    let program = env!("CARGO_BIN_EXE_lmcp");
    let words = ["bridge", "-v", "--http", "0", "--", program];
    let words = [&words[..], &["serve", "--demo", "--stdio"]].concat();
    for (command, tool) in [
        (lmcp(&["serve", "--demo", "--http", "0", "-v"]), "echo"),
        (lmcp(&["serve", "--demo", "--http", "0", "-vv"]), "echo"),
        (lmcp(&words), "echo"),
        (place.hub(&config, &["--http", "0", "-v"]), "one__echo"),
    ] {
        let lines = told(command, tool);
        assert_eq!(lines.len(), 2, "{lines:?}");
        let began = format!("tools/call {tool}: ");
        assert!(lines[0].contains(&format!("{began}ok (")), "{lines:?}");
        assert!(lines[1].contains(&format!("{began}failed: ")), "{lines:?}");
    }
}

#[test]
fn a_change_that_needs_a_restart_is_told_and_one_of_servers_is_not_taken_for_it() {
    let place = Place::new("hub-options");
    let config = place.write("hub.toml", &demo("one"));
    let (mut running, ..) = start(place.hub(&config, &["--http", "0"]));
    let mut log = log(&mut running);
    place.write("hub.toml", &format!("{}{}", demo("one"), demo("two")));
    let lines = until(&mut log, "2 servers now").concat();
    place.write("hub.toml", &format!("name = 'other'\n{}", demo("one")));
    let lines = lines + &until(&mut log, "1 servers now").concat();
    assert!(!lines.contains("next start"), "{lines}");
    until(&mut log, "next start");
}

#[test]
fn a_hub_that_ends_while_a_server_starts_does_not_say_that_the_server_failed() {
    let place = Place::new("hub-log-end");
    let stuck = "[servers.stuck]\ncommand = 'sleep'\nargs = ['1000']\n";
    let config = place.write("hub.toml", stuck);
    let (mut running, address, _) = start(place.hub(&config, &["--http", "0"]));
    let mut log = log(&mut running);
    assert_eq!(status(&address, "stuck")["state"], "starting");
    let ended = Command::new("kill")
        .arg(running.0.id().to_string())
        .status();
    assert!(ended.expect("there is kill").success());
    let lines = std::io::read_to_string(&mut log).expect("it is text");
    assert!(!lines.contains("failed"), "{lines}");
}
