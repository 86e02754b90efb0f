//! The client ends: no answer that it waits for is lost, and no process is left.

use std::{
    io::{BufRead as _, BufReader},
    os::unix::net::UnixListener,
    process::{Command, Stdio},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{OFlags, fcntl_setfl},
    io::{Errno, write},
    process::{Pid, PidfdFlags, pidfd_open},
};
use serde_json::{Value, json};

use super::{Client, Place, Server, call, modern, serve, text};
use crate::support::{Running, lmcp, said};

#[test]
fn a_client_that_says_nothing_needs_no_server() {
    let mut command = lmcp(&["proxy", "/nowhere/s"]);
    let (code, words) = said(&command.stdin(Stdio::null()).output().unwrap());
    assert_eq!((code, &*words), (Some(0), ""));
}

#[test]
fn the_environment_may_name_the_target_and_an_older_name_the_command() {
    let place = Place::new("older");
    let _server = serve(&place.socket());
    let mut client = Client::new(lmcp(&["mcp-stdio"]).env("LMCP_SOCKET", place.socket()));
    client.open();
    assert_eq!(client.end(), Some(0));
}

// Defect P9.
#[test]
fn a_slow_call_is_answered_after_the_input_has_ended() {
    let place = Place::new("slow");
    let _server = serve(&place.socket());
    let mut client = Client::of(&place.socket());
    client.open();
    client.send(&call(1, "wait", &json!({ "seconds": 1 })));
    client.send(&call(2, "echo", &json!({ "text": "quick" })));
    client.input = None;
    assert_eq!(text(&client.answer(2)), "quick");
    assert_eq!(text(&client.answer(1)), "waited 1 s");
    assert_eq!(client.receive(), Value::Null);
    assert_eq!(client.end(), Some(0));
}

#[test]
fn what_a_server_says_after_its_last_answer_arrives_too() {
    let place = Place::new("rest");
    let listener = UnixListener::bind(place.socket()).unwrap();
    let mut client = Client::of(&place.socket());
    client.send(&modern(1, "tools/list", json!({})));
    client.input = None;
    let mut server = Server::accept(&listener);
    assert_eq!(server.receive()["id"], 1);
    server.send(&json!({ "jsonrpc": "2.0", "id": 1, "result": {} }));
    // Only now does the server learn that nothing more will come.
    assert_eq!(server.receive(), Value::Null);
    server.send(&json!({ "jsonrpc": "2.0", "method": "notifications/message" }));
    drop(server);
    assert_eq!(client.receive()["id"], 1);
    assert_eq!(client.receive()["method"], "notifications/message");
    assert_eq!(client.end(), Some(0));
}

#[test]
fn a_server_that_goes_before_it_has_answered_is_the_end_and_the_code_says_so() {
    let place = Place::new("gone");
    let listener = UnixListener::bind(place.socket()).unwrap();
    let mut client = Client::of(&place.socket());
    client.send(&modern(1, "tools/call", json!({ "name": "a" })));
    client.input = None;
    let mut server = Server::accept(&listener);
    assert_eq!(server.receive()["id"], 1);
    drop((server, listener));
    assert_eq!(client.receive()["error"]["data"]["retriable"], true);
    assert_eq!(client.receive(), Value::Null);
    assert_eq!(client.end(), Some(1));
}

