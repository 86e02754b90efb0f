//! `lmcp bridge`: offers a server on another transport, to clients of another revision than its own.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::net::UnixStream,
    process::Stdio,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{folder, lmcp, post, said, start};

/// A server that knows only the oldest revision. Its tool returns the number of its process and counts its calls.
const OLD: &str = r#"
import json, os, sys
calls = 0
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    if message["method"] == "initialize":
        result = {"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}, "serverInfo": {"name": "old", "version": "1"}}
    elif message["method"] == "tools/list":
        result = {"tools": [{"name": "count", "inputSchema": {"type": "object"}}]}
    elif message["method"] == "tools/call":
        calls += 1
        result = {"content": [{"type": "text", "text": f"{os.getpid()} {calls}"}]}
    else:
        answer = {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no such method"}}
        print(json.dumps(answer), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"#;

fn modern(method: &str, name: Option<&str>) -> (String, Value) {
    let mut params = json!({});
    let mut headers = format!(
        "mcp-protocol-version: 2026-07-28\r\nmcp-method: {method}\r\naccept: application/json, text/event-stream\r\n"
    );
    if let Some(name) = name {
        params["name"] = name.into();
        params["arguments"] = json!({});
        headers.push_str(&format!("mcp-name: {name}\r\n"));
    }
    (headers, lmcp_testkit::request(1, method, params))
}

/// Returns the process of the server behind the bridge, and how often it was called.
fn count(address: &str) -> (i32, u32) {
    let (headers, message) = modern("tools/call", Some("count"));
    let (status, answer) = post(address, &headers, &message);
    let text = answer["result"]["content"][0]["text"].as_str();
    let text = text.unwrap_or_else(|| panic!("{status}: {answer}"));
    let (process, calls) = text.split_once(' ').expect("two numbers");
    (
        process.parse().expect("a number"),
        calls.parse().expect("a number"),
    )
}

#[test]
fn an_old_server_serves_new_clients_over_http_and_is_shared() {
    let (_bridge, address, _) = start(lmcp(&[
        "bridge", "--http", ":0", "--", "python3", "-c", OLD,
    ]));
    let (headers, message) = modern("server/discover", None);
    let (_, answer) = post(&address, &headers, &message);
    assert!(
        answer["result"]["capabilities"]["tools"].is_object(),
        "{answer}"
    );
    let (process, calls) = count(&address);
    assert_eq!(calls, 1);
    assert_eq!(count(&address), (process, 2));
    // A killed server is started again.
    kill_process(Pid::from_raw(process).unwrap(), Signal::KILL).unwrap();
    let (next, calls) = loop {
        let (headers, message) = modern("tools/call", Some("count"));
        let (_, answer) = post(&address, &headers, &message);
        if answer["error"]["data"]["retriable"] != true {
            break count(&address);
        }
    };
    assert_ne!(next, process);
    assert!(calls >= 1);
}

#[test]
fn a_new_server_serves_old_clients_on_stdio() {
    let folder = folder("bridge-old");
    fs::create_dir_all(&folder).unwrap();
    let mut bridge = lmcp(&[
        "bridge",
        "--stdio",
        "--",
        env!("CARGO_BIN_EXE_lmcp"),
        "serve",
        "--demo",
        "--stdio",
    ]);
    let messages = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": { "name": "old", "version": "1" } }}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": "echo", "arguments": { "text": "hi" } }}),
    ];
    let input = folder.join("input");
    fs::write(
        &input,
        messages.map(|message| format!("{message}\n")).concat(),
    )
    .unwrap();
    let output = bridge
        .stdin(fs::File::open(input).unwrap())
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let answers: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        answers[0]["result"]["protocolVersion"], "2024-11-05",
        "{text}"
    );
    let called = answers
        .iter()
        .find(|answer| answer["id"] == 2)
        .unwrap_or_else(|| panic!("{text}"));
    assert_eq!(called["result"]["content"][0]["text"], "hi", "{text}");
}

#[test]
fn a_server_that_cannot_be_started_is_told_to_whoever_calls() {
    let script = "echo out of luck >&2; exit 9";
    let (_bridge, address, _) = start(lmcp(&["bridge", "--http", ":0", "--", "sh", "-c", script]));
    let (headers, message) = modern("tools/list", None);
    let (_, answer) = post(&address, &headers, &message);
    let words = answer["error"]["message"].to_string();
    assert!(
        words.contains("exit status 9") && words.contains("out of luck"),
        "{answer}"
    );
}

#[test]
fn a_bridge_that_ends_closes_the_stdin_of_its_server_first() {
    let folder = folder("bridge-good-bye");
    fs::create_dir_all(&folder).unwrap();
    for mode in ["shared", "per-client"] {
        let ended = folder.join(mode);
        let script = format!("{OLD}\nopen({:?}, 'w').close()\n", ended.to_str().unwrap());
        let mut arguments = vec!["bridge", "--http", ":0"];
        arguments.extend((mode == "per-client").then_some("--per-client"));
        arguments.extend(["--", "python3", "-c", &script]);
        let (mut bridge, address, _) = start(lmcp(&arguments));
        count(&address);
        let process = i32::try_from(bridge.0.id()).unwrap();
        kill_process(Pid::from_raw(process).unwrap(), Signal::TERM).unwrap();
        bridge.0.wait().unwrap();
        assert!(ended.exists(), "{mode}: the server was killed");
    }
}

