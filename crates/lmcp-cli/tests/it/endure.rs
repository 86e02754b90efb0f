//! The binary under heavy use of its port: many connections, junk, a restart. The tests use plain sockets, because a client
//! library would not do any of it.

use std::{
    io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Stdio},
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};

use crate::support::{Running, lmcp};

// Defect L13.
#[test]
fn more_idle_connections_than_it_takes_do_not_stop_it() {
    let most = allow_open_files(1300);
    assert!(most >= 1300, "`ulimit -Hn` forbids this test: {most}");
    for options in [&[][..], &["--connections", "1500"][..]] {
        let server = Server::start("idle", options);
        let mut first = server.connect();
        assert_eq!(post(&mut first, &server, None, &ping(1)).status, 200);
        let idle: Vec<_> = (0..1100).map(|_| server.connect()).collect();
        // Open connections still work; a new one is served or told that there is no room.
        assert_eq!(post(&mut first, &server, None, &ping(2)).status, 200);
        let newcomer = post(&mut server.connect(), &server, None, &ping(3)).status;
        let room = !options.is_empty();
        assert!(newcomer == 200 || newcomer == 503 && !room, "{newcomer}");
        drop(idle);
        // The places are free after the server has noticed.
        while post(&mut server.connect(), &server, None, &ping(4)).status != 200 {}
    }
}

#[test]
fn a_log_that_nobody_reads_holds_up_no_answer() {
    let mut command = lmcp(&["serve", "--demo", "--stdio", "-v"]);
    let mut server = Running(command.spawn().unwrap());
    let mut input = server.0.stdin.take().unwrap();
    let mut answers = BufReader::new(server.0.stdout.take().unwrap());
    let mut log = BufReader::new(server.0.stderr.take().unwrap());
    let mut ask = move |message: Value| {
        writeln!(input, "{message}").unwrap();
        let mut answer = String::new();
        answers.read_line(&mut answer).unwrap();
        assert!(answer.contains("result"), "{answer}");
    };
    let client = json!({ "name": "t", "version": "0" });
    let opening =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    ask(json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": opening }));
    // The log has a line for each call: several times as many bytes as a pipe takes.
    let params = json!({ "name": "echo", "arguments": { "text": "x" } });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    for _ in 0..3000 {
        ask(call.clone());
    }
    // After somebody reads, the log continues, and says how many lines are missing.
    let mut line = String::new();
    while !line.contains("lines of the log are left out here") {
        ask(call.clone());
        line.clear();
        log.read_line(&mut line).unwrap();
    }
}

// Defect L15.
#[test]
fn junk_behind_an_open_stream_is_not_kept() {
    let server = Server::start("junk", &[]);
    let session = server.open_session();
    let mut other = server.connect();
    for id in 0..50 {
        post(&mut other, &server, Some(&session), &ping(id));
    }
    let mut stream = server.connect();
    let get = format!(
        "GET /mcp HTTP/1.1\r\nhost: {}\r\naccept: text/event-stream\r\nmcp-session-id: {session}\r\n\r\n",
        server.address
    );
    stream.write_all(get.as_bytes()).unwrap();
    assert_eq!(read_head(&mut stream).0, 200);
    let before = server.resident();

    stream.set_nonblocking(true).unwrap();
    let junk = vec![b'x'; 64 << 10];
    let (mut written, mut stuck) = (0, 0);
    // Each request on the other connection gives the server a turn to read more of the junk.
    while written < 6 << 20 && stuck < 100 {
        match stream.write(&junk) {
            Ok(more) => (written, stuck) = (written + more, 0),
            Err(err) if err.kind() == ErrorKind::WouldBlock => {
                stuck += 1;
                post(&mut other, &server, Some(&session), &ping(stuck));
            }
            // The server closed the connection, which is fine.
            Err(_) => break,
        }
    }
    let grown = server.resident().saturating_sub(before);
    assert!(
        grown < 2 << 10,
        "{grown} kB more after {written} bytes of junk"
    );
    assert_eq!(
        post(&mut other, &server, Some(&session), &ping(1)).status,
        200
    );
}

/// A cancelled call leaves no stream that a client could resume.
// Defect L22.
#[test]
fn cancelled_calls_leave_nothing() {
    let server = Server::start("cancelled", &[]);
    let session = server.open_session();
    let (mut calling, mut other) = (server.connect(), server.connect());
    let mut cancel_calls = |count: usize| {
        for id in 0..count {
            let params = json!({ "name": "wait", "arguments": { "seconds": 300 } });
            let call =
                json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
            send(&mut calling, &server, Some(&session), &call);
            calling.set_nonblocking(true).unwrap();
            // The cancellation may arrive before the call; after the call has arrived, it ends the call.
            while calling.peek(&mut [0]).is_err() {
                let params = json!({ "requestId": id });
                let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
                post(&mut other, &server, Some(&session), &cancel);
            }
            calling.set_nonblocking(false).unwrap();
            assert_eq!(receive(&mut calling).status, 202);
        }
    };
    cancel_calls(500);
    let before = server.resident();
    cancel_calls(5000);
    let grown = server.resident().saturating_sub(before);
    assert!(
        grown < 1 << 10,
        "{grown} kB more after 5000 cancelled calls"
    );
}

#[test]
fn a_restart_strands_no_client() {
    let first = Server::start("restart", &[]);
    let session = first.open_session();
    let state = first.state.clone();
    drop(first);
    let second = Server::again(state.clone(), &[]);
    let answer = post(&mut second.connect(), &second, Some(&session), &ping(1));
    assert_eq!((answer.status, &answer.json["result"]), (200, &json!({})));
    drop(second);
    // Without the key, the server does not know the session, and says so.
    std::fs::remove_dir_all(&state).unwrap();
    let third = Server::again(state, &[]);
    assert_eq!(
        post(&mut third.connect(), &third, Some(&session), &ping(1)).status,
        404
    );
}

// Defect L3.
#[test]
fn by_default_only_this_machine_reaches_it() {
    let server = Server::start("local", &[]);
    assert!(server.address.ip().is_loopback());
}

/// A server that runs, and ends with the test.
struct Server {
    child: Child,
    address: SocketAddr,
    state: PathBuf,
}

impl Server {
    fn start(name: &str, options: &[&str]) -> Self {
        Self::again(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name), options)
    }

    fn again(state: PathBuf, options: &[&str]) -> Self {
        let mut command = lmcp(&["serve", "--demo", "--http", "127.0.0.1:0"]);
        command.args(options).env("LMCP_STATE_DIR", &state);
        let mut child = command
            .stdout(Stdio::null())
            .spawn()
            .expect("the binary was built");
        let said = child.stderr.take().expect("stderr is a pipe");
        let mut lines = BufReader::new(said).lines().map_while(Result::ok);
        let address = lines.find_map(|line| {
            let rest = line.split_once("listening on http://")?.1;
            rest.strip_suffix("/mcp")?.parse().ok()
        });
        Self {
            child,
            address: address.expect("it says where it listens"),
            state,
        }
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).expect("it listens")
    }

    fn open_session(&self) -> String {
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "x", "version": "1" } });
        let message =
            json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let answer = post(&mut self.connect(), self, None, &message);
        let line = answer
            .head
            .lines()
            .find(|line| line.to_lowercase().starts_with("mcp-session-id:"));
        line.and_then(|line| line.split_once(": "))
            .expect("a session is given")
            .1
            .to_owned()
    }

    /// Returns the resident memory, in kB.
    fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.expect("the process lives");
        let mut figures = status
            .lines()
            .filter_map(|line| line.strip_prefix("VmRSS:"));
        let figure = figures
            .next()
            .and_then(|line| line.split_whitespace().next());
        figure
            .and_then(|figure| figure.parse().ok())
            .expect("the kernel tells")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Answer {
    status: u16,
    head: String,
    json: Value,
}