#[test]
fn a_request_without_its_line_end_is_answered() {
    let place = Place::new("tail");
    let _server = serve(&place.socket());
    let request = modern(1, "tools/list", json!({}));
    let mut shell = Command::new("sh");
    shell.args(["-c", r#"printf '%s' "$1" | "$2" proxy "$3""#, "sh"]);
    shell
        .arg(request.to_string())
        .arg(env!("CARGO_BIN_EXE_lmcp"))
        .arg(place.socket());
    let output = shell.output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(answer["result"]["tools"].is_array(), "{answer}");
    assert!(output.status.success());
}

#[test]
fn a_client_that_reads_nothing_more_is_gone() {
    let place = Place::new("deaf");
    let _server = serve(&place.socket());
    for (pending, code) in [(false, 0), (true, 1)] {
        let mut client = Client::of(&place.socket());
        client.open();
        if pending {
            client.send(&call(1, "wait", &json!({ "seconds": 300 })));
        }
        // The answer shows that the server has also read everything before this line.
        client.send(&call(2, "echo", &json!({ "text": "here" })));
        client.answer(2);
        drop(client.output);
        assert_eq!(client.process.0.wait().unwrap().code(), Some(code));
        drop(client.input);
    }
}

#[test]
fn a_client_that_is_killed_leaves_nothing() {
    let place = Place::new("orphan");
    let _server = serve(&place.socket());
    let script = r#"
        mkfifo "$2/in" "$2/out"
        "$1" proxy "$2/s" <"$2/in" >"$2/out" &
        exec 8>"$2/in" 9<"$2/out"
        echo "$3" >&8
        read -r answer <&9
        echo "$!"
        read -r never
    "#;
    let mut shell = Command::new("sh");
    shell.args(["-c", script, "sh", env!("CARGO_BIN_EXE_lmcp")]);
    shell.arg(place.path(""));
    // The call reports progress after a second, and then runs on.
    let mut wait = modern(
        1,
        "tools/call",
        json!({ "name": "wait", "arguments": { "seconds": 300 } }),
    );
    wait["params"]["_meta"]["progressToken"] = json!(1);
    shell
        .arg(wait.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut parent = Running(shell.spawn().unwrap());
    let mut number = String::new();
    let mut said = BufReader::new(parent.0.stdout.take().unwrap());
    said.read_line(&mut number).unwrap();
    let proxy = Pid::from_raw(number.trim().parse().unwrap()).unwrap();
    let proxy = pidfd_open(proxy, PidfdFlags::empty()).unwrap();
    parent.0.kill().unwrap();
    parent.0.wait().unwrap();
    let mut watched = [PollFd::new(&proxy, PollFlags::IN)];
    let patience = Timespec {
        tv_sec: 60,
        tv_nsec: 0,
    };
    assert_eq!(
        poll(&mut watched, Some(&patience)),
        Ok(1),
        "it is still there"
    );
}

#[test]
fn a_full_or_closed_stderr_does_not_matter() {
    let place = Place::new("mute");
    for full in [true, false] {
        let first = serve(&place.socket());
        let mut command = lmcp(&["proxy"]);
        let (reader, writer) = std::io::pipe().unwrap();
        if full {
            fill(&writer);
        }
        let mut client = Client::new(command.arg(place.socket()).stderr(writer));
        drop(command);
        let reader = Some(reader).filter(|_| full);
        client.open();
        drop(first);
        let _second = serve(&place.socket());
        client.send(&call(1, "echo", &json!({ "text": "still here" })));
        assert_eq!(text(&client.answer(1)), "still here");
        assert_eq!(client.end(), Some(0));
        drop(reader);
    }
}

/// Writes as much as the pipe takes.
fn fill(pipe: &std::io::PipeWriter) {
    fcntl_setfl(pipe, OFlags::NONBLOCK).expect("it is ours");
    while write(pipe, &[b'x'; 4096]) != Err(Errno::AGAIN) {}
    fcntl_setfl(pipe, OFlags::empty()).expect("it is ours");
}

#[test]
fn a_client_that_has_said_all_and_does_not_read_is_given_up() {
    let place = Place::new("stall");
    let listener = UnixListener::bind(place.socket()).unwrap();
    let mut client = Client::of(&place.socket());
    client.send(&modern(1, "tools/call", json!({ "name": "a" })));
    client.send(&modern(2, "tools/call", json!({ "name": "b" })));
    let mut server = Server::accept(&listener);
    assert_eq!(server.receive()["id"], 1);
    // The answer is longer than the pipe and the proxy hold. The input of the client ends after that.
    let result = json!({ "text": "x".repeat(1 << 20) });
    server.send(&json!({ "jsonrpc": "2.0", "id": 1, "result": result }));
    client.input = None;
    assert_eq!(client.process.0.wait().unwrap().code(), Some(1));
}
