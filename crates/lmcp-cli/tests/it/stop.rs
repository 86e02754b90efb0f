//! The end of a server: the first signal is a request, the second an order.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    os::unix::process::ExitStatusExt as _,
    process::{Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::support::{Running, lmcp, said, start};

fn send(running: &Running, signal: Signal) {
    let pid = Pid::from_child(&running.0);
    kill_process(pid, signal).expect("it runs");
}

/// Returns `lmcp serve`, started by another program that decides which signals it ignores.
fn serve_behind(starter: &[&str]) -> Command {
    let serve = lmcp(&["serve", "--demo", "--http", ":0"]);
    let mut command = Command::new(starter[0]);
    command
        .args(&starter[1..])
        .arg(serve.get_program())
        .args(serve.get_args())
        .env("LMCP_STATE_DIR", env!("CARGO_TARGET_TMPDIR"))
        .stderr(Stdio::piped());
    command
}

/// Returns `lmcp serve` with no signal ignored, even if the tests themselves were started with `nohup`.
fn serve() -> Command {
    serve_behind(&["env", "--default-signal=HUP,INT,TERM"])
}

/// Begins a call that takes this long, and reads its first event.
fn call(address: &str, seconds: u32) -> TcpStream {
    let meta = json!({ "progressToken": 1 });
    let params = json!({ "name": "wait", "arguments": { "seconds": seconds }, "_meta": meta });
    let body = lmcp_testkit::request(1, "tools/call", params).to_string();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\n\
         mcp-method: tools/call\r\nmcp-name: wait\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.write_all(request.as_bytes()).expect("it reads");
    stream.read_exact(&mut [0; 12]).expect("it answers");
    stream
}

#[test]
fn the_first_signal_lets_running_calls_end() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let (mut running, address, _) = start(serve());
        let mut stream = call(&address, 2);
        send(&running, signal);
        let mut rest = String::new();
        stream
            .read_to_string(&mut rest)
            .expect("the answer is whole");
        assert!(rest.contains("waited 2 s"), "{rest}");
        assert_eq!(running.0.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn the_second_signal_does_not() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let (mut running, address, _) = start(serve());
        let stream = call(&address, 300);
        send(&running, signal);
        // The port is closed after the server has got the first signal.
        while TcpStream::connect(&address).is_ok() {}
        send(&running, signal);
        let status = running.0.wait().unwrap();
        assert_eq!((status.code(), status.signal()), (Some(code), None));
        drop(stream);
    }
}

#[test]
fn on_stdio_a_signal_ends_it() {
    let mut child = lmcp(&["serve", "--demo", "--stdio"]).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    writeln!(input, r#"{{"jsonrpc":"2.0","id":1,"method":"ping"}}"#).unwrap();
    // The server answers, so it already handles signals.
    child
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut [0; 10])
        .unwrap();
    let mut running = Running(child);
    send(&running, Signal::TERM);
    assert_eq!(running.0.wait().unwrap().code(), Some(143));
    // Older SDKs end every server with this signal, and show its stderr to people.
    let mut words = String::new();
    let mut stderr = running.0.stderr.take().unwrap();
    stderr.read_to_string(&mut words).unwrap();
    assert_eq!(words, "");
    drop(input);
}

#[test]
fn a_client_that_closes_our_output_has_not_had_its_answers() {
    let mut child = lmcp(&["serve", "--demo", "--stdio"]).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    drop(child.stdout.take());
    writeln!(input, r#"{{"jsonrpc":"2.0","id":1,"method":"ping"}}"#).unwrap();
    drop(input);
    let (code, words) = said(&child.wait_with_output().unwrap());
    assert_eq!(code, Some(1), "{words}");
    assert!(
        words.contains("not every answer could be written"),
        "{words}"
    );
}

#[test]
fn who_is_told_to_ignore_a_hang_up_does() {
    // The shell ignores SIGHUP, as `nohup` does.
    let ignoring = serve_behind(&["sh", "-c", "trap '' HUP; exec \"$@\"", "sh"]);
    let (mut running, address, _) = start(ignoring);
    send(&running, Signal::HUP);
    let stream = call(&address, 1);
    drop(stream);
    send(&running, Signal::TERM);
    assert_eq!(running.0.wait().unwrap().code(), Some(0));
}