fn ping(id: usize) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "ping" })
}

fn post(stream: &mut TcpStream, server: &Server, session: Option<&str>, message: &Value) -> Answer {
    send(stream, server, session, message);
    receive(stream)
}

fn send(stream: &mut TcpStream, server: &Server, session: Option<&str>, message: &Value) {
    let body = message.to_string();
    let session = session.map_or_else(String::new, |session| {
        format!("mcp-session-id: {session}\r\n")
    });
    let request = format!(
        "POST /mcp HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\n\
         content-length: {}\r\n{session}\r\n{body}",
        server.address,
        body.len(),
    );
    // The server may already have closed a refused connection; its answer can still be read.
    let _ = stream.write_all(request.as_bytes());
}

fn receive(stream: &mut TcpStream) -> Answer {
    let (status, head) = read_head(stream);
    let length = head.lines().find_map(|line| {
        line.to_lowercase()
            .strip_prefix("content-length: ")?
            .parse()
            .ok()
    });
    let mut body = vec![0; length.unwrap_or_default()];
    let read = stream.read_exact(&mut body);
    read.expect("the body is as long as it says");
    Answer {
        status,
        head,
        json: serde_json::from_slice(&body).unwrap_or_default(),
    }
}

/// Returns the status, and all lines before the body.
fn read_head(stream: &mut TcpStream) -> (u16, String) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or_default() == 1 {
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
    (status.unwrap_or_default(), head)
}

/// Allows this process this many open files, if the system permits it. Returns the limit.
fn allow_open_files(wanted: u64) -> u64 {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return wanted;
    }
    let raised = Rlimit {
        current: Some(wanted),
        maximum: limit.maximum,
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => wanted,
        Err(_) => limit.current.unwrap_or_default(),
    }
}