#[test]
fn a_bridge_to_nothing_is_a_mistake() {
    let (code, words) = said(&lmcp(&["bridge", "--http", ":0"]).output().unwrap());
    assert_eq!(code, Some(2), "{words}");
    let (code, words) = said(&lmcp(&["bridge", "--at", "ftp://x/mcp"]).output().unwrap());
    assert_eq!(code, Some(2), "{words}");
}

/// Calls the tool on a connection to a socket.
fn count_on(connection: &mut BufReader<UnixStream>) -> (i32, u32) {
    let (_, message) = modern("tools/call", Some("count"));
    let line = format!("{message}\n");
    connection
        .get_mut()
        .write_all(line.as_bytes())
        .expect("it reads");
    let mut answer = String::new();
    connection.read_line(&mut answer).expect("it answers");
    let answer: Value = serde_json::from_str(&answer).expect("an answer is JSON");
    let text = answer["result"]["content"][0]["text"].as_str();
    let (process, calls) = text
        .and_then(|text| text.split_once(' '))
        .unwrap_or_else(|| panic!("{answer}"));
    (
        process.parse().expect("a number"),
        calls.parse().expect("a number"),
    )
}

#[test]
fn every_client_has_a_server_of_its_own_if_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let path = socket.to_str().unwrap();
    let options = [
        "bridge",
        "--per-client",
        "--unix",
        path,
        "--",
        "python3",
        "-c",
        OLD,
    ];
    let (_bridge, _) = crate::unix::start(lmcp(&options));
    let connect = || BufReader::new(UnixStream::connect(&socket).unwrap());
    let (mut one, mut other) = (connect(), connect());
    let (first, calls) = count_on(&mut one);
    assert_eq!(calls, 1);
    let (second, calls) = count_on(&mut other);
    assert_eq!(calls, 1);
    assert_ne!(first, second);
    assert_eq!(count_on(&mut one), (first, 2));
    drop(one);
    // Its server ends with the client, and the other one runs on.
    while std::path::Path::new(&format!("/proc/{first}")).exists() {
        std::thread::yield_now();
    }
    assert_eq!(count_on(&mut other), (second, 2));
}

/// A server that asks while it works: `ask` asks its client, `wait` runs until the next call.
const ASKING: &str = r#"
import json, sys
def say(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def done(id, text):
    say({"id": id, "result": {"content": [{"type": "text", "text": text}]}})
waiting = asking = None
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "initialize":
        say({"id": message["id"], "result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "a", "version": "1"}}})
    elif message.get("method") == "tools/call" and message["params"]["name"] == "wait":
        waiting = message["id"]
        token = message["params"]["_meta"]["progressToken"]
        say({"method": "notifications/progress", "params": {"progressToken": token, "progress": 1}})
    elif message.get("method") == "tools/call":
        asking = message["id"]
        say({"id": 77, "method": "elicitation/create", "params": {"message": "really?", "requestedSchema": {"type": "object", "properties": {}}}})
    elif message.get("id") == 77 and "method" not in message:
        done(asking, "refused" if "error" in message else message["result"]["action"])
        if waiting is not None:
            done(waiting, "waited")
    elif "id" in message and "method" in message:
        say({"id": message["id"], "error": {"code": -32601, "message": "no such method"}})
"#;

/// Returns a client with a handshake that can be asked.
fn asked_client(socket: &std::path::Path) -> BufReader<UnixStream> {
    let mut client = BufReader::new(UnixStream::connect(socket).expect("it listens"));
    let opening = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": { "elicitation": {} },
        "clientInfo": { "name": "c", "version": "1" } }});
    tell(&mut client, &opening);
    assert_eq!(heard(&mut client)["id"], 0);
    tell(
        &mut client,
        &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
    );
    client
}

fn tell(client: &mut BufReader<UnixStream>, message: &Value) {
    let line = format!("{message}\n");
    client
        .get_mut()
        .write_all(line.as_bytes())
        .expect("it reads");
}

fn heard(client: &mut BufReader<UnixStream>) -> Value {
    let mut line = String::new();
    client.read_line(&mut line).expect("it answers");
    serde_json::from_str(&line).expect("an answer is JSON")
}

#[test]
fn a_question_is_put_to_nobody_while_several_clients_call() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let path = socket.to_str().unwrap();
    let options = ["bridge", "--unix", path, "--", "python3", "-c", ASKING];
    let (_bridge, _) = crate::unix::start(lmcp(&options));
    let call = |name: &str| json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": name, "arguments": {}, "_meta": { "progressToken": 5 } }});
    let (mut one, mut other) = (asked_client(&socket), asked_client(&socket));
    // A client that is alone is asked.
    tell(&mut one, &call("ask"));
    let question = heard(&mut one);
    assert_eq!(question["method"], "elicitation/create", "{question}");
    tell(
        &mut one,
        &json!({"jsonrpc": "2.0", "id": question["id"], "result": { "action": "decline" }}),
    );
    assert_eq!(heard(&mut one)["result"]["content"][0]["text"], "decline");
    // The server does not say which call a question belongs to, so with two clients nobody is asked.
    tell(&mut one, &call("wait"));
    assert_eq!(heard(&mut one)["method"], "notifications/progress");
    tell(&mut other, &call("ask"));
    let answer = heard(&mut other);
    assert_eq!(
        answer["result"]["content"][0]["text"], "refused",
        "{answer}"
    );
    assert_eq!(heard(&mut one)["result"]["content"][0]["text"], "waited");
}
