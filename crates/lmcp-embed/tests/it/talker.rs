//! A child that sends the lines of its test, one by one.

use std::{
    io::{BufReader, Lines, Write as _},
    process::{Child as Process, ChildStdin, ChildStdout, Command, Stdio},
};

use lmcp_embed::Child;
use serde_json::Value;

use crate::visitor::follow;

/// Passes lines between its stdin, the socket and its stdout.
const SCRIPT: &str = r#"
import json, os, socket, sys, threading
credentials = json.load(open(os.environ["LMCP_IDENTITY_FILE"]))
connection = socket.socket(socket.AF_UNIX)
connection.connect(credentials["socket"])
connection.sendall(json.dumps({"lmcp_identity": credentials["identity"]}).encode() + b"\n")
def pass_on():
    for line in connection.makefile("r", encoding="utf-8", newline="\n"):
        print(line, end="", flush=True)
    os._exit(0)
threading.Thread(target=pass_on).start()
for line in sys.stdin:
    connection.sendall(line.encode())
connection.shutdown(socket.SHUT_WR)
"#;

pub(crate) struct Talker {
    process: Process,
    says: ChildStdin,
    heard: Lines<BufReader<ChildStdout>>,
}

impl Talker {
    /// Starts the talker as this child, and reads its welcome.
    pub(crate) fn start(child: &Child) -> Self {
        let mut command = Self::command();
        Self::of(child.spawn(&mut command).unwrap())
    }

    pub(crate) fn command() -> Command {
        let mut command = Command::new("python3");
        command
            .args(["-c", SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        command
    }

    /// Wraps a process that was started already.
    pub(crate) fn of(mut process: Process) -> Self {
        let mut talker = Self {
            says: process.stdin.take().unwrap(),
            heard: follow(&mut process),
            process,
        };
        let welcome = talker.next();
        assert!(welcome["lmcp_welcome"].is_object(), "{welcome}");
        talker
    }

    pub(crate) fn say(&mut self, line: &str) {
        writeln!(self.says, "{line}").unwrap();
    }

    pub(crate) fn next(&mut self) -> Value {
        let line = self.heard.next().unwrap().unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Reads until this notification arrives.
    pub(crate) fn hear(&mut self, method: &str) -> Value {
        loop {
            let message = self.next();
            if message["method"] == method {
                return message;
            }
        }
    }

    /// Sends a request, and returns the answer.
    pub(crate) fn ask(&mut self, request: &str) -> Value {
        let id = serde_json::from_str::<Value>(request).unwrap()["id"].clone();
        self.say(request);
        loop {
            let message = self.next();
            if message["id"] == id {
                return message;
            }
        }
    }

    /// Opens a session, as clients before 2026-07-28 do.
    pub(crate) fn handshake(&mut self) {
        let answer = self.ask(
            r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"0"}}}"#,
        );
        assert!(answer["result"].is_object(), "{answer}");
        self.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        // The server handles lines in order: after this answer, it sends notifications.
        self.ask(r#"{"jsonrpc":"2.0","id":0,"method":"ping"}"#);
    }
}

impl Drop for Talker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
