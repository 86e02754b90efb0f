//! `lmcp proxy` between a client and a server, each a process or a socket.

mod ending;
mod folder;
mod host;
mod identity;
mod losing;
mod pressure;
mod url;

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command},
};

pub(crate) use lmcp_testkit::request as modern;
use serde_json::{Value, json};

use crate::support::{Running, folder, lmcp};

/// A folder for the sockets of one test, with a short name, because paths of sockets must be short.
pub(crate) struct Place(PathBuf);

impl Place {
    pub(crate) fn new(name: &str) -> Self {
        let place = folder(&format!("p-{name}"));
        fs::create_dir_all(&place).expect("tests may write here");
        Self(place)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.path("s")
    }
}

/// Starts a server with the demo tools, and waits until it listens.
pub(crate) fn serve(socket: &Path) -> Running {
    let mut command = lmcp(&["serve", "--demo", "--unix"]);
    listening(command.arg(socket))
}

/// Waits until the server listens.
pub(crate) fn listening(command: &mut Command) -> Running {
    let mut running = Running(command.spawn().expect("the binary was built for this test"));
    let mut stderr = BufReader::new(running.0.stderr.take().expect("stderr is a pipe"));
    let mut line = String::new();
    while !line.starts_with("listening on") {
        line.clear();
        let read = stderr.read_line(&mut line).expect("it says text");
        assert!(read > 0, "it did not start");
    }
    running.0.stderr = Some(stderr.into_inner());
    running
}

/// A client of a proxy.
pub(crate) struct Client {
    pub(crate) process: Running,
    pub(crate) input: Option<ChildStdin>,
    pub(crate) output: BufReader<ChildStdout>,
}

impl Client {
    pub(crate) fn new(command: &mut Command) -> Self {
        let mut process: Child = command.spawn().expect("the binary was built for this test");
        Self {
            input: process.stdin.take(),
            output: BufReader::new(process.stdout.take().expect("stdout is a pipe")),
            process: Running(process),
        }
    }

    pub(crate) fn of(socket: &Path) -> Self {
        Self::new(lmcp(&["proxy"]).arg(socket))
    }

    pub(crate) fn send(&mut self, message: &Value) {
        let line = format!("{message}\n");
        let input = self.input.as_mut().expect("it has not ended");
        input.write_all(line.as_bytes()).expect("the proxy reads");
    }

    /// Returns the next line; `Null` at the end.
    pub(crate) fn receive(&mut self) -> Value {
        let mut line = String::new();
        let read = self.output.read_line(&mut line);
        read.expect("it says text");
        serde_json::from_str(&line).unwrap_or_default()
    }

    /// Returns the answer to a request. Earlier messages are skipped.
    pub(crate) fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.receive();
            assert_ne!(message, Value::Null, "it ended without an answer to {id}");
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }

    /// Makes the handshake.
    pub(crate) fn open(&mut self) {
        self.send(&initialize());
        assert_eq!(self.answer(0)["result"]["protocolVersion"], "2025-11-25");
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    }

    /// Ends the input, and waits for the end of the proxy.
    pub(crate) fn end(mut self) -> Option<i32> {
        self.input = None;
        let ended = self.process.0.wait();
        ended.expect("it is our child").code()
    }
}

pub(crate) fn initialize() -> Value {
    let info = json!({ "name": "test", "version": "0" });
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info });
    json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params })
}

/// Returns a call of a client that made a handshake.
pub(crate) fn call(id: u64, tool: &str, arguments: &Value) -> Value {
    let params = json!({ "name": tool, "arguments": arguments });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
}

pub(crate) fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_default()
}

/// A server in this test, which sends and receives single lines.
pub(crate) struct Server {
    pub(crate) lines: BufReader<UnixStream>,
}

impl Server {
    pub(crate) fn accept(listener: &UnixListener) -> Self {
        let (stream, _) = listener.accept().expect("somebody comes");
        Self {
            lines: BufReader::new(stream),
        }
    }

    /// Returns the next line; `Null` at the end.
    pub(crate) fn receive(&mut self) -> Value {
        let mut line = String::new();
        let read = self.lines.read_line(&mut line);
        read.expect("it says text");
        serde_json::from_str(&line).unwrap_or_default()
    }

    pub(crate) fn send(&mut self, message: &Value) {
        let line = format!("{message}\n");
        let written = self.lines.get_mut().write_all(line.as_bytes());
        written.expect("it is there");
    }
}
