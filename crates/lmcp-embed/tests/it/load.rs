//! Clients that send too much, read too little, or are fast.

use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::{fs::PermissionsExt as _, net::UnixStream},
    sync::{Arc, Mutex},
};

use lmcp_core::{Cx, Server, Tool};
use lmcp_embed::{Host, whoami};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::visitor::{call, heard, visitor};

#[derive(Deserialize, JsonSchema)]
struct Number {
    /// Any.
    number: u64,
}

/// Returns a server that notes the arguments of its calls, and the list of notes.
fn server() -> (Server, Arc<Mutex<Vec<u64>>>) {
    let noted = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&noted);
    let note = move |args: Number, _: Cx| {
        let notes = Arc::clone(&notes);
        async move {
            notes.lock().unwrap().push(args.number);
            // Other calls run while this one waits.
            tokio::task::yield_now().await;
            "x".repeat(10_000)
        }
    };
    let tool = Tool::new("note", note).about("Notes a number.").writes();
    (
        Server::new("load", "1.0.0").tool(tool).tool(whoami()),
        noted,
    )
}

fn host() -> (Host, Arc<Mutex<Vec<u64>>>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    let (server, noted) = server();
    let host = Host::start_in(server, folder.path()).unwrap();
    (host, noted, folder)
}

#[test]
fn a_greeting_without_end_is_refused() {
    let (host, _, _folder) = host();
    let mut stream = UnixStream::connect(host.socket()).unwrap();
    // The host closes the connection meanwhile; the number of bytes that it accepted does not matter.
    let chunk = [b'x'; 65536];
    for _ in 0..64 {
        if stream.write_all(&chunk).is_err() {
            break;
        }
    }
    let mut said = String::new();
    let _ = stream.read_to_string(&mut said);
    assert!(said.contains("at most 4096 bytes"), "{said}");
}

#[test]
fn connections_that_say_nothing_keep_nobody_out() {
    let (host, _, _folder) = host();
    // These are twice as many connections as there is room for.
    let silent: Vec<_> = (0..2048)
        .map_while(|_| UnixStream::connect(host.socket()).ok())
        .collect();
    let child = host.child("one", "worker").unwrap();
    let who = [call(1, "whoami", &json!({}))];
    let heard = heard(child.spawn(&mut visitor("env", 2, &who)).unwrap());
    assert_eq!(heard[1]["result"]["structuredContent"]["label"], "one");
    drop(silent);
}

/// Connects, and sends its greeting only after a line of input.
const SLOW: &str = r#"
import json, os, socket
credentials = json.load(open(os.environ["LMCP_IDENTITY_FILE"]))
connection = socket.socket(socket.AF_UNIX)
connection.connect(credentials["socket"])
print("connected", flush=True)
input()
connection.sendall(json.dumps({"lmcp_identity": credentials["identity"]}).encode() + b"\n")
print(connection.makefile().readline(), flush=True)
"#;

// Defect D16.
#[test]
fn who_connects_again_and_again_pushes_out_itself_and_not_others() {
    let (host, _, _folder) = host();
    let child = host.child("slow", "worker").unwrap();
    let mut command = std::process::Command::new("python3");
    command
        .args(["-c", SLOW])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped());
    let mut slow = child.spawn(&mut command).unwrap();
    let mut lines = crate::visitor::follow(&mut slow);
    assert_eq!(lines.next().unwrap().unwrap(), "connected");
    let silent: Vec<_> = (0..500)
        .map_while(|_| UnixStream::connect(host.socket()).ok())
        .collect();
    // The next client is served only after them, so all of them have been accepted by then.
    let other = host.child("other", "worker").unwrap();
    heard(other.spawn(&mut visitor("env", 1, &[])).unwrap());
    slow.stdin.take().unwrap().write_all(b"\n").unwrap();
    let answer = lines.next().unwrap().unwrap();
    assert!(answer.contains("lmcp_welcome"), "{answer}");
    slow.wait().unwrap();
    drop(silent);
}

#[test]
fn requests_begin_in_the_order_they_came() {
    let (host, noted, _folder) = host();
    let child = host.child("quick", "worker").unwrap();
    let lines: Vec<_> = (0..200)
        .map(|number| call(number, "note", &json!({ "number": number })))
        .collect();
    let heard = heard(child.spawn(&mut visitor("env", 201, &lines)).unwrap());
    assert_eq!(heard.len(), 201);
    assert_eq!(*noted.lock().unwrap(), (0..200).collect::<Vec<_>>());
}

#[test]
fn who_never_reads_holds_up_nobody() {
    let (host, _, _folder) = host();
    let deaf = host.child("deaf", "worker").unwrap();
    let lines: Vec<_> = (0..300)
        .map(|number| call(number, "note", &json!({ "number": number })))
        .collect();
    // The client reads its welcome, and then sleeps, with 3 MB of answers still unread.
    let mut command = visitor("env", 1, &lines);
    let script = format!(
        "exec(open({:?}).read()); import time; time.sleep(600)",
        command.get_args().next().unwrap()
    );
    let arguments: Vec<_> = command.get_args().skip(1).map(ToOwned::to_owned).collect();
    command = std::process::Command::new("python3");
    command
        .args(["-c", &script])
        .args(arguments)
        .stdout(std::process::Stdio::piped());
    let mut process = deaf.spawn(&mut command).unwrap();
    let mut lines = crate::visitor::follow(&mut process);
    assert!(lines.next().unwrap().unwrap().contains("lmcp_welcome"));
    let other = host.child("other", "worker").unwrap();
    let who = [call(1, "whoami", &json!({}))];
    let heard = heard(other.spawn(&mut visitor("env", 2, &who)).unwrap());
    assert_eq!(heard[1]["result"]["structuredContent"]["label"], "other");
    process.kill().unwrap();
    process.wait().unwrap();
}
